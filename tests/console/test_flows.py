"""Flows: pauses and limits by a person with a reason, and who changed what."""

import csv
import io
import json
import re
from datetime import timedelta
from html import unescape

import pytest

from dueledger.console.activity import LedgerActivity
from dueledger.console.clock import iso
from dueledger.console.overview import OverviewRefresh
from dueledger.console.pages.flow_pauses import PauseImpact, after_text, typed_impacts
from dueledger.console.pages.flows import PAUSES_MAX
from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.flows import (
    FlowLimits,
    FlowScope,
    count_fell_due,
    count_flow_coming,
    list_flows,
    pause_flows,
    resume_flows,
    set_flow_limits,
)
from dueledger.service.routes.flow_counts import CountedItems
from tests.console.conftest import Browser, open_browser
from tests.service.conftest import Api
from tests.service.test_pull import pull, report

PAGE = "/console/flows/acme/Flowing"
PAUSE = {"over": "kind", "kind": "Flowing", "reason": "INC-1"}


async def test_a_flow_is_paused_and_resumed_with_reasons_that_its_page_keeps(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    await api.emit(key, api.item("F-1", kind="Flowing"), api.item("F-2", kind="Flowing", lane="n"))
    listed = await browser.open("/console/flows?kind=Flowing&format=csv")
    rows = list(csv.DictReader(io.StringIO(listed.text)))
    shown = ("lane", "status", "due", "oldest_due_at", "is_past_sla")
    due = ("no_allocator", "1", "2026-01-01T09:00:00Z", "true")
    assert [tuple(row[name] for name in shown) for row in rows] == [("", *due), ("n", *due)]
    assert "No allocator</span> <span" in (await browser.open(PAGE)).text, "it is late, too"
    assert (await browser.send("/console/flows/acme/pause", {**PAUSE, "reason": ""})).status == 422
    paused = await browser.send("/console/flows/acme/pause", {**PAUSE, "lane": "n"})
    assert paused.location == f"{PAGE}?lane=n"
    page = await browser.open(paused.location)
    assert "is paused: INC-1" in page.text
    assert "paused, none is claimed" in page.text
    assert "Paused." in page.text
    assert {row["paused_by"] for row in await list_flows(api.owner, kind="Flowing")} == {
        "key:person"
    }
    resume = {"kind": "Flowing", "lane": "n", "of_kind": "Flowing", "reason": "INC-1 ended"}
    assert (await browser.send("/console/flows/acme/resume", resume)).status == 303
    assert {row["paused_at"] for row in await list_flows(api.owner, kind="Flowing")} == {None}
    history = (await browser.open(PAGE)).text.partition("Who changed what")[2]
    for words in ("Paused", "INC-1", "Resumed", "INC-1 ended", "key:person", "ledger_operator"):
        assert words in history


async def test_a_flow_counts_down_to_its_next_item_and_its_lag_leads_to_the_oldest(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    path = "/console/flows/acme/Coming"
    await api.emit(key, api.item("C-1", kind="Coming"))
    assert "data-until" not in (await browser.open(path)).text
    now = await read_now(api.owner)
    ahead = [iso(now + timedelta(hours=hours)) for hours in (5, 2)]
    await api.emit(key, *[api.item(f"C-{at}", kind="Coming", due_at=at) for at in ahead])
    page = (await browser.open(path)).text
    [(coming, first)] = re.findall(
        r'<p class="coming">.*?href="([^"]+)">[^<]+</a> <time datetime="([^"]+)" data-until', page
    )
    assert first == ahead[1]
    assert f"C-{first}" in (await browser.open(unescape(coming))).text
    label = '<span class="label">Lag</span>'
    [lag] = re.findall(rf'{label}\s*<a class="number[^"]*" href="([^"]+)"', page)
    assert "C-1" in (await browser.open(unescape(lag))).text


async def test_a_pause_has_an_end_that_is_moved_and_its_flow_resumes_at_a_rate(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    async def flow() -> tuple[bool, float | None]:
        [row] = await list_flows(api.owner, kind="Ending")
        return row["paused_at"] is not None, row["rate_per_second"]

    await api.emit(key, api.item("E-1", kind="Ending"))
    path = "/console/flows/acme/Ending"
    await browser.open(path)
    now = await read_now(api.owner)
    ahead = [iso(now + timedelta(hours=hours)) for hours in (1, 2, 5)]
    coming = [api.item(f"E-{at}", kind="Ending", due_at=at) for at in ahead]
    await api.emit(key, *coming)
    chosen = (now + timedelta(hours=3)).strftime("%Y-%m-%dT%H:%M")
    counted = (await browser.open(path, params={"until": chosen})).text
    assert re.search(rf'fall due until <time datetime="{chosen}:00Z"[^§]*?: 2\.</p>', counted)
    assert counted.count(f'name="until" value="{chosen}"') == 2
    assert "3 of this flow are due by then; how long that takes" in counted
    flow_name = ("acme", "Ending", "")
    assert await count_flow_coming(api.owner, flow_name, now + timedelta(days=1), count_max=1) == 2
    pause = {"over": "lane", "kind": "Ending", "reason": "INC-8"}
    over = await browser.send("/console/flows/acme/pause", {**pause, "until": "2026-01-01T09:00"})
    assert (over.status, "past by the ledger" in over.text) == (422, True)
    assert await flow() == (False, None)
    for hour in ("09", "10"):
        moved = {**pause, "until": f"2190-01-01T{hour}:00"}
        assert (await browser.send("/console/flows/acme/pause", moved)).status == 303
        end = f'until <time datetime="2190-01-01T{hour}:00:00Z"'
        for shown in (path, "/console/flows?tenant=acme", "/console/items?kind=Ending"):
            assert end in (await browser.open(shown)).text, shown
    due = iso(await read_now(api.owner) - timedelta(minutes=1))
    await api.emit(key, api.item("E-2", kind="Ending", due_at=due))
    await api.owner.execute(
        "update ledger.pause set paused_at = paused_at - interval '1 hour'"
        " where kind = 'Ending' and resumed_at is null"
    )
    [href] = re.findall('href="([^"]+)">What fell due meanwhile', (await browser.open(path)).text)
    listed = (await browser.open(f"{unescape(href)}&format=csv")).text
    assert [row["business_key"] for row in csv.DictReader(io.StringIO(listed))] == ["E-2"]
    form = (await browser.open(path)).text.partition('/resume"')[2].partition("</form>")[0]
    assert "1 item fell due meanwhile." in form
    [href] = re.findall('href="([^"]+)">Decide about them first', form)
    assert unescape(href).startswith("/console/reviews/acme/decide?kind=Ending&default_lane=true&")
    decision = (await browser.open(unescape(href))).text
    assert "<h1>1 item matches</h1>" in decision
    assert "E-2" in decision
    resume = {"kind": "Ending", "of_kind": "Ending", "of_default_lane": "true", "reason": "slowly"}
    wrong = await browser.send("/console/flows/acme/resume", {**resume, "rate_per_second": "0"})
    assert (wrong.status, "an item a year" in wrong.text) == (422, True)
    assert await flow() == (True, None)
    resume["rate_per_second"] = "2.5"
    assert (await browser.send("/console/flows/acme/resume", resume)).status == 303
    assert await flow() == (False, 2.5)
    history = (await browser.open(path)).text.partition("Who changed what")[2]
    moved_end = "until: 2190-01-01T09:00:00+00:00 → 2190-01-01T10:00:00+00:00"
    for words in ("Items per second: none → 2.5", moved_end, "slowly"):
        assert words in history


async def test_the_form_that_ends_a_pause_counts_what_fell_due_in_all_that_it_covers(
    api: Api,
) -> None:
    key = await api.make_key("meanwhile", *Scope, tenants=["meanwhile"])
    now = await read_now(api.owner)
    dues = [now + timedelta(minutes=minutes) for minutes in (-90, -30, -20, 60)]
    items = [
        api.item(f"M{lane}-{number}", tenant="meanwhile", kind=kind, lane=lane, due_at=iso(due))
        for kind, lane in (("Wide", ""), ("Wide", "n"), ("Other", ""))
        for number, due in enumerate(dues)
    ]
    emitted = await api.emit(key, *items)
    await api.owner.execute(
        "update ledger.pending p set available_at = i.due_at from ledger.due_item i"
        " where i.item_no = p.item_no and i.id = any ($1::uuid[])",
        emitted,
    )
    hour_ago = now - timedelta(hours=1)
    scopes = {("Wide", ""): 2, ("Wide", "n"): 2, ("Wide", None): 4, (None, None): 6}
    for (kind, lane), items_due in scopes.items():
        scope = FlowScope("meanwhile", kind, lane)
        found = [
            await count_fell_due(api.owner, scope, hour_ago, now, read_max=limit)
            for limit in (9, 1)
        ]
        assert found == [(items_due, False), (2, True)]
        await pause_flows(api.owner, scope, reason="INC-9", actor_no=api.person_no)
    await api.owner.execute(
        "update ledger.pause set paused_at = $1 where tenant = 'meanwhile'", hour_ago
    )
    async with open_browser(api) as operator:
        await operator.sign_in(key)
        page = (await operator.open("/console/flows?tenant=meanwhile")).text
        assert sorted(re.findall(r"(\d) items fell due meanwhile", page)) == ["2", "2", "4", "6"]
        links = re.findall('href="([^"]+)">Decide about them first', page)
        matches = [(await operator.open(unescape(href))).text for href in links]
        titles = [re.findall(r"<h1>(\d+) items match</h1>", text) for text in matches]
        assert sorted(titles) == [["2"], ["2"], ["4"], ["6"]]
    async with open_browser(api) as reader:
        await reader.sign_in(await api.make_key("looks", Scope.READ, tenants=["meanwhile"]))
        page = (await reader.open("/console/flows?tenant=meanwhile")).text
        assert "is paused: INC-9" in page
        assert "fell due meanwhile. " not in page
    listed = (await api.ask("GET", "/v1/pauses?fell_due=true", key=key)).document["items"]
    assert {(each["kind"], each["lane"]): each["fell_due"] for each in listed} == scopes
    assert not any(each["fell_due_capped"] for each in listed)
    uncounted = (await api.ask("GET", "/v1/pauses", key=key)).document["items"]
    assert [each["fell_due"] for each in uncounted] == [None] * len(scopes)


async def test_numbers_of_the_list_of_flows_lead_to_their_items(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    later = iso(await read_now(api.owner) + timedelta(hours=1))
    await api.emit(
        key,
        api.item("N-1", kind="Numbered"),
        api.item("N-2", kind="Numbered", due_at=later),
        api.item("N-3", kind="Numbered", due_at=later),
    )
    await set_flow_limits(
        api.owner,
        FlowScope("acme", "Numbered", ""),
        FlowLimits(concurrency_max=9),
        actor_no=api.person_no,
    )
    assert await pull(api, key, "Numbered", items_max=1)
    page = (await browser.open("/console/flows?kind=Numbered")).text
    for label, names in (("Not due", ["N-2", "N-3"]), ("In flight", ["N-1"])):
        pattern = f'data-label="{label}"><a href="([^"]+)">{len(names)}</a>'
        [href] = re.findall(pattern, page)
        listed = (await browser.open(f"{unescape(href)}&format=csv")).text
        assert [row["business_key"] for row in csv.DictReader(io.StringIO(listed))] == names


async def test_a_pause_of_a_tenant_says_what_it_covers_and_ends_in_the_list_of_its_flows(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    items = [api.item(f"C-{number}", kind="Covered") for number in range(101)]
    await api.emit(key, *items, api.item("C-n", kind="Covered", lane="n"))
    page = (await browser.open("/console/flows/acme/Covered")).text
    assert "this flow: 101 due in 1 flow<" in page
    assert "the kind, every lane: 102 due in 2 flows<" in page
    label = "To confirm, type what is due: 101 (this flow), 102 (the kind, every lane)"
    assert f'<label for="typed">{label}' in page
    assert 'pattern="101|102' in page
    shown = {"shown": json.dumps({"lane": 101, "kind": 102, "tenant": 150})}
    wide = {"over": "tenant", "kind": "Covered", "reason": "INC-9", **shown}
    untyped = await browser.send("/console/flows/acme/pause", wide)
    assert untyped.status == 422
    assert "Type their number" in untyped.text
    try:
        typed = await browser.send("/console/flows/acme/pause", {**wide, "typed": "150"})
        assert typed.status == 303, typed.text
        listed = (await browser.open("/console/flows?tenant=acme&kind=Covered")).text
        assert "acme (all kinds) is paused: INC-9" in listed
        assert 'name="reason"' in listed
        assert "Items of each flow of this pause a second" in listed
        assert "is paused: INC-9" not in (await browser.open("/console/flows")).text
        await browser.open("/console/flows/acme/Covered")
        ended = {"reason": "INC-9 ended", "rate_per_second": "0"}
        refused = await browser.send("/console/flows/acme/resume", ended)
        assert (refused.status, "an item a year" in refused.text) == (422, True)
        ended["rate_per_second"] = "7.5"
        resumed = await browser.send("/console/flows/acme/resume", ended)
        assert resumed.location == "/console/flows?tenant=acme"
        found = await list_flows(api.owner, tenant="acme")
        assert {row["rate_per_second"] for row in found} == {7.5}
        assert len(found) > 1
        recorded = "select detail from ledger.audit where reason = 'INC-9 ended'"
        detail = await api.owner.fetchval(recorded)
        assert (detail["rate_per_second"], detail["pauses"]) == (7.5, [])
        rates = detail["before"]["rate_per_second"]  # by flow where they differ
        assert rates is None or rates["Covered/"] is None
        [ended_pause] = detail["before"]["pauses"]
        said = {"kind": None, "lane": None, "until": None, "reason": "INC-9"}
        assert said.items() <= ended_pause.items()
        assert "INC-9" not in (await browser.open(resumed.location)).text
    finally:
        await resume_flows(api.owner, FlowScope("acme"), actor_no=api.person_no)
        await api.owner.execute("update ledger.flow set rate_per_second = null")


async def test_a_flow_has_the_form_that_ends_its_pause_among_many_of_its_tenant(
    api: Api, stranger: Browser
) -> None:
    key = await api.make_key("crowd", *Scope, tenants=["crowd"])
    await stranger.sign_in(key)
    await api.emit(key, api.item("M-1", tenant="crowd", kind="Crowded"))
    kinds = [*(f"Other{number}" for number in range(PAUSES_MAX)), "Crowded"]
    for kind in kinds:
        scope = FlowScope("crowd", kind)
        await pause_flows(api.owner, scope, reason=f"of {kind}", actor_no=api.person_no)
    for path in (
        "flows/crowd/Crowded",
        "flows?tenant=crowd&kind=Crowded",
        "items?kind=Crowded&open=true",
        "items?tenant=crowd&kind=Crowded",
    ):
        page = (await stranger.open(f"/console/{path}")).text
        assert "of Crowded" in page, path
        assert "of Other" not in page, path
    assert (
        f"The first {PAUSES_MAX}; there are more." in (await stranger.open("/console/flows")).text
    )


async def test_a_lane_of_every_kind_is_paused_as_by_rest_and_goes_on_from_a_page_of_its_flow(
    api: Api, stranger: Browser
) -> None:
    key = await api.make_key("regional", *Scope, tenants=["regional"])
    await stranger.sign_in(key)
    places = [(kind, lane) for kind in ("Here", "There") for lane in ("", "north")]
    await api.emit(
        key,
        *(api.item(f"R-{lane}", tenant="regional", kind=kind, lane=lane) for kind, lane in places),
    )

    async def paused() -> list[tuple[str, str]]:
        rows = await list_flows(api.owner, tenant="regional")
        return [(row["kind"], row["lane"]) for row in rows if row["paused_at"] is not None]

    page = await stranger.open("/console/flows/regional/Here?lane=north")
    assert '<option value="region">the lane, every kind: 2 due in 2 flows<' in page.text
    form = {"over": "region", "kind": "Here", "lane": "north", "reason": "INC-31: no line"}
    done = await stranger.send("/console/flows/regional/pause", form)
    assert done.status == 303, done.text
    assert await paused() == [("Here", "north"), ("There", "north")]
    [pause] = (await api.ask("GET", "/v1/pauses?tenant=regional", key=key)).document["items"]
    assert (pause["kind"], pause["lane"]) == (None, "north")
    other = (await stranger.open("/console/flows/regional/There?lane=north")).text
    assert "regional (all kinds) north is paused: INC-31" in other
    assert "INC-31" in other.partition("Who changed what")[2]
    ended = {"kind": "There", "lane": "north", "of_lane": "north", "reason": "INC-31 ended"}
    assert (await stranger.send("/console/flows/regional/resume", ended)).status == 303
    assert await paused() == []


@pytest.mark.parametrize(
    ("typed", "status"),
    [("1000", 303), ("1,000", 303), ("1 000", 303), ("1,000+", 422), ("1", 422)],
)
async def test_the_number_of_a_pause_is_typed_as_a_page_shows_it_or_without_separators(
    api: Api, stranger: Browser, typed: str, status: int
) -> None:
    key = await api.make_key("types", *Scope, tenants=["typing"])
    await stranger.sign_in(key)
    await api.emit(key, api.item("T-1", tenant="typing", kind="Typed"))
    await stranger.open("/console/flows/typing/Typed")
    form = {"over": "kind", "kind": "Typed", "reason": "INC-3", "shown": '{"kind": 1000}'}
    answer = await stranger.send("/console/flows/typing/pause", {**form, "typed": typed})
    assert answer.status == status
    assert status == 303 or "Accepted: 1,000<" in answer.text


def test_the_numbers_to_type_before_a_pause_are_named() -> None:
    same = [PauseImpact(over, over, 9, 1_000, capped=True) for over in ("lane", "tenant")]
    found = typed_impacts(same)
    assert found is not None
    assert found.words == "Type 1,000 to confirm"
    for typed, is_accepted in (("1,000", True), ("1000", True), ("1 000", True), ("1,000+", False)):
        assert bool(re.fullmatch(found.pattern, typed)) == is_accepted, typed
    few = [PauseImpact("lane", "this flow", 1, 100, capped=False), *same]
    named = typed_impacts(few)
    assert named is not None
    assert named.words == "To confirm, type what is due: 1,000 (lane), 1,000 (tenant)"
    assert typed_impacts(few[:1]) is None


@pytest.mark.parametrize(
    ("due", "limit", "throughput", "coming", "words"),
    [
        (0, None, 2.0, None, None),
        (0, None, 2.0, (0, False), None),
        (60, None, 2.0, None, "60 of this flow are due now: that takes about 30 s"),
        (1, 0.5, 2.0, (59, False), "60 of this flow are due by then: that takes about 2 min"),
        (0, 0.5, 0.0, (1_000, True), "1,000+ of this flow are due by then: that takes at least 33"),
        (1, None, None, None, "1 of this flow is due now; how long that takes once it ends is not"),
    ],
)
def test_a_pause_says_how_long_what_is_due_after_it_takes(
    due: int,
    limit: float | None,
    throughput: float | None,
    coming: tuple[int, bool] | None,
    words: str | None,
) -> None:
    flow = {"due": due, "due_capped": False, "rate_per_second": limit}
    text = after_text(flow, throughput, None if coming is None else CountedItems(*coming))
    assert (text or "").startswith(words or "")
    assert (text is None) == (words is None)
    said = "0.5 a second." if limit else "2 a second."
    assert text is None or not (limit or throughput) or text.endswith(said)
    assert ("the rate of the last minutes" in (text or "")) == bool(text and throughput)


async def test_only_the_lane_that_is_named_is_paused(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    items = [api.item(f"O-{lane}", kind="OneLane", lane=lane) for lane in ("", "n")]
    await api.emit(key, *items)
    form = {"over": "lane", "kind": "OneLane", "reason": "INC-4"}
    await browser.send("/console/flows/acme/pause", form)
    flows = await list_flows(api.owner, kind="OneLane")
    assert [row["paused_at"] is not None for row in flows] == [True, False]
    for query, is_said in (
        ("kind=OneLane", True),
        ("kind=OneLane&default_lane=true&open=true", True),
        ("tenant=acme&kind=OneLane&state=Scheduled", True),
        ("late=true", True),
        ("kind=OneLane&lane=n", False),
        ("kind=OneLane&state=Completed", False),
        ("kind=Other", False),
        ("", False),
    ):
        text = (await browser.open(f"/console/items?{query}")).text
        words = ["OneLane (default lane)</a> <time", "by key:person: INC-4"]
        assert [each in text for each in words] == [is_said] * 2, query
    resume = {"kind": "OneLane", "of_kind": "OneLane", "of_default_lane": "true", "reason": "done"}
    await browser.send("/console/flows/acme/resume", resume)
    assert [row["paused_at"] for row in await list_flows(api.owner, kind="OneLane")] == [None] * 2
    assert "INC-4" not in (await browser.open("/console/items?kind=OneLane")).text


async def test_a_flow_shows_how_many_of_its_items_end_a_second(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    async def shown() -> tuple[str, str]:
        listed = await browser.open("/console/flows?kind=Rated&format=csv")
        [row] = csv.DictReader(io.StringIO(listed.text))
        page = await browser.open("/console/flows/acme/Rated")
        figure = page.text.partition('<span class="label">Rate</span>')[2].partition("</li>")[0]
        assert "no limit" in figure
        return row["throughput"], figure

    refresh = OverviewRefresh(LedgerActivity(api.lend), budget_seconds=30)
    await api.emit(key, api.item("R-1", kind="Rated"), api.item("R-2", kind="Rated"))
    await api.owner.execute("delete from ledger.overview_reader")
    assert (await shown())[0] == "", "it was not measured yet"
    await refresh.refresh(api.owner)
    assert float((await shown())[0]) == 0
    for claimed in await pull(api, key, "Rated"):
        names = ("item", "fence", "token", "position")
        done = {name: claimed[name] for name in names} | {"verdict": "completed"}
        assert [result for result, _ in await report(api, key, done)] == ["recorded"]
    await refresh.refresh(api.owner)
    rate, figure = await shown()
    assert float(rate) > 0
    assert f">{float(rate):,.10g}<" in figure
    flow = (await api.ask("GET", "/v1/flows/acme/Rated", key=key)).document
    [listed] = (await api.ask("GET", "/v1/flows?kind=Rated", key=key)).document["items"]
    assert flow["ended_per_second"] == listed["ended_per_second"] == float(rate)


async def test_only_limits_that_were_typed_change(
    api: Api, browser: Browser, key: NewApiKey
) -> None:
    await api.emit(key, api.item("M-1", kind="Limited"))
    [flow] = await list_flows(api.owner, kind="Limited")
    names = [name for name in FlowLimits.__dataclass_fields__ if name != "cleared"]
    shown = {name: flow[name] for name in names}
    fields = {name: str(value) for name, value in shown.items() if value is not None}
    scope = FlowScope("acme", "Limited", "")
    await set_flow_limits(api.owner, scope, FlowLimits(concurrency_max=7), actor_no=api.person_no)
    form = {**fields, "shown": json.dumps(shown), "reason": "INC-5"}
    path = "/console/flows/acme/Limited/limits"
    nothing = await browser.send(path, form)
    assert nothing.status == 422
    assert "no limit is named" in nothing.text
    wrong = await browser.send(path, {**form, "rate_per_second": "0"})
    assert wrong.status == 422
    assert "an item a year" in wrong.text
    grouped = {**form, "rate_per_second": "1,002.5", "reason": "INC-6"}
    assert (await browser.send(path, grouped)).status == 303
    [flow] = await list_flows(api.owner, kind="Limited")
    assert flow["rate_per_second"] == 1002.5
    set_ = await browser.send(path, {**form, "rate_per_second": "2.5"})
    assert set_.status == 303, set_.text
    [flow] = await list_flows(api.owner, kind="Limited")
    assert (flow["rate_per_second"], flow["concurrency_max"]) == (2.5, 7)
    history = (await browser.open("/console/flows/acme/Limited")).text
    assert "Items per second: 1002.5 → 2.5<" in history
    shown["rate_per_second"] = 2.5
    removed = await browser.send(path, {**fields, "shown": json.dumps(shown), "reason": "INC-5"})
    assert removed.status == 303
    [flow] = await list_flows(api.owner, kind="Limited")
    assert flow["rate_per_second"] is None


async def test_who_may_not_change_flows_is_shown_no_button_and_no_history(
    api: Api, key: NewApiKey
) -> None:
    await api.emit(key, api.item("R-1", kind="ReadOnly"))
    async with open_browser(api) as reader:
        await reader.sign_in(await api.make_key("flow-reader", Scope.READ))
        page = await reader.open("/console/flows/acme/ReadOnly")
        assert page.status == 200
        assert "Change limits" not in page.text
        assert "Who changed what" not in page.text
        assert (await reader.open("/console/flows/acme/Nothing")).status == 404
        assert (await reader.open("/console/flows/umbra/ReadOnly")).status == 404
