"""An item's page: the button that helps, links to what it names, and how late others are."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any
from uuid import UUID

from dueledger.console.cells import time_of
from dueledger.console.clock import PageClock, iso, zone_of
from dueledger.console.timeline import timeline_of
from dueledger.ledger.item_verbs import OperationVerb, refusal
from dueledger.ledger.rules.drafts import ItemDraft, Overlap
from dueledger.ledger.states import State
from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.flows import FlowScope, pause_flows
from dueledger.ledger.store.items import emit_items
from dueledger.ledger.store.operations import ItemFilter, pause_operation, record_operation
from tests.console.conftest import Browser, open_browser
from tests.ledger.conftest import Ledger
from tests.service.conftest import EVENT, SCHEDULE, Api
from tests.service.test_pull import outcome, pull, report

_PRIMARY = re.compile(
    r'<(?:a class="button primary" href="([^"]+)"|summary class="button primary")>([^<]+)<'
)


_REFUSED_ACTION = re.compile(
    r'<button type="button" aria-disabled="true" aria-describedby="([\w-]+)">([^<]+)</button>'
    r' <span id="\1">([^<]+)</span>'
)
_VERB_OF = {
    "Start now": OperationVerb.TRIGGER,
    "Park": OperationVerb.PARK,
    "Redrive": OperationVerb.REDRIVE,
    "Write off": OperationVerb.WRITE_OFF,
    "Snooze": OperationVerb.SNOOZE,
    "Cancel": OperationVerb.CANCEL,
}


async def test_the_first_button_is_the_one_that_helps(
    api: Api, browser: Browser, key: NewApiKey, make_drafts: Callable[..., list[ItemDraft]]
) -> None:
    waits, due, parked, paused = await api.emit(
        key,
        api.item("W-1", kind="Waiting", due_at="2099-01-01T09:00:00Z"),
        api.item("W-2", kind="Waiting"),
        api.item("W-3", kind="Waiting"),
        api.item("W-4", kind="Paused", lane="n"),
    )
    await api.park(parked)
    scope = FlowScope("acme", "Paused", "n")
    await pause_flows(api.owner, scope, reason="INC-1", actor_no=api.person_no)
    drafts = [
        replace(draft, overlap=Overlap.WAIT, overlap_key="k")
        for draft in make_drafts(2, kind="Behind")
    ]
    made = await emit_items(api.owner, drafts, actor_no=api.person_no)
    first, second = (each.id for each in made)
    await api.owner.execute(  # the first one holds its key between two attempts
        "insert into ledger.held_key select p.serial, p.item_no, p.effective_date, p.flow_no,"
        " ledger.now() from ledger.pending p join ledger.due_item i using (item_no)"
        " where i.id = $1",
        first,
    )
    await api.owner.execute(
        "update ledger.pending p set available_at = 'infinity' from ledger.due_item i"
        " where i.item_no = p.item_no and i.id = $1",
        second,
    )
    for item, button in (
        (waits, ("", "Start now")),
        (due, None),  # no page starts an allocator
        (parked, ("", "Redrive")),
        (paused, ("/console/flows/acme/Paused?lane=n", "Open the flow")),
        (second, (f"/console/items/{first}", "Open the item before it")),
    ):
        found = _PRIMARY.findall((await browser.open(f"/console/items/{item}")).text)
        assert found == ([] if button is None else [button])
        assert not (button and button[0]) or (await browser.open(button[0])).status == 200
    page = (await browser.open(f"/console/items/{second}")).text
    assert "Once its key is free" in page
    why = refusal(OperationVerb.TRIGGER, State.SCHEDULED, waits_for_key=True)
    assert [shown[1:] for shown in _REFUSED_ACTION.findall(page)][:1] == [("Start now", why)]
    body = {"verb": "trigger", "ids": [str(second)], "reason": "INC-1"}
    answer = await api.ask("POST", "/v1/tenants/acme/decisions", key=key, body=body)
    assert answer.document["items"][0]["reason"] == why


async def test_what_an_item_names_is_a_link(
    api: Api,
    browser: Browser,
    key: NewApiKey,
    make_drafts: Callable[..., list[ItemDraft]],
    kind: str,
) -> None:
    recorded = await api.ask("POST", "/v1/events", key=key, body=EVENT)
    assert recorded.status == 200, recorded.text
    event = await api.owner.fetchval("select max(event_no) from ledger.event")
    await api.define("acme", "named", SCHEDULE)
    number = await api.owner.fetchval(
        "select definition_no from ledger.definition where name = 'named'"
    )
    ledger = Ledger(api.owner, api.person_no, api.person_no, make_drafts, kind)
    [made] = await emit_items(
        api.owner,
        make_drafts(1),
        actor_no=api.person_no,
        definition_nos=[number],
        event_nos=[event],
    )
    await ledger.claim()
    page = (await browser.open(f"/console/items/{made.id}")).text
    assert "Not sealed" in page
    for part, words in (("Kind", kind), ("Definition", "named"), ("Event", str(event))):
        [(href, text)] = re.findall(rf'<dt>{part}</dt><dd><a href="([^"]+)">([^<]+)</a>', page)
        assert text == words
        opened = await browser.open(unescape(href))
        assert opened.status == 200, part
        assert words in opened.text
    [claim] = re.findall(r'<a href="([^"]+)">claim \d+</a>', page)
    assert (await browser.open(unescape(claim))).location == f"/console/items/{made.id}"


async def test_a_list_of_late_items_says_how_late_they_are(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    now = await read_now(api.owner)
    ages = [timedelta(hours=2), timedelta(hours=3), timedelta(days=2)]
    dues = [{"due_at": iso(now - age)} for age in ages]
    await api.emit(key, *(api.item(f"L-{n}", kind="Tardy", **due) for n, due in enumerate(dues)))
    page = (await browser.open("/console/items?late=true&kind=Tardy&limit=2")).text
    bars = re.findall(r'<dt>([^<]+)</dt><dd><svg[^>]*><rect width="(\d+)%"[^>]*></svg> (\d)', page)
    assert [bar for bar in bars if bar[2] != "0"] == [("1–6 h", "100", "2"), ("1–3 d", "50", "1")]
    assert len(re.findall('scope="row"', page)) == 2
    [following] = re.findall(r'rel="next" href="([^"]+)"', page)
    later = (await browser.open(unescape(following))).text
    assert "L-0" in later
    assert "How late" not in later
    [worst] = re.findall(r'<a href="([^"]+)">The 20 worst</a>', page)
    assert (await browser.open(unescape(worst))).text.index("L-2") > 0


async def test_a_verb_is_offered_where_it_is_applied_and_else_shown_with_what_rest_refuses_it_by(
    api: Api, browser: Browser, key: NewApiKey, make_drafts: Callable[..., list[ItemDraft]]
) -> None:
    async def decide(verb: OperationVerb, item: UUID) -> tuple[str, str | None]:
        body = {"verb": verb, "ids": [str(item)], "reason": "INC-1"}
        if verb is OperationVerb.SNOOZE:
            body["until"] = "2199-01-01T00:00:00Z"
        answer = await api.ask("POST", "/v1/tenants/acme/decisions", key=key, body=body)
        [decided] = answer.document["items"]
        return decided["result"], decided["reason"]

    async def place(state: State, number: int) -> UUID:
        kind = f"Verbs{state.label}{number}"
        ledger = Ledger(api.owner, api.person_no, api.person_no, make_drafts, kind)
        return (await ledger.place(state, kind=kind)).id

    reader = await api.make_key("reads-items", Scope.READ)
    seen: set[OperationVerb] = set()
    for state in State:
        item = await place(state, 0)
        page = (await browser.open(f"/console/items/{item}")).text
        offered = [OperationVerb(verb) for verb in re.findall(r'name="verb" value="(\w+)"', page)]
        refused = {
            _VERB_OF[words]: unescape(why) for _, words, why in _REFUSED_ACTION.findall(page)
        }
        assert {*offered, *refused} == set(OperationVerb), state
        assert not {*offered} & {*refused}, state
        for verb, why in refused.items():
            result, reason = await decide(verb, item)
            assert (result in {"illegal", "finished"}, reason) == (True, why), (verb, state)
        for number, verb in enumerate(offered):
            other = await place(state, number) if number else item
            result, reason = await decide(verb, other)
            assert (result in {"done", "requested"}, reason) == (True, None), (verb, state)
        seen |= {*offered}
        async with open_browser(api) as other_browser:
            await other_browser.sign_in(reader)
            theirs = (await other_browser.open(f"/console/items/{item}")).text
        assert ("Not possible now" in page, "Not possible now" in theirs) == (True, False), state
    assert seen == set(OperationVerb)


async def test_an_item_is_snoozed_until_a_time_of_the_readers_zone_and_says_by_whom(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    [item] = await api.emit(key, api.item("Z-9", kind="Dozing"))
    page = (await browser.open(f"/console/items/{item}")).text
    assert 'type="datetime-local" name="until" required' in page
    form = {"verb": "snooze", "reason": "INC-7"}
    for until in ("", "2020-01-01T09:00", "9999-01-01T09:00"):
        refused = await browser.send(f"/console/items/{item}/decide", {**form, "until": until})
        assert refused.status == 422, until
    form["until"] = "2199-01-01T09:00"
    done = await browser.send(f"/console/items/{item}/decide", form)
    assert done.status == 303, done.text
    page = (await browser.open(f"/console/items/{item}")).text
    assert "snoozed it until 2199-01-01" in page
    assert "<strong>Snoozed</strong>" in page
    assert _PRIMARY.findall(page) == [("", "Start now")]
    again = await browser.send(f"/console/items/{item}/decide", form)
    assert again.status == 409
    assert "not handed out before that anyway" in again.text


async def test_an_item_that_an_operation_is_to_change_leads_to_the_operation(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    later = "2099-01-01T09:00:00Z"
    [item] = await api.emit(key, api.item("O-1", kind="Operated", due_at=later))
    number = await record_operation(
        api.owner,
        OperationVerb.CANCEL,
        ItemFilter("acme", "Operated"),
        reason="INC-1",
        actor_no=api.person_no,
    )
    assert number is not None
    page = ""
    for _ in range(2):
        page = (await browser.open(f"/console/items/{item}")).text
        lead = f"/console/reviews/operations/{number}"
        assert _PRIMARY.findall(page) == [(lead, "Open the operation")]
        assert (await browser.open(lead)).status == 200
        await pause_operation(api.owner, number, reason="INC-1", actor_no=api.person_no)
    assert "and is paused" in page


async def test_a_history_says_what_was_done_how_long_each_step_took_and_how_late_the_end_was(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    due_at = iso(await read_now(api.owner) - timedelta(seconds=90))
    await api.emit(key, api.item("H-1", kind="History", due_at=due_at))
    [pulled] = await pull(api, key, "History")
    evidence = {"letter": "L-77", "pages": 3, "sent": {"by": "post"}}
    assert await report(api, key, outcome(pulled, "completed", evidence=evidence))
    page = (await browser.open(f"/console/items/{pulled['item']}")).text
    offsets = re.findall(r'<span class="offset">\+(\d+ ms|[\d.]+ s)</span>', page)
    assert len(offsets) == page.count('<li class="') - 1
    assert "pages <code>3</code> · letter <code>L-77</code></p>" in page
    assert re.findall(r"1 min after it was due", page) == ["1 min after it was due"] * 2


def test_steps_of_other_days_have_seconds_and_those_of_one_moment_milliseconds() -> None:
    at = datetime(2027, 3, 1, 9, 0, 7, 250_000, tzinfo=UTC)
    evidence = {"evidence": {"digest": "ab12", "parts": [1]}, "error": "Timeout"}
    steps: list[dict[str, Any]] = [
        {"event": "claimed", "at": at, "detail": {"position": 1}},
        {"event": "failed", "at": at + timedelta(milliseconds=120), "detail": evidence},
        {
            "event": "completed",
            "at": at + timedelta(milliseconds=3_320),
            "detail": {"ref": "R-1", "reason": "-"},
        },
    ]
    shown = timeline_of(steps, at)
    assert [each["offset"] for each in shown] == [None, "+120 ms", "+3.2 s"]
    assert [each["after_due"] for each in shown] == [None, None, "3.3 s after it was due"]
    assert [each["facts"] for each in shown] == [[], [("digest", "ab12")], [("ref", "R-1")]]
    clock = PageClock(at + timedelta(days=2), *zone_of("Europe/Berlin"))
    assert '<span class="exact">2027-03-01 10:00:07</span>' in time_of(clock, at, to_second=True)
    assert '<span class="exact">2027-03-01 10:00</span>' in time_of(clock, at)


async def test_why_an_item_waits_is_said_in_the_readers_zone_and_by_rest_in_utc(
    api: Api, stranger: Browser, key: NewApiKey
) -> None:
    await stranger.sign_in(key)
    due, paused = await api.emit(
        key,
        api.item("U-1", kind="Zoned", due_at="2099-01-01T09:00:00Z"),
        api.item("U-2", kind="Stopped"),
    )
    scope = FlowScope("acme", "Stopped", "")
    until = datetime(2099, 7, 1, 9, tzinfo=UTC)
    await pause_flows(api.owner, scope, reason="INC-1", actor_no=api.person_no, until=until)
    stranger.session.cookie_jar.update_cookies({"dueledger_zone": "Asia/Tokyo"}, stranger.origin)
    await stranger.send("/console/preferences", {"zone": "browser", "to": "/console/"})
    for item, local, utc in (
        (due, "not due before 2099-01-01 18:00:00 +09:00", "2099-01-01 09:00:00 UTC"),
        (paused, "until 2099-07-01 18:00:00 +09:00: INC-1", "until 2099-07-01 09:00:00 UTC"),
    ):
        page = (await stranger.open(f"/console/items/{item}")).text
        sentence = page.partition('<div class="card why">')[2].partition("</h2>")[0]
        assert local in sentence
        assert "UTC" not in sentence
        answer = await api.ask("GET", f"/v1/items/{item}/why", key=key)
        assert utc in answer.document["sentence"]
