"""The first page: each number says what it counts, and leads to it."""

import csv
import io
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape

import pytest

from dueledger.console.cells import count_of
from dueledger.console.pages.now import LATE_MAX, LATE_READ_MAX
from dueledger.ledger.rules.drafts import ItemDraft, Overlap
from dueledger.ledger.states import State
from dueledger.ledger.store.api_keys import NewApiKey
from dueledger.ledger.store.flows import FlowScope, pause_flows
from dueledger.ledger.store.item_lists import count_late_items
from dueledger.ledger.store.items import emit_items
from dueledger.service.routes import lateness
from tests.console.conftest import Browser
from tests.console.test_overview import api, key
from tests.ledger.conftest import Ledger
from tests.service.conftest import Api

__all__ = ["api", "key"]  # the ledger has what one test made alone

_FIGURE = re.compile(
    r'<span class="label">([^<]+)</span>\s*<(?:a|span) class="number[^"]*"(?: href="([^"]+)")?>'
    r'(?:<time[^>]*>)?([^<]*)(?:</time>)?</(?:a|span)>\s*<span class="note">([^<]*)</span>'
)


async def figures(browser: Browser) -> dict[str, tuple[str, str, str]]:
    """Return the address, the number and the note of each figure of the first page."""
    text = (await browser.open("/console/")).text
    return {label: (unescape(href), *rest) for label, href, *rest in _FIGURE.findall(text)}


async def test_the_number_in_flight_leads_to_what_is_handed_out_and_what_is_running(
    api: Api,
    browser: Browser,
    key: NewApiKey,
    make_drafts: Callable[..., list[ItemDraft]],
    kind: str,
) -> None:
    ledger = Ledger(api.owner, api.person_no, api.person_no, make_drafts, kind)
    await ledger.emit(3)
    await ledger.start((await ledger.claim()).fence)
    await ledger.emit(2)
    found = await figures(browser)
    href, number, _ = found["In flight"]
    assert number == "3"
    text = (await browser.open(f"{href}&format=csv")).text
    states = Counter(row["state"] for row in csv.DictReader(io.StringIO(text)))
    assert states == {State.CLAIMED.label: 2, State.RUNNING.label: 1}
    for state, items in ((State.RUNNING, 1), (State.SCHEDULED, None)):
        path = f"/v1/items?in_flight=true&state={state.label}"
        answer = await api.ask("GET", path, key=key)
        assert answer.status == (422 if items is None else 200), answer.text
        assert items is None or len(answer.document["items"]) == items


async def test_the_numbers_of_the_first_page_count_what_they_say(
    api: Api, browser: Browser, key: NewApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    flows = [api.item("N-1", kind=f"Narrow{number}") for number in range(9)]
    late = [api.item(f"N-{number}", kind="Late") for number in range(LATE_MAX + 20)]
    promised = [
        api.item(f"N-P{number}", kind="Late", due_at="2025-12-01T09:00:00Z") for number in range(9)
    ]
    oldest = api.item("N-1", kind="Oldest", due_at="2025-01-01T09:00:00Z")
    later = await api.emit(key, *promised)
    await api.owner.execute(
        "update ledger.due_item set complete_by = '2099-01-01' where id = any ($1::uuid[])", later
    )
    await api.emit(key, oldest, *flows[1:], *late)
    assert LATE_READ_MAX // (len(flows) + 1) < LATE_MAX  # of each, were all flows read alike
    found = await figures(browser)
    not_counted = "past their SLA; more are not counted"
    count = len(flows) + len(late)
    assert found["Late"][1:] == (count_of(count, capped=True), not_counted)
    monkeypatch.setattr(lateness, "LATENESS_READ", LATE_MAX)
    by_rest = (await api.ask("GET", "/v1/lateness", key=key)).document
    assert (by_rest["counted"], by_rest["late"]) == (LATE_MAX, count)
    assert (by_rest["is_cut"], by_rest["late_capped"]) == (True, True)
    of_flow = (await api.ask("GET", "/v1/lateness?kind=Oldest", key=key)).document
    assert (of_flow["counted"], of_flow["late"], of_flow["late_capped"]) == (1, 1, False)
    due = count + len(promised)
    assert found["Due now"][1:] == (f"{due}", f"{due} of them wait: no allocator")
    numbers = [row["flow_no"] for row in await api.owner.fetch("select flow_no from ledger.flow")]
    assert await count_late_items(api.owner, numbers, read_max=7) <= 7
    await pause_flows(
        api.owner, FlowScope("acme", "Late", ""), reason="INC-1", actor_no=api.person_no
    )
    before = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    await api.owner.execute(
        "insert into ledger.watermark (tenant, kind, complete_before, as_of)"
        " values ('acme', 'Late', $1, ledger.now())",
        before,
    )
    found = await figures(browser)
    assert found["Due now"][2] == f"{due} of them wait: paused, no allocator"
    _, number, note = found["Complete before"]
    assert re.fullmatch(r"[\d,]+ d( \d+ h)? ago", number)
    assert note == "2026-03-04 05:06 · acme Late: up to date"


async def test_a_hindrance_leads_to_the_page_that_has_its_remedy(
    api: Api,
    browser: Browser,
    key: NewApiKey,
) -> None:
    [parked, _] = await api.emit(
        key, api.item("H-1", kind="Parked"), api.item("H-2", kind="Paused", lane="n")
    )
    await api.park(parked)
    await pause_flows(
        api.owner, FlowScope("acme", "Paused", "n"), reason="INC-2", actor_no=api.person_no
    )
    page = (await browser.open("/console/")).text
    groups = re.findall(r'<tr class="group"><th[^>]*>(.*?)</th></tr>', page)
    assert [re.sub("<[^>]+>", "", group) for group in groups] == [
        "Paused. All pauses, by whom and why",
        "They wait for a person. Reviews by reason",
    ]
    for group in groups:
        [href] = re.findall('href="([^"#]+)', group)
        assert (await browser.open(href)).status == 200
    [flow] = re.findall(r'<th class="c-flow" scope="row"><a href="(/console/flows/[^"]+n)">', page)
    assert "INC-2" in (await browser.open(unescape(flow))).text


async def test_items_that_have_a_place_in_the_order_of_their_key_are_listed(
    api: Api,
    browser: Browser,
    key: NewApiKey,
    make_drafts: Callable[..., list[ItemDraft]],
) -> None:
    await api.emit(key, api.item("O-1", kind="Ordered", lane="n"))
    drafts = [
        replace(draft, overlap=Overlap.WAIT, overlap_key="k")
        for draft in make_drafts(3, kind="Ordered", tenant="acme", lane="n")
    ]
    await emit_items(api.owner, drafts, actor_no=api.person_no)
    names = [draft.business_key for draft in drafts]
    await api.owner.execute(
        "update ledger.pending p set available_at = 'infinity',"
        " state = case when i.business_key = $2 then 4 else 1 end, starts = 1"
        " from ledger.due_item i where i.item_no = p.item_no and i.business_key = any ($1)",
        names[1:],
        names[2],
    )
    blocked, serial = names[1:], names
    for path, label, expected in (
        ("/console/", "Blocked", blocked),
        ("/console/flows?kind=Ordered", "In key order", serial),
    ):
        page = (await browser.open(path)).text
        [href] = re.findall(f'data-label="{label}"><a href="([^"]+)">{len(expected)}</a>', page)
        listed = await browser.open(f"{unescape(href)}&format=csv")
        found = [row["business_key"] for row in csv.DictReader(io.StringIO(listed.text))]
        assert sorted(found) == expected
        shown = (await browser.open(unescape(href))).text
        assert f"To act on all that match, remove {label}" in shown
    for query, expected in (
        ("serial=true", serial),
        ("blocked=true", blocked),
        ("serial=true&blocked=true", blocked),
        (f"blocked=true&state={State.RETRYABLE_FAILURE.label}", names[2:]),
        ("serial=true&in_flight=true", []),
        ("serial=true&tenant=umbra", []),
    ):
        answer = await api.ask("GET", f"/v1/items?{query}", key=key)
        found = [row["business_key"] for row in answer.document["items"]]
        assert sorted(found) == expected, query
    refused = await api.ask("GET", f"/v1/items?blocked=true&state={State.COMPLETED.label}", key=key)
    assert refused.status == 422
