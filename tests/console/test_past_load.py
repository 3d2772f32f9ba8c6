"""The results of the last weeks: counted by a pass, on the calendar, by REST and as CSV."""

import csv
import io
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest

from dueledger.console import open_console
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, PlanProfile, connect, open_pool
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.ledger.store.clock import read_now, set_clock
from dueledger.ledger.store.items import emit_items, withdraw_items
from dueledger.ledger.store.partitions import make_partitions
from dueledger.reconciler import PassLimits, Reconciler, ReconcilerSources
from tests.console.conftest import Browser, open_browser
from tests.databases import MakeDatabase
from tests.ledger.conftest import Ledger
from tests.logins import with_login
from tests.published_records import nothing_published
from tests.service.conftest import SCHEDULE, Api, open_api

NOON = datetime(2027, 3, 3, 12, 5, tzinfo=UTC)
DUE = datetime(2027, 3, 1, 22, 40, tzinfo=UTC)
"""Still the first of March in UTC, and the second in Kolkata and in Berlin."""
PAST = "/console/schedules/past"
_CELL = re.compile(r'<a class="past (\w+)"(?: tabindex="-1")? href="([^"]+)" title="([^"]+)">')
_COMING = re.compile(
    r'<td class="ahead"><a class="(past)"(?: tabindex="-1")? href="([^"]+)" title="([^"]+)">'
)
HOUR = timedelta(hours=1)
COUNTS = {
    "due": 7,
    "completed": 3,
    "completed_late": 1,
    "in_review": 1,
    "withdrawn": 1,
    "written_off": 0,
    "open": 2,
    "had_failures": 3,
}


@pytest.fixture
async def api(make_database: MakeDatabase) -> AsyncGenerator[Api]:
    """A service at a fixed time, whose ledger has the items of one test alone."""

    @asynccontextmanager
    async def at_noon() -> AsyncGenerator[str]:
        async with make_database() as dsn:
            connection = await connect(dsn, application_name="test")
            await set_clock(connection, NOON, 0, database=True)
            await make_partitions(connection, ahead=timedelta(days=31))
            await connection.close()
            yield dsn

    async with open_api(at_noon, open_console) as opened:
        yield opened


@pytest.fixture
async def key(api: Api) -> NewApiKey:
    return await api.make_key("person", *Scope)


async def reconcile(api: Api) -> None:
    """Run a pass over the whole ledger."""
    actor_no = await register_actor(api.owner, "reconciler:test", ActorKind.RECONCILER)
    dsn = with_login(api.dsn, "reconciler")
    async with open_pool(dsn, application_name="test", profile=PlanProfile.ANALYTIC) as pool:
        reconciler = Reconciler(
            pool,
            ReconcilerSources(),
            actor_no,
            limits=PassLimits(stuck_seconds=0),
            record_index=nothing_published(),
        )
        await reconciler.run_pass()


async def work_all_ways(api: Api, make_drafts: Callable[..., list[ItemDraft]], kind: str) -> None:
    """Let seven items have each result: in time, after a failure, late, in review and so on."""

    def make(count: int, **terms: Any) -> list[ItemDraft]:  # noqa: ANN401 - those of an item
        return make_drafts(count, kind=kind, **terms)

    ledger = Ledger(api.owner, api.person_no, api.person_no, make, kind)
    await ledger.stand_at(DUE)
    (cancelled, *_) = await ledger.emit(1, prefix="cancelled", due_at=DUE)
    await withdraw_items(
        api.owner,
        [cancelled],
        event=TransitionEvent.CANCELLED,
        reason="test",
        actor_no=api.person_no,
    )
    await ledger.emit(5, due_at=DUE)
    await ledger.stand_at(DUE + timedelta(seconds=1))
    run = await ledger.start((await ledger.claim()).fence, 1, 5)
    completed, failed = TransitionEvent.COMPLETED, TransitionEvent.FAILED
    await ledger.settle(
        run.run_no, completed, failed, failed, TransitionEvent.PARKED, completed, after_seconds=60
    )
    await ledger.stand_at(DUE + timedelta(days=1))
    run = await ledger.start((await ledger.claim(limit=1)).fence)
    await ledger.settle(run.run_no, completed)
    await ledger.emit(1, prefix="open", due_at=DUE)
    await ledger.stand_at(NOON)


async def test_each_result_is_counted_by_a_pass_and_shown_with_its_items(
    api: Api,
    browser: Browser,
    key: NewApiKey,
    make_drafts: Callable[..., list[ItemDraft]],
    kind: str,
) -> None:
    await work_all_ways(api, make_drafts, kind)
    before = await browser.open(PAST)
    assert "Nothing is counted yet" in before.text
    nothing = (await api.ask("GET", "/v1/past-load/days", key=key)).document
    assert nothing == {
        "as_of": None, "counted_from": None, "until": None, "items": [], "next_cursor": None,
    }  # fmt: skip
    await reconcile(api)

    days = (await api.ask("GET", "/v1/past-load/days", key=key)).document
    assert days["as_of"] == "2027-03-03T12:05:00Z"
    assert days["until"] == "2027-03-03T12:00:00Z"
    assert days["counted_from"] == "2027-01-27T12:00:00Z"
    (found,) = days["items"]
    assert (found["tenant"], found["kind"]) == ("acme", kind)
    assert found["days"] == [{**COUNTS, "day": "2027-03-01"}]
    there = await api.ask("GET", "/v1/past-load/days?zone=Asia/Kolkata&kind=" + kind, key=key)
    assert [day["day"] for day in there.document["items"][0]["days"]] == ["2027-03-02"]
    hours = await api.ask("GET", "/v1/past-load/hours?zone=Asia/Kolkata", key=key)
    assert hours.document["items"] == [{**COUNTS, "since": "2027-03-01T22:30:00Z"}]
    utc = await api.ask("GET", f"/v1/past-load/hours?kind={kind}&from=2027-03-01&days=1", key=key)
    assert utc.document["items"] == [{**COUNTS, "since": "2027-03-01T22:00:00Z"}]
    other_day = await api.ask("GET", "/v1/past-load/hours?from=2027-03-02&days=1", key=key)
    assert other_day.document["items"] == []

    page = await browser.open(PAST)
    (by_day, by_hour) = _CELL.findall(page.text)
    assert by_day[0] == by_hour[0] == "failed"
    assert by_day[2] == (
        "Mon 2027-03-01: 7 due, 3 completed (1 late), 1 in review, 1 withdrawn, 2 still open,"
        " 3 with failed attempts"
    )
    assert by_hour[2].startswith("Monday 22:00, four weeks: 7 due")
    assert by_hour[2].endswith("; the worst was 2027-03-01")
    for _, href, _ in (by_day, by_hour):
        items = await browser.open(f"{unescape(href)}&format=csv")
        assert len(list(csv.DictReader(io.StringIO(items.text)))) == COUNTS["due"]
    assert "not counted</span></td>" not in page.text
    assert "<tbody>" not in page.text
    numbers = (await browser.open(f"{PAST}?table=past_days")).text
    assert "2027-03-01" in numbers.partition('id="past_days"')[2]
    for table, when in (("past_days", "2027-03-01"), ("past_hours", "2027-03-01T22:00:00Z")):
        sent = await browser.open(f"{PAST}?format=csv&table={table}")
        (row,) = csv.DictReader(io.StringIO(sent.text))
        assert when in row.values()
        assert {name: int(row[name]) for name in COUNTS} == COUNTS
        head = f'href="{PAST}?table={table}&amp;sort=-due#sort-{table}-due">Due</a>'
        assert head in (await browser.open(f"{PAST}?table={table}&sort=due")).text
    await api.owner.execute("update ledger.past_load_count set counted_from = '2027-03-01'")
    grids = (await browser.open(PAST)).text.split('class="calendar')[1:]
    assert [grid.count("not counted</span></td>") for grid in grids] == [25, 7 * 24 - 60]


async def test_each_key_sees_its_tenants_alone_and_kinds_have_pages(
    api: Api, browser: Browser, key: NewApiKey, make_drafts: Callable[..., list[ItemDraft]]
) -> None:
    everyone = await api.make_key("all", Scope.READ, tenants=None)
    other = await api.make_key("other", Scope.READ, tenants=["umbra"])
    kinds = [f"Kind{number:02}" for number in range(30)]
    for tenant, names in (("acme", kinds), ("umbra", kinds[:1])):
        for name in names:
            drafts = make_drafts(2, tenant=tenant, kind=name, due_at=DUE)
            await emit(api.owner, drafts, api.person_no)
    await reconcile(api)
    for asked, tenant, due in (
        (everyone, "", 62), (everyone, "?tenant=umbra", 2), (everyone, "?kind=Kind00", 4),
        (key, "", 60), (key, "?tenant=umbra", 0), (other, "", 2), (other, "?kind=Kind01", 0),
    ):  # fmt: skip
        hours = await api.ask("GET", f"/v1/past-load/hours{tenant}", key=asked)
        assert sum(each["due"] for each in hours.document["items"]) == due, (asked.prefix, tenant)
        days = await api.ask("GET", f"/v1/past-load/days{tenant}", key=asked)
        counted = [day["due"] for each in days.document["items"] for day in each["days"]]
        assert sum(counted) == due
    first = (await api.ask("GET", "/v1/past-load/days?limit=20", key=key)).document
    cursor = first["next_cursor"]
    second = await api.ask("GET", f"/v1/past-load/days?limit=20&cursor={cursor}", key=key)
    assert [each["kind"] for each in first["items"] + second.document["items"]] == kinds
    assert second.document["next_cursor"] is None
    page = await browser.open(PAST)
    assert [name for name in kinds if f"acme {name}</a>" in page.text] == kinds[:8]
    (link,) = re.findall(r'rel="next" href="([^"]+)"', page.text)
    rest = (await browser.open(unescape(link))).text.partition('class="calendar past-days"')[2]
    assert [name for name in kinds if f"acme {name}</a>" in rest] == kinds[8:16]
    (link,) = re.findall(
        r'href="([^"]+)" aria-label="Past items by kind and day as CSV"', page.text
    )
    assert "up to 100,000 rows, from the first kind" in page.text
    answer = await browser.open(unescape(link))
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["kind"] for row in rows] == kinds
    assert "Link" not in answer.headers
    assert (await browser.open(f"{PAST}?format=csv")).text == answer.text
    async with open_browser(api) as stranger:
        await stranger.sign_in(other)
        own = (await stranger.open(PAST)).text
        assert "acme" not in own
        assert "umbra Kind00" in own


async def test_kinds_with_most_items_late_or_open_are_first_and_of_many_the_first_by_name(
    api: Api,
    browser: Browser,
    key: NewApiKey,
    make_drafts: Callable[..., list[ItemDraft]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await browser.sign_in(key)
    for name, count, due_at in (
        *(("A", 1, DUE), ("B", 3, DUE), ("C", 3, DUE), ("D", 5, DUE)),
        ("E", 9, DUE - timedelta(days=32)),  # before the four weeks
    ):
        drafts = make_drafts(count, kind=f"Rank{name}", due_at=due_at)
        await emit(api.owner, drafts, api.person_no)
    await reconcile(api)

    async def listed() -> str:
        found, cursor = "", ""
        while cursor is not None:
            asked = f"/v1/past-load/days?limit=2{cursor and f'&cursor={cursor}'}"
            answer = (await api.ask("GET", asked, key=key)).document
            found += "".join(each["kind"][-1] for each in answer["items"])
            cursor = answer["next_cursor"]
        return found

    page = (await browser.open(PAST)).text
    assert "Kinds with most items late or not completed first." in page
    assert re.findall(r">acme Rank(\w)</a>", page) == [*"DBCA"]
    sent = await browser.open(f"{PAST}?format=csv&table=past_days")
    assert [row["kind"][-1] for row in csv.DictReader(io.StringIO(sent.text))] == [*"DBCA"]
    assert await listed() == "DBCA"
    monkeypatch.setattr("dueledger.past_load.KINDS_RANKED_MAX", 4)
    page = (await browser.open(PAST)).text
    assert "Kinds by name." in page
    assert re.findall(r">acme Rank(\w)</a>", page) == [*"ABCD"]
    assert await listed() == "ABCD"


async def test_what_is_owed_of_today_begins_where_the_count_ends(
    api: Api, browser: Browser, make_drafts: Callable[..., list[ItemDraft]], kind: str
) -> None:
    await emit(api.owner, make_drafts(2, kind=kind, due_at=NOON - HOUR), api.person_no)
    when = {"cron": "0 * * * *", "timezone": "UTC"}
    await api.define("acme", "hourly", {**SCHEDULE, "kind": kind, "when": when})
    page = await browser.open(PAST)
    ((_, _, words), *_) = _COMING.findall(page.text)
    assert words == "Wed 2027-03-03, from 00:00: schedules owe 11"
    await reconcile(api)
    page = await browser.open(PAST)
    by_day = page.text.partition('id="past-hours"')[0]
    ((_, past, counted),) = _CELL.findall(by_day)
    assert counted == "Wed 2027-03-03, until 12:00: 2 due, 2 still open"
    assert "due_from=2027-03-03T00:00:00Z&amp;due_before=2027-03-03T12:00:00Z" in past
    ((_, rest, owed), (_, tomorrow, whole), *days) = _COMING.findall(by_day)
    assert owed == "Wed 2027-03-03, from 12:00: schedules owe 11"
    assert rest.endswith("due_from=2027-03-03T12:00:00Z&amp;due_before=2027-03-04T00:00:00Z")
    assert whole == "Thu 2027-03-04: schedules owe 24"
    assert tomorrow.endswith("due_before=2027-03-05T00:00:00Z&amp;open=true")
    assert len(days) == 5


async def test_a_weekday_and_hour_has_what_schedules_owe_beside_what_happened(
    api: Api, browser: Browser, make_drafts: Callable[..., list[ItemDraft]], kind: str
) -> None:
    when = {"cron": "*/15 9,13 * * *", "timezone": "UTC"}
    await api.define("acme", "twice", {**SCHEDULE, "kind": kind, "when": when})
    grid = (await browser.open(PAST)).text.partition('id="past-hours"')[2]
    assert grid.count('<td class="uncounted"><span class="hidden">not counted</span><a') == 13
    past = NOON - timedelta(days=1, hours=3)
    await emit(api.owner, make_drafts(2, kind=kind, due_at=past), api.person_no)
    await reconcile(api)
    grid = (await browser.open(PAST)).text.partition('id="past-hours"')[2]
    [(_, _, words)] = _CELL.findall(grid)
    assert words.startswith("Tuesday 09:00, four weeks: 2 due")
    assert words.endswith("; the worst was 2027-03-02; schedules owe 4 on 2027-03-09")
    assert "2<span>○2</span><span>+4</span></a>" in grid
    alone = _COMING.findall(grid)
    assert len(alone) == 12  # today 13:00, and both hours of five days, and one of Tuesday
    assert ("Wednesday 13:00: schedules owe 4 on 2027-03-03") in {each[2] for each in alone}
    address = "due_from=2027-03-03T13:00:00Z&amp;due_before=2027-03-03T14:00:00Z&amp;open=true"
    assert any(each[1].endswith(address) for each in alone)
    numbers = (await browser.open(f"{PAST}?table=past_hours")).text.partition('id="past_hours"')[2]
    assert "Schedules owe" in numbers
    sent = await browser.open(f"{PAST}?format=csv&table=past_hours")
    rows = list(csv.DictReader(io.StringIO(sent.text)))
    assert [(row["due"], row["coming"]) for row in rows] == [("2", ""), *([("", "4")] * 13)]
    other = (await browser.open(f"{PAST}?kind=Other")).text
    assert "schedules owe" not in other.partition('id="past-hours"')[2].partition("<tbody")[2]


async def test_hours_are_those_of_the_zone_where_its_clock_moves_by_half_an_hour(
    api: Api, key: NewApiKey, make_drafts: Callable[..., list[ItemDraft]], kind: str
) -> None:
    moved = datetime(2027, 4, 3, 15, tzinfo=UTC)
    await set_clock(api.owner, moved + timedelta(days=2), 0, database=True)
    await make_partitions(api.owner, ahead=timedelta(days=31))
    for number in (-1, 1):
        due_at = moved + number * timedelta(minutes=40)
        drafts = make_drafts(1, kind=kind, due_at=due_at, prefix=f"at{number}")
        await emit(api.owner, drafts, api.person_no)
    await reconcile(api)
    query = "zone=Australia/Lord_Howe&from=2027-04-03&days=3"
    hours = await api.ask("GET", f"/v1/past-load/hours?{query}", key=key)
    assert [each["since"] for each in hours.document["items"]] == [
        "2027-04-03T14:00:00Z",
        "2027-04-03T15:30:00Z",
    ]


async def emit(connection: Connection, drafts: list[ItemDraft], actor_no: int) -> None:
    await emit_items(connection, drafts, actor_no=actor_no)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("zone=Mars/Olympus", "UNKNOWN_ZONE"),
        ("zone=../../etc/passwd", "UNKNOWN_ZONE"),
        ("zone=%00", None),
        ("zone=" + "a" * 101, None),
        ("from=1900-01-01", None),
        ("from=9999-12-31", None),
        ("from=0", None),
        ("days=36", None),
        ("days=0", None),
        ("from=2027-03-01T00:00:00Z'--", None),
    ],
)
async def test_times_that_cannot_be_are_refused(
    api: Api, key: NewApiKey, query: str, code: str | None
) -> None:
    for path in ("days", "hours"):
        answer = await api.ask("GET", f"/v1/past-load/{path}?{query}", key=key)
        assert answer.status == 422, answer.text
        assert code is None or answer.document["code"] == code


async def test_days_of_other_lengths_and_far_ones_are_answered(api: Api, key: NewApiKey) -> None:
    await reconcile(api)
    now = await read_now(api.owner)
    for zone in ("Pacific/Apia", "Asia/Kathmandu", "America/Santiago", "Pacific/Kiritimati"):
        for day in ("2000-01-01", "2011-12-29", now.date(), "2199-12-24"):
            for path in ("days", "hours"):
                query = f"zone={zone}&from={day}&days=35"
                answer = await api.ask("GET", f"/v1/past-load/{path}?{query}", key=key)
                assert (answer.status, answer.document["items"]) == (200, []), answer.text


async def test_the_page_says_what_of_the_coming_days_it_leaves_out(
    api: Api, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        name = f"nightly-{number}"
        daily = {"cron": "0 9 * * *", "timezone": "UTC"}
        await api.define("acme", name, {**SCHEDULE, "business_key": name, "when": daily})
    await reconcile(api)
    whole = (await browser.open(PAST)).text
    assert "What schedules owe is not said of all." not in whole
    monkeypatch.setattr("dueledger.service.routes.load.DEFINITIONS_MAX", 1)
    monkeypatch.setattr("dueledger.console.pages.past_calendar.DEFINITIONS_MAX", 1)
    assert "Of the first 1 definitions alone." in (await browser.open(PAST)).text
    monkeypatch.setattr("dueledger.console.pages.past_calendar.OCCURRENCES_MAX", 1)
    cut = (await browser.open(PAST)).text
    assert "They owe more than 1 items: choose a tenant and a kind." in cut


async def test_hours_are_read_once_until_a_pass_counts_anew_and_by_each_reader(
    api: Api, key: NewApiKey, make_drafts: Callable[..., list[ItemDraft]]
) -> None:
    await work_all_ways(api, make_drafts, "LetterDue")
    await reconcile(api)
    stranger = await api.make_key("stranger", *Scope, tenants=["umbra"])

    async def shown(by: NewApiKey) -> bool:
        async with open_browser(api) as browser:
            await browser.sign_in(by)
            answered = await browser.open(f"{PAST}?format=csv&table=past_hours")
            return "2027-03-01" in answered.text

    assert await shown(key)
    await api.owner.execute("delete from ledger.past_load")
    assert await shown(key)
    assert not await shown(stranger)
    await api.owner.execute("update ledger.past_load_count set as_of = as_of")
    assert not await shown(key)
