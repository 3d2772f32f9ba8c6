"""The heat strip: refreshed by one process at a time within its budget, each cell a link."""

import csv
import io
import re
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from datetime import UTC, timedelta
from html import unescape
from itertools import count

import pytest
from pydantic import SecretStr

from dueledger.console import open_console
from dueledger.console.activity import LedgerActivity
from dueledger.console.clock import iso
from dueledger.console.overview import OverviewRefresh
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import State
from dueledger.ledger.store.api_keys import NewApiKey, Scope
from dueledger.ledger.store.clock import read_now
from dueledger.service import ServiceSettings, open_service
from tests.console.conftest import Browser, open_browser
from tests.databases import MakeDatabase
from tests.ledger.conftest import Ledger
from tests.logins import with_login
from tests.service.conftest import Api, open_api
from tests.service.test_requests import problem

_CELL = re.compile(
    r'<td><a class="(\w+) n\d"(?: tabindex="-1")? href="([^"]+)" title="([^"]+)"></a></td>'
)


@pytest.fixture
async def api(make_database: MakeDatabase) -> AsyncGenerator[Api]:
    """A service whose ledger has the flows of one test alone."""
    async with open_api(make_database, open_console) as opened:
        yield opened


@pytest.fixture
async def key(api: Api) -> NewApiKey:
    return await api.make_key("person", *Scope)


@pytest.fixture
async def activity(api: Api) -> AsyncGenerator[LedgerActivity]:
    """What says that a page is open."""
    opened = LedgerActivity(api.lend)
    stream = opened.stream()
    await anext(stream)
    yield opened
    await stream.aclose()


async def test_each_cell_of_the_strip_is_a_link_to_its_items(
    api: Api, browser: Browser, key: NewApiKey, activity: LedgerActivity
) -> None:
    empty = await browser.open("/console/")
    assert "counted while this page is open" in empty.text
    unread = (await api.ask("GET", "/v1/overview", key=key)).document
    assert unread == {"since": None, "complete_since": None, "items": []}
    due = "2000-01-01T09:00:00Z"
    await api.emit(key, api.item("S-1", kind="StripDue", lane="<b>x</b>", due_at=due))
    other = await api.make_key("other", *Scope, tenants=["umbra"])
    await api.emit(other, api.item("S-2", kind="StripDue", tenant="umbra", due_at=due))
    refresh = OverviewRefresh(activity, budget_seconds=30)
    coming = iso(await read_now(api.owner) + timedelta(hours=1))
    many = [api.item(f"S-3{number}", kind="StripMany", due_at=coming) for number in range(9)]
    await api.emit(key, *many)
    assert await refresh.refresh(api.owner) == {"items": 0, "flows": 3}
    page = await browser.open("/console/")
    [(tone, href, title), (other_tone, other_href, _)] = _CELL.findall(page.text)
    assert (tone, other_tone) == ("late", "open")
    assert title.endswith(": 1 due, 1 open, the oldest late")
    assert "<b>x" not in page.text
    [marked] = re.findall(r'data-label="Late"><a href="([^"]+)">', page.text)[-1:]
    for address in (href, marked):
        assert "S-1" in (await browser.open(unescape(address))).text
    assert "S-30" in (await browser.open(unescape(other_href))).text
    flow = await browser.open("/console/flows/acme/StripMany")
    assert [each[:2] for each in _CELL.findall(flow.text)] == [(other_tone, other_href)]
    for path, kinds in (("/", ["StripDue", "StripMany"]), ("/flows/acme/StripMany", ["StripMany"])):
        sums = await browser.open(f"/console{path}?format=csv&table=strip_listing")
        assert [row["kind"] for row in csv.DictReader(io.StringIO(sums.text))] == kinds
    everyone = await api.make_key("everyone", *Scope, tenants=None)
    for asked, query, expected in (
        (key, "", [("StripDue", 1), ("StripMany", 9)]),
        (key, "?limit=1", [("StripMany", 9)]),
        (key, "?tenant=umbra", []),
        (key, "?tenant=acme&kind=StripDue&lane=<b>x</b>", [("StripDue", 1)]),
        (key, "?tenant=acme&kind=StripDue", []),
        (key, "?tenant=acme&kind=StripMany&limit=1", [("StripMany", 9)]),
        (key, "?tenant=umbra&kind=StripDue", []),
        (other, "", [("StripDue", 1)]),
        (everyone, "?tenant=umbra", [("StripDue", 1)]),
    ):
        document = (await api.ask("GET", f"/v1/overview{query}", key=asked)).document
        found = [
            (flow["kind"], quarter["due"])
            for flow in document["items"]
            for quarter in flow["quarters"]
        ]
        assert sorted(found) == expected, query
        assert all(flow["age_seconds"] >= 0 for flow in document["items"])
        assert document["since"] is not None
    [quarter] = document["items"][0]["quarters"]
    assert quarter["since"] >= document["since"]
    assert (quarter["open"], quarter["past_grace"], quarter["completed"]) == (1, 0, 0)
    unnamed = await api.ask("GET", "/v1/overview?kind=StripDue", key=key)
    problem(unnamed, 422, "INVALID_INPUT")
    async with open_browser(api) as stranger:
        await stranger.sign_in(other)
        assert "<b>x" not in (own := (await stranger.open("/console/")).text)
        assert "acme" not in own
        assert len(_CELL.findall(own)) == 1


async def test_numbers_of_the_strip_lead_to_their_items(
    api: Api,
    browser: Browser,
    activity: LedgerActivity,
    make_drafts: Callable[..., list[ItemDraft]],
    kind: str,
) -> None:
    ledger = Ledger(api.owner, api.person_no, api.person_no, make_drafts, kind)
    now = await read_now(api.owner)
    for state in (State.COMPLETED, State.MANUAL_REVIEW):
        await ledger.place(state, tenant="acme", due_at=now - timedelta(hours=3))
    await ledger.stand_at(now + timedelta(minutes=2))
    await OverviewRefresh(activity, budget_seconds=30).refresh(api.owner)
    page = (await browser.open("/console/")).text
    numbers = {
        "Completed late": State.COMPLETED,
        "Failed or in review": State.MANUAL_REVIEW,
    }
    for label, state in numbers.items():
        [href] = re.findall(f'data-label="{label}"><a href="([^"]+)">1</a>', page)
        listed = (await browser.open(f"{unescape(href)}&format=csv")).text
        assert [row["state"] for row in csv.DictReader(io.StringIO(listed))] == [state.label]


async def test_the_strip_calls_late_what_is_past_its_sla_and_not_what_is_past_its_grace(
    api: Api,
    browser: Browser,
    key: NewApiKey,
    activity: LedgerActivity,
    make_drafts: Callable[..., list[ItemDraft]],
    kind: str,
) -> None:
    ledger = Ledger(api.owner, api.person_no, api.person_no, make_drafts, kind)
    now = await read_now(api.owner)
    await ledger.stand_at(now - timedelta(hours=5))
    for number, hours in enumerate((5, 3)):
        due_at = now - timedelta(hours=hours)
        await ledger.emit(1, prefix=f"{number}", tenant="acme", due_at=due_at)
    await api.owner.execute("update ledger.due_item set complete_by = '2099-01-01'")
    await ledger.stand_at(now)
    await OverviewRefresh(activity, budget_seconds=30).refresh(api.owner)

    async def marked() -> tuple[list[tuple[str, str]], str]:
        page = (await browser.open("/console/")).text
        cells = [(tone, title.partition(": ")[2]) for tone, _, title in _CELL.findall(page)]
        text = (await browser.open("/console/?format=csv&table=strip_listing")).text
        [row] = csv.DictReader(io.StringIO(text))
        assert row["past_grace"] == "2"
        [href] = re.findall(r'data-label="Open past their grace"><a href="([^"]+)">2</a>', page)
        listed = (await browser.open(f"{unescape(href)}&format=csv")).text
        assert len(listed.splitlines()) == 3
        return cells, row["is_late"]

    within = "open", "1 due, 1 open, past their grace"
    assert await marked() == ([within, within], "false")
    [flow] = (await api.ask("GET", "/v1/overview", key=key)).document["items"]
    assert [each["past_grace"] for each in flow["quarters"]] == [1, 1]
    await api.owner.execute(
        "update ledger.due_item set complete_by = null where due_at > $1",
        now - timedelta(hours=4),
    )
    cells, is_late = await marked()
    assert (cells[1], is_late) == (("late", "1 due, 1 open, late"), "true")


async def test_each_quarter_hour_of_a_flow_is_a_row_of_numbers_that_lead_to_its_items(
    api: Api, browser: Browser, key: NewApiKey, activity: LedgerActivity
) -> None:
    now = await read_now(api.owner)
    for hours in (1, 3):
        due_at = iso(now + timedelta(hours=hours))
        await api.emit(key, api.item(f"Q-{hours}", kind="Quarters", lane="n", due_at=due_at))
    await OverviewRefresh(activity, budget_seconds=30).refresh(api.owner)
    page = (await browser.open("/console/")).text
    [href] = re.findall(r'<a href="([^"]+)">By quarter hour</a>', page)
    assert 'id="quarters"' not in (await browser.open("/console/flows/acme/Quarters?lane=n")).text
    path, _, place = unescape(href).partition("#")
    numbers = (await browser.open(path)).text.partition(f'id="{place}"')[2]
    rows = re.findall(r'scope="row"><a href="([^"]+)"><time datetime="([^"]+)"', numbers)
    document = (await api.ask("GET", "/v1/overview", key=key)).document
    [flow] = document["items"]
    assert [since for _, since in rows] == [each["since"] for each in flow["quarters"]]
    for number, (address, _) in zip((1, 3), rows, strict=True):
        listed = (await browser.open(f"{unescape(address)}&format=csv")).text
        assert [row["business_key"] for row in csv.DictReader(io.StringIO(listed))] == [
            f"Q-{number}"
        ]
    sums = csv.DictReader(io.StringIO((await browser.open(f"{path}&format=csv")).text))
    assert [row["open"] for row in sums] == ["1", "1"]


async def test_the_last_hour_by_minute_is_on_the_page_and_by_rest_for_each_tenant_its_own(
    api: Api,
    browser: Browser,
    key: NewApiKey,
    activity: LedgerActivity,
    make_drafts: Callable[..., list[ItemDraft]],
    kind: str,
) -> None:
    other = await api.make_key("other", *Scope, tenants=["umbra"])
    everyone = await api.make_key("everyone", *Scope, tenants=None)
    assert "by minute" not in (await browser.open("/console/")).text
    empty = await api.ask("GET", "/v1/throughput", key=key)
    assert empty.document == {"until": None, "hour": None, "items": []}
    ledger = Ledger(api.owner, api.person_no, api.person_no, make_drafts, kind)
    now = await read_now(api.owner)
    for tenant in ("acme", "umbra", "acme"):
        await ledger.place(State.COMPLETED, tenant=tenant, due_at=now - timedelta(seconds=40))
    await ledger.stand_at(now + timedelta(minutes=2))
    await OverviewRefresh(activity, budget_seconds=30).refresh(api.owner)
    page = await browser.open("/console/")
    numbers = re.findall(r'<a class="number" href="([^"]+)">([\d.]+)( min| s)?</a>', page.text)
    assert [each[1:] for each in numbers[-2:]] == [("2", ""), ("42", " s")]
    assert f'id="{numbers[-1][0].removeprefix("#")}"' in page.text
    assert numbers[-2][0] == numbers[-1][0], "no list of items is by when they were completed"
    assert "by minute from" in page.text
    table = await browser.open("/console/?format=csv&table=minutes")
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert sum(int(row["completed"]) for row in rows) == 2
    for asked, tenant, completed in (
        (key, "", 2),
        (other, "", 1),
        (everyone, "", 3),
        (everyone, "?tenant=umbra", 1),
    ):
        answer = await api.ask("GET", f"/v1/throughput{tenant}", key=asked)
        assert answer.document["hour"]["completed"] == completed
        minutes = answer.document["items"]
        assert len(minutes) == 60
        assert sum(each["completed"] for each in minutes) == completed
    foreign = await api.ask("GET", "/v1/throughput?tenant=acme", key=other)
    assert foreign.document["hour"]["completed"] == 0
    async with open_browser(api) as stranger:
        await stranger.sign_in(other)
        assert '">1</a>' in (await stranger.open("/console/")).text
    # Another service, as after a restart, has the hour and goes on with it; nothing twice.
    settings = ServiceSettings.model_validate(
        {"dsn": SecretStr(with_login(api.dsn, "service")), "service_port": 0}
    )
    before = (await api.ask("GET", "/v1/throughput", key=everyone)).document
    async with open_service(settings, open_console) as restarted:
        again = replace(api, service=restarted)
        assert (await again.ask("GET", "/v1/throughput", key=everyone)).document == before
        await ledger.place(State.COMPLETED, tenant="acme", due_at=now)
        await ledger.stand_at(now + timedelta(minutes=4))
        await OverviewRefresh(LedgerActivity(api.lend), budget_seconds=30).refresh(api.owner)
        after = (await again.ask("GET", "/v1/throughput", key=everyone)).document
        assert (after["hour"]["completed"], after["hour"]["sampled"]) == (4, 4)
        async with open_browser(again) as reader:
            await reader.sign_in(everyone)
            await _check_words_of_sparklines(again, reader)


async def _check_words_of_sparklines(api: Api, browser: Browser) -> None:
    """Check the words for an estimate, for an hour that begins later or yesterday, and for none."""
    until = await api.owner.fetchval("select minutes_to from ledger.overview_reader")
    hour = until.astimezone(UTC).hour
    zone = f"Etc/GMT+{hour}" if hour <= 12 else f"Etc/GMT-{24 - hour}"  # it is midnight there
    browser.session.cookie_jar.update_cookies({"dueledger_zone": zone}, browser.origin)
    await browser.send("/console/preferences", {"zone": "browser", "to": "/console/"})
    begins = f"<span>23:{until:%M}</span> <span>00:{until:%M}</span>"
    for change, words in (
        ("overview_minute set items = 10 * items", (">about 40<", " 4 of them were looked at")),
        (
            "overview_reader set minutes_from = minutes_to - interval '50 minutes'",
            ("Only what was completed since ",),
        ),
        (
            "overview_minute set minute = minute - interval '2 hours'",
            ("No item was completed.", ">–</a>"),
        ),
    ):
        await api.owner.execute(f"update ledger.{change}")
        page = (await browser.open("/console/")).text
        for each in (begins, *words):
            assert each in page, (change, each)


async def test_one_process_refreshes_at_a_time_within_its_budget(
    api: Api, key: NewApiKey, activity: LedgerActivity
) -> None:
    first, second = (OverviewRefresh(activity) for _ in range(2))
    await api.emit(key, api.item("B-1", kind="BudgetDue"))
    assert await first.tick() == {"items": 0, "flows": 1}
    assert await second.tick() == {}
    assert await first.tick() == {"items": 0, "flows": 0}
    await api.owner.execute("update ledger.overview_flow set counted_at = 'epoch'")
    spent = OverviewRefresh(activity, clock=count().__next__)
    await spent.refresh(api.owner)
    stale = await api.owner.fetchval(
        "select count(*) from ledger.overview_flow where counted_at = 'epoch'"
    )
    assert stale > 0
