"""Lists that are longer than a page: each goes on, or says so and where all of it is."""

import csv
import io
import re
from html import unescape

import pytest

from dueledger.console.pages import flows, reconciliation, system
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.ledger.store.flows import FlowScope, pause_flows
from tests.console.conftest import Browser, open_browser
from tests.service.conftest import SCHEDULE, Api

CUT = "The first 1; there are more. CSV and JSON have up to 10,000 rows."
NEXT = re.compile(r'rel="next" href="([^"]+)"')


async def test_watermarks_go_on_after_a_page_and_have_a_filter(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.owner.execute(
        "insert into ledger.watermark (tenant, kind, complete_before, as_of)"
        " select 'marked', u.kind, u.at, ledger.now() from unnest($1::text[],"
        " array[null, null, timestamptz '2026-01-01Z', timestamptz '2026-01-01Z',"
        " timestamptz '2026-02-01Z']) u (kind, at)",
        ["B", "C", "A", "D", "E"],
    )
    async with open_browser(api) as browser:
        await browser.sign_in(await api.make_key("marks", *Scope, tenants=["marked"]))
        address, kinds = "/console/reconciliation/watermarks?limit=2", list[str]()
        while address:
            page = (await browser.open(address)).text
            kinds += re.findall(r'<span class="flow">.*?</span> (\w)</span>', page)
            address = unescape(next(iter(NEXT.findall(page)), ""))
        assert kinds == ["B", "C", "A", "D", "E"]
        path = "/console/reconciliation/watermarks?format=csv"
        for query, expected in (("", kinds), ("&kind=D", ["D"]), ("&tenant=other", [])):
            sent = (await browser.open(path + query)).text
            assert [row["kind"] for row in csv.DictReader(io.StringIO(sent))] == expected
        monkeypatch.setattr(reconciliation, "WATERMARKS_MAX", 1)
        page = (await browser.open("/console/reconciliation")).text
        assert CUT in page
        assert 'href="/console/reconciliation/watermarks">All watermarks</a>' in page
        sent = (await browser.open("/console/reconciliation?format=csv")).text
        assert len(list(csv.DictReader(io.StringIO(sent)))) == len(kinds)


async def test_pauses_that_a_page_leaves_out_are_in_its_files(
    api: Api, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    for lane in ("a", "b", "c"):
        scope = FlowScope("acme", "Halted", lane)
        await pause_flows(api.owner, scope, reason="INC-1", actor_no=api.person_no)
    monkeypatch.setattr(flows, "PAUSES_MAX", 1)
    path = "/console/flows?kind=Halted"
    assert CUT in (await browser.open(path)).text
    sent = (await browser.open(f"{path}&table=pauses&format=csv")).text
    rows = list(csv.DictReader(io.StringIO(sent)))
    assert [row["lane"] for row in rows] == ["a", "b", "c"]


async def test_changes_of_a_flow_lead_to_all_of_them_in_the_audit(
    api: Api, browser: Browser, key: NewApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.emit(key, api.item("C-1", kind="Changed", lane="n"))
    for rate in ("7", "8"):
        limits = {"lane": "n", "shown": "{}", "rate_per_second": rate, "reason": f"INC-{rate}"}
        done = await browser.send("/console/flows/acme/Changed/limits", limits)
        assert done.status == 303, done.text
    monkeypatch.setattr(flows, "CHANGES_MAX", 1)
    page = (await browser.open("/console/flows/acme/Changed?lane=n")).text
    assert "The audit has older ones." in page
    more = page.partition("All changes of")[2].partition("</p>")[0]
    links = [unescape(each) for each in re.findall(r'href="([^"]+)"', more)]
    listed = [(await browser.open(f"{each}&format=csv")).text for each in links]
    reasons = [[row["reason"] for row in csv.DictReader(io.StringIO(each))] for each in listed]
    assert reasons[0] == ["INC-8", "INC-7"]
    assert len(reasons) == 4


async def test_processes_without_a_sign_of_life_are_first_and_a_file_has_all(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, role, minutes in (
        ("worker:host:7:aaaa", "worker", 2),
        ("allocator:host:8:bbbb", "allocator", 1),
        ("relay:host:9:cccc", "relay", 3),
    ):
        number = await register_actor(api.owner, name, ActorKind.WORKER)
        await api.owner.execute(
            "insert into ledger.process (process_no, role, host, version, started_at, seen_at)"
            " select $1, $2, 'host', '0.1.0', n, n - make_interval(mins => $3)"
            " from ledger.machine_now() n",
            number,
            role,
            minutes,
        )
    async with open_browser(api) as everybody:
        await everybody.sign_in(await api.make_key("sees-processes", *Scope, tenants=None))
        sent = (await everybody.open("/console/system?format=csv")).text
        rows = list(csv.DictReader(io.StringIO(sent)))
        assert [row["role"] for row in rows] == ["relay", "worker", "allocator", "service"]
        assert [row["status"] for row in rows][-1] == "live"
        page = (await everybody.open("/console/system")).text
        assert "Longest without a sign of life first, those that live by role." in page
        monkeypatch.setattr(system, "PROCESSES_MAX", 1)
        page = (await everybody.open("/console/system")).text
        assert CUT in page
        assert "relay:host:9:cccc" in page
        assert "worker:host:7:aaaa" not in page.partition("Kafka topics")[0]
        again = (await everybody.open("/console/system?format=csv")).text
        assert again.count("\n") == sent.count("\n")
        named = await everybody.open("/console/system/process?name=worker:host:7:aaaa")
        assert "No process of this name lives" not in named.text


async def test_the_head_of_a_column_leads_to_the_other_order_of_its_index(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    await api.find("acme", 2)
    for finding in await api.find("acme", 2):
        await api.ask("POST", f"/v1/findings/{finding}/take", key=key, body={})
    await api.park(*await api.emit(key, *(api.item(f"T-{n}", kind="Turned") for n in "12")))
    await api.define("acme", "turned", {**SCHEDULE, "kind": "TurnedDue"})
    for cycle in ("first", "second"):
        body = {"cycle": cycle, "reason": "INC-1"}
        path = "/v1/definitions/acme/turned/trigger"
        triggered = await api.ask("POST", path, key=key, body=body)
        assert triggered.status < 300, triggered.text
    redrive = {"verb": "redrive", "kind": "Turned", "reason": "INC-1"}
    for _ in range(2):
        recorded = await api.ask("POST", "/v1/tenants/acme/operations", key=key, body=redrive)
        assert recorded.status == 202, recorded.text
    for path, label, own, parameter in (
        ("/reconciliation/findings", "Found", "ascending", "newest_first"),
        ("/reviews/findings", "Found", "ascending", "newest_first"),
        ("/reviews/parked", "Parked", "ascending", "newest_first"),
        ("/reviews/operations", "Asked", "descending", "oldest_first"),
        ("/items?kind=Turned", "Effective date", "descending", "oldest_first"),
        ("/schedules/acme/turned", "Due", "descending", "oldest_first"),
    ):
        asked = f"{path}{'&' if '?' in path else '?'}limit=1"
        page = (await browser.open(f"/console{asked}")).text
        head = rf'aria-sort="(\w+)"><a href="([^"]+)">{label}</a>'
        [(order, turned)] = re.findall(head, page)
        assert (order, f"{parameter}=true" in turned) == (own, True)
        page_turned = (await browser.open(unescape(turned))).text
        [(order, back)] = re.findall(head, page_turned)
        assert (order != own, parameter in back) == (True, False)
        rows = [re.findall("<tbody>.*?</tr>", each, re.DOTALL)[-1] for each in (page, page_turned)]
        assert rows[0] != rows[1], path
