"""What is late, for whom and why, stands at the beginning of the first page, and agrees below."""

import csv
import io
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from html import unescape

from dueledger.console.activity import LedgerActivity
from dueledger.console.late_flows import REASONS_MAX
from dueledger.console.overview import OverviewRefresh
from dueledger.console.pages.now import ALERTS_MAX
from dueledger.ledger.presence import open_presence
from dueledger.ledger.rules.drafts import ItemDraft, Overlap
from dueledger.ledger.states import State
from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.flows import FlowLimits, FlowScope, pause_flows, set_flow_limits
from dueledger.ledger.store.items import emit_items
from dueledger.ledger.store.overview import add_overview_flows, read_overview_runs
from dueledger.ledger.store.processes import ProcessRole
from tests.console.conftest import Browser, open_browser
from tests.console.test_now import figures
from tests.console.test_overview import activity, api, key
from tests.ledger.conftest import Ledger
from tests.service.conftest import Api

__all__ = ["activity", "api", "key"]  # the ledger has what one test made alone

_ROW = re.compile(r'<tr><th scope="row"><a href="[^"]+">(.*?)</th>', re.DOTALL)
_AGE = re.compile(r'<td class="quiet age">([^<]*)</td>')


def text_of(html: str) -> str:
    """Return what is read of HTML, in one line."""
    return " ".join(unescape(re.sub("<[^>]+>", " ", html)).split())


async def verdict(browser: Browser) -> str:
    """Return the first sentence of the first page, and the reason that follows it."""
    page = (await browser.open("/console/")).text
    return text_of(page.partition("<h1")[2].partition(">")[2].partition("</h1>")[0])


async def late_lanes(browser: Browser, path: str) -> set[str]:
    """Return the lanes of the flows that a table says to be late."""
    rows = csv.DictReader(io.StringIO((await browser.open(f"{path}?format=csv")).text))
    return {row["lane"] for row in rows if row["is_past_sla"] == "true"}


async def test_a_flow_whose_items_were_due_before_the_strip_is_its_first_row(
    api: Api, browser: Browser, key: NewApiKey, activity: LedgerActivity
) -> None:
    refresh = OverviewRefresh(activity, budget_seconds=30)
    await api.emit(key, api.item("B-1", kind="Before"))
    await api.owner.execute("update ledger.pending set available_at = '2026-01-01 09:00+00'")
    await add_overview_flows(api.owner, limit=9)
    await read_overview_runs(api.owner, items_max=9)
    for path in ("/console/", "/console/flows/acme/Before"):
        assert _AGE.findall((await browser.open(path)).text) == ["not yet"], path
    await refresh.refresh(api.owner)
    for path in ("/console/", "/console/flows/acme/Before"):
        page = (await browser.open(path)).text
        assert "Nothing was due in the last 24 hours" not in page
        [row], [age] = _ROW.findall(page), _AGE.findall(page)
        assert text_of(row) == "acme Before late, due 2026-01-01 09:00"
        assert re.fullmatch(r"\d{1,3} s ago", age), path
        [href] = re.findall(r'<a class="since" href="([^"]+)"', page)
        assert "B-1" in (await browser.open(unescape(href))).text
    await api.emit(key, *[api.item(f"T-{number}", kind="Today") for number in range(9)])
    await refresh.refresh(api.owner)
    page = (await browser.open("/console/")).text
    assert [text_of(row)[:11] for row in _ROW.findall(page)] == ["acme Before", "acme Today "]
    sums = csv.DictReader(
        io.StringIO((await browser.open("/console/?format=csv&table=strip_listing")).text)
    )
    late = [(row["kind"], row["is_late"]) for row in sums]
    assert late == [("Before", "true"), ("Today", "true")]


async def test_the_first_sentence_says_which_flow_is_late_and_why(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    assert await verdict(browser) == "Nothing is due, and nothing is late."
    await api.emit(key, api.item("V-1", kind="First", due_at="2025-01-01T09:00:00Z"))
    assert re.fullmatch(
        r"1 flow is late\. acme First has waited longest, due [\d,]+ d( \d+ h)? ago "
        r"2025-01-01 09:00 \. "
        r"No allocator runs: dueledger allocate \.",
        await verdict(browser),
    )
    page = (await browser.open("/console/")).text
    assert 'class="reasons"' not in page
    [href] = re.findall(r'<h1[^>]*>1 flow is late\. <a href="([^"]+)">', page)
    assert (await browser.open(unescape(href))).status == 200
    lanes = [f"n{number}" for number in range(5)]
    await api.emit(key, *[api.item(f"V-{lane}", kind="Paused", lane=lane) for lane in lanes])
    await pause_flows(
        api.owner, FlowScope("acme", "Paused", None), reason="INC-1", actor_no=api.person_no
    )
    page = (await browser.open("/console/")).text
    named = [f"acme Paused {lane}" for lane in lanes[:3]]
    listed = page.partition('class="reasons"')[2].partition("</ul>")[0]
    assert [text_of(each) for each in re.findall("<li>(.*?)</li>", listed)] == [
        "No allocator runs: dueledger allocate . acme First",
        f"Paused. All pauses, by whom and why {' , '.join(named)} and 2 more",
    ]
    assert page.index('class="reasons"') < page.index('class="figures"')


async def test_reasons_beyond_the_fourth_are_counted_and_lead_to_the_table_of_flows(
    api: Api,
    browser: Browser,
    make_drafts: Callable[..., list[ItemDraft]],
    kind: str,
) -> None:
    ledger = Ledger(api.owner, api.person_no, api.person_no, make_drafts, kind)
    due_at = await read_now(api.owner) - timedelta(days=3)
    states = (State.MANUAL_REVIEW, State.RUNNING, State.CLAIMED, State.RETRYABLE_FAILURE)
    for state in states:
        await ledger.place(state, tenant="acme", lane=state.name, due_at=due_at)
        await api.owner.execute(
            "update ledger.pending set available_at = ledger.now() + interval '1 day'"
        )

    async def others() -> list[tuple[str, str]]:
        page = (await browser.open("/console/")).text
        listed = page.partition('class="reasons"')[2].partition("</ul>")[0]
        assert listed.count("<li>") == REASONS_MAX + ("other" in listed)
        return re.findall(r'And <a href="#(\w+)">(\d+ other reasons?)</a>', listed)

    assert await others() == []
    for number, lane in enumerate(("ready", "paused"), 1):
        await ledger.emit(1, tenant="acme", lane=lane, due_at=due_at + timedelta(hours=1))
        if lane == "paused":
            await pause_flows(
                api.owner, FlowScope("acme", kind, lane), reason="INC-1", actor_no=api.person_no
            )
        [(place, words)] = await others()
        assert words == f"{number} other reason{'s' * (number > 1)}"
        table = (await browser.open("/console/")).text.partition(f'id="{place}"')[2]
        assert f'<span class="lane">{lane}</span>' in table
        assert ("Paused. " in text_of(table)) == (lane == "paused")


async def test_a_flow_is_late_by_items_that_cannot_be_claimed_now(
    api: Api,
    browser: Browser,
    make_drafts: Callable[..., list[ItemDraft]],
    kind: str,
) -> None:
    ledger = Ledger(api.owner, api.person_no, api.person_no, make_drafts, kind)
    due_at = await read_now(api.owner) - timedelta(days=3)
    reasons = {
        State.MANUAL_REVIEW: "They wait for a person. Reviews by reason",
        State.RUNNING: "Running.",
        State.CLAIMED: "No live worker takes them: dueledger work module:handlers .",
        State.RETRYABLE_FAILURE: "They wait for their next attempt.",
    }
    for state, reason in reasons.items():
        await ledger.place(state, tenant="acme", lane=state.name, due_at=due_at)
        await api.owner.execute(
            "update ledger.pending set available_at = ledger.now() + interval '1 day'"
        )
        due_at -= timedelta(hours=1)  # it is the first now
        assert (await verdict(browser)).endswith(reason), state
    names = {state.name for state in reasons}
    assert await late_lanes(browser, "/console/flows") == names
    assert await late_lanes(browser, "/console/") == names
    assert (await figures(browser))["Late"][1] == f"{len(names)}"
    [draft] = make_drafts(kind=kind, tenant="acme", lane="blocked", due_at=due_at)
    draft = replace(draft, overlap=Overlap.WAIT, overlap_key="k")
    await emit_items(api.owner, [draft], actor_no=api.person_no)
    await api.owner.execute(
        "update ledger.pending set available_at = 'infinity' where serial is not null"
    )
    assert (await verdict(browser)).endswith("They wait until another item of their key ends.")
    assert await late_lanes(browser, "/console/flows") == {*names, "blocked"}


async def test_a_late_item_behind_others_that_are_not_marks_its_flow(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    first = await api.emit(key, *[api.item(f"M-{number}", kind="Many") for number in range(8)])
    await api.owner.execute("update ledger.due_item set complete_by = '2099-01-01'")
    await api.park(*first)
    await api.park(*(await api.emit(key, api.item("M-9", kind="Many", lane=""))))
    assert await late_lanes(browser, "/console/") == {""}
    assert (await verdict(browser)).startswith("1 flow is late.")


async def test_the_number_of_due_items_says_what_they_wait_for(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    await api.emit(key, api.item("D-1", kind="Direct"), api.item("D-2", kind="Direct"))
    path = "/console/flows/acme/Direct"
    assert (await figures(browser))["Due now"][1:] == ("2", "2 of them wait: no allocator")
    async with open_presence(api.dsn, "direct", ProcessRole.DIRECT_WORKER, kinds=["Direct"]):
        assert (await figures(browser))["Due now"][1:] == ("2", "may be claimed")
        assert "may be claimed" in (await browser.open(path)).text
        await set_flow_limits(
            api.owner,
            FlowScope("acme", "Direct", ""),
            FlowLimits(rate_per_second=0.001),
            actor_no=api.person_no,
        )
        await api.owner.execute("update ledger.flow set tokens = 0, tokens_at = ledger.now()")
        assert (await figures(browser))["Due now"][1:] == ("2", "2 of them wait: rate limit")
        page = (await browser.open(path)).text
    assert '<span class="note">wait: rate limit</span>' in page


async def test_a_finding_is_named_on_the_first_page(api: Api, browser: Browser) -> None:
    await api.owner.execute(
        "insert into ledger.watermark (tenant, kind, complete_before, as_of)"
        " values ('acme', 'LetterDue', ledger.now(), ledger.now())"
    )
    await api.find("acme")
    assert await verdict(browser) == (
        "Nothing is late, but 1 finding is open: acme LetterDue, missing."
    )
    found = await figures(browser)
    assert found["Findings open"][1:] == ("1", "acme LetterDue, missing")
    assert found["Complete before"][2].endswith("acme LetterDue: all but open findings")
    await api.find("acme")
    assert await verdict(browser) == (
        "Nothing is late, but 2 findings are open; the newest: acme LetterDue, missing."
    )


async def test_the_first_page_says_whether_alerts_are_evaluated_and_leads_to_all(api: Api) -> None:
    async with open_browser(api) as browser:
        await browser.sign_in(await api.make_key("everybody", *Scope, tenants=None))
        nobody = "Firing alerts are not shown: <code>dueledger alert</code> does not run."
        assert nobody in (await browser.open("/console/")).text
        await api.owner.execute(
            "insert into ledger.alert (name, labels, value, since, sent_to)"
            " select 'TopicSilent', jsonb_build_array('t' || n), 1, ledger.now(), '[]'"
            " from generate_series(1, $1::integer) n",
            ALERTS_MAX + 1,
        )
        page = (await browser.open("/console/")).text
        assert "These alerts may have ended: <code>dueledger alert</code> does not run." in page
        assert page.count("Urgent</span>") == ALERTS_MAX
        [href] = re.findall(r'More alerts are firing: <a href="([^"#]+)#alerts">', page)
        system = (await browser.open(href)).text
        assert 'id="alerts"' in system
        assert system.count("Urgent</span>") == ALERTS_MAX + 1
        async with open_presence(api.dsn, "alerter", ProcessRole.ALERTER):
            page = (await browser.open("/console/")).text
        assert "does not run" not in page.partition("<table")[0]
