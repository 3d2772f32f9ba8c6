"""Reconciliation: findings with both sides, decisions about them, and reports as they were made."""

import csv
import io
from datetime import timedelta
from html import unescape

from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.ledger.store.findings import count_missing
from tests.console.conftest import Browser, open_browser
from tests.service.conftest import Api


async def test_findings_are_counted_by_age_and_shown_with_both_sides(
    api: Api, browser: Browser
) -> None:
    young, old = await api.find("acme", 2)
    await api.owner.execute(
        "update ledger.finding set first_seen_at = ledger.now() - interval '2 days',"
        " expected = $2, actual = $3 where id = $1",
        old,
        {"state": "Completed", "premium": 12},
        {"state": "Scheduled", "premium": 12},
    )
    page = await browser.open("/console/reconciliation")
    assert 'data-label="1–3 d">1' in page.text
    assert "Closes and seals" in page.text
    listed = await browser.open("/console/reconciliation/findings?type=MISSING&format=csv")
    kinds = {row["kind"] for row in csv.DictReader(io.StringIO(listed.text))}
    assert kinds == {"LetterDue"}
    shown = await browser.open(f"/console/reconciliation/findings/{old}")
    row = shown.text.partition('class="differs"')[2].partition("</tr>")[0]
    assert all(words in row for words in ("state", "Completed", "Scheduled", "Differs"))
    assert "premium" not in row
    accepted = await browser.send(
        f"/console/reconciliation/findings/{old}/accept", {"reason": "INC-7"}
    )
    assert accepted.status == 303
    assert "INC-7" in (await browser.open(accepted.location)).text
    explained = await browser.send(
        f"/console/reconciliation/findings/{young}/explain", {"reason": "INC-8"}
    )
    assert explained.status == 303
    again = await browser.send(
        f"/console/reconciliation/findings/{young}/explain", {"reason": "INC-8"}
    )
    assert again.status == 409
    closed = await browser.open("/console/reconciliation/findings?closed=true&format=csv")
    found = {row["resolution"] for row in csv.DictReader(io.StringIO(closed.text))}
    assert {"accepted", "explained"} <= found


async def test_a_pending_repair_that_cannot_be_applied_now_is_no_remedy(
    api: Api, browser: Browser
) -> None:
    [finding] = await api.find("acme")
    path = f"/console/reconciliation/findings/{finding}"
    assert "is pending" not in (await browser.open(path)).text
    await api.propose(finding, api.person_no)
    possible = (await browser.open(path)).text
    await api.owner.execute("update ledger.finding set type = 'LATE' where id = $1", finding)
    impossible = (await browser.open(path)).text
    assert "A repair is pending, and cannot be applied" in impossible
    approve = 'primary">Approve</summary>'
    assert (approve in possible, approve in impossible) == (True, False)
    assert "Approve</summary>" in impossible


async def test_lists_of_findings_have_the_status_of_the_last_repair_of_each(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    undone, twice, proposed = found = await api.find("acme", 3)
    await api.owner.execute(
        "update ledger.finding set kind = 'Repaired', type = 'EVENT_UNMATCHED' where id = any ($1)",
        found,
    )
    await api.propose(twice, api.person_no)
    await api.owner.execute(
        "update ledger.repair set status = 'executed', executed_at = proposed_at,"
        " executed_by = proposed_by, proposed_at = proposed_at + $2 where finding_id = $1",
        twice,
        timedelta(hours=1),
    )
    for finding in (twice, proposed):
        await api.propose(finding, api.person_no)
    statuses = {str(undone): None, str(twice): "executed", str(proposed): "proposed"}
    lists = {
        "/reconciliation/findings": "/findings",
        "/reconciliation/findings?newest_first=true": "/findings?newest_first=true",
        "/reviews/findings": "/findings/undecided",
    }
    for path, route in lists.items():
        kind = f"{'&' if '?' in path else '?'}kind=Repaired"
        page = (await browser.open(f"/console{path}{kind}")).text
        for finding, status in statuses.items():
            row = page.partition(f"/reconciliation/findings/{finding}")[2].partition("</tr>")[0]
            cell = row.partition('data-label="Repair">')[2].partition("</td>")[0]
            assert (status or "–") in cell.lower(), path
        answer = await api.ask("GET", f"/v1{route}{kind}", key=key)
        listed = {row["id"]: row["repair_status"] for row in answer.document["items"]}
        assert listed == statuses
    item = await api.owner.fetchval(
        "update ledger.finding set item_id = gen_random_uuid() where id = $1 returning item_id",
        proposed,
    )
    answer = await api.ask("GET", f"/v1/findings?item={item}", key=key)
    assert [row["repair_status"] for row in answer.document["items"]] == ["proposed"]


async def test_an_item_shows_its_findings_and_their_repairs_to_those_who_audit(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    [item] = await api.emit(key, api.item("F-1"))
    [finding] = await api.find("acme")
    await api.owner.execute(
        "update ledger.finding set item_id = $2, type = 'OVERDUE' where id = $1", finding, item
    )
    await api.propose(finding, api.person_no)
    path, leads = f"/console/items/{item}", f"/console/reconciliation/findings/{finding}"
    shown = (await browser.open(path)).text
    row = shown.partition(f'href="{leads}"')[2].partition("</tr>")[0]
    assert all(words in row for words in ("OVERDUE", "A letter is missing.", "Materialise"))
    async with open_browser(api) as reader:
        await reader.sign_in(await api.make_key("reads items", Scope.READ))
        assert leads not in (await reader.open(path)).text


async def test_a_report_is_shown_and_downloaded_by_those_of_its_tenant(
    api: Api, browser: Browser
) -> None:
    number = await api.report("acme")
    page = await browser.open("/console/reconciliation/reports")
    path = f"/console/reconciliation/reports/{number}"
    for part in ("/page", "", "/findings", "/repairs"):
        assert f'href="{path}{part}?tenant=acme"' in page.text
        given = await browser.open(f"{path}{part}?tenant=acme")
        assert given.status == 200, given.text
        policies = given.headers["Content-Security-Policy"]
        assert policies.startswith("default-src 'none'")
        assert ("sandbox" in policies) == (part == "/page")
    await api.report("*")
    async with open_browser(api) as everybody:
        await everybody.sign_in(await api.make_key("of all", *Scope, tenants=None))
        shown = await everybody.open("/console/reconciliation")
        assert 'data-label="Tenant">all</td>' in shown.text
    async with open_browser(api) as other:
        await other.sign_in(await api.make_key("elsewhere", *Scope, tenants=["umbra"]))
        for part in ("/page", "", "/findings"):
            assert (await other.open(f"{path}{part}?tenant=acme")).status == 404
        assert "P-secret" not in (await other.open("/console/reconciliation/reports")).text


async def test_days_with_missing_items_are_counted_and_each_leads_to_its_findings(
    api: Api, browser: Browser
) -> None:
    first_two, [third], [other] = [await api.find("gapped", count) for count in (2, 1, 1)]
    await api.owner.execute(
        "update ledger.finding set effective_date = '2026-01-01' where id = any ($1)", first_two
    )
    await api.owner.execute(
        "update ledger.finding set effective_date = '2026-02-01' where id = $1", third
    )
    await api.owner.execute("update ledger.finding set type = 'UNEXPECTED' where id = $1", other)
    emitter = await api.make_key("gapped-emitter", *Scope, tenants=["gapped"])
    for day, kind, lane, number in (
        *(("2026-01-01", "LetterDue", lane, number) for lane in ("", "n") for number in (1, 2)),
        ("2026-02-01", "OtherDue", "", 3),
        ("2026-02-02", "LetterDue", "", 4),
    ):
        terms = {"tenant": "gapped", "kind": kind, "lane": lane, "effective_date": day}
        await api.emit(emitter, api.item(f"G{lane}-{number}", **terms))
    path = "/console/reconciliation/missing?kind=LetterDue&tenant=gapped"
    async with open_browser(api) as gapped:
        await gapped.sign_in(await api.make_key("gaps", *Scope, tenants=["gapped"]))
        listed = await gapped.open(f"{path}&format=csv")
        rows = list(csv.DictReader(io.StringIO(listed.text)))
        columns = "effective_date", "expected", "present", "missing"
        assert [tuple(row[name] for name in columns) for row in rows] == [
            ("2026-01-01", "6", "4", "2"),
            ("2026-02-01", "1", "0", "1"),
        ]
        first = (await gapped.open(f"{path}&limit=1")).text
        assert "2026-02-01" not in first
        following = unescape(first.partition('rel="next" href="')[2].partition('"')[0])
        last = (await gapped.open(following)).text
        assert "2026-01-01" not in last
        address = unescape(last.partition('scope="row"><a href="')[2].partition('"')[0])
        behind = await gapped.open(f"{address}&format=csv")
        [row] = csv.DictReader(io.StringIO(behind.text))
        assert (row["type"], row["tenant"]) == ("MISSING", "gapped")
        assert "2026-02-01" in (await gapped.open("/console/reconciliation")).text
    counted = await count_missing(api.owner, tenant="gapped", limit=9, count_max=1)
    assert [(row["missing"], row["missing_capped"]) for row in counted] == [(1, True)]
    [first, _] = await count_missing(api.owner, tenant="gapped", limit=25_000, count_max=9)
    assert (first["present"], first["present_capped"]) == (2, True)
    assert (first["expected"], first["expected_capped"]) == (4, True)
    hidden = await browser.open(f"{path}&format=csv")
    assert hidden.text.splitlines() == listed.text.splitlines()[:1]
