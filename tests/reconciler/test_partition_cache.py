"""What a pass takes from the partition cache, and what makes it read again."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from datetime import UTC, date, datetime, timedelta

import asyncpg
import pytest

from dueledger.ledger.definitions.parsing import load_definitions
from dueledger.ledger.finding_types import FindingType, Resolution
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection, Pool, clock, connect
from dueledger.ledger.store.definitions import define
from dueledger.ledger.store.items import emit_items
from dueledger.ledger.store.reconciled_rows import VersionKey, VersionSource
from dueledger.reconciler import (
    PassLimits,
    PassResult,
    PassScope,
    Reconciler,
    ReconcilerSources,
    ReconciliationReport,
    SqlPopulation,
)
from dueledger.reconciler.partition_cache import CachedWindow, PartitionCache
from dueledger.reconciler.read.day_digests import DayRows
from dueledger.reconciler.report.html_page import render_page
from dueledger.reconciler.report.model import OldestUnread
from dueledger.reconciler.sources import EvidenceQuery, ListedEffect, PopulationBounds
from dueledger.reconciler.windows import DateRange
from tests.seals import put_grace

pytestmark = pytest.mark.long

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
APRIL, MAY = date(2027, 4, 10), date(2027, 5, 10)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)

Make = Callable[..., Reconciler]
Owe = Callable[[list[ItemDraft]], Awaitable[None]]
Drafts = Callable[..., list[ItemDraft]]
At = Callable[[datetime], Awaitable[None]]

SCHEDULE = """
definition: statements
tenant: acme
kind: {kind}
business_key: statements
when: {{cron: "0 9 10 * *", timezone: UTC}}
"""


BODY = '{{"policy": "P-{}", "term": "1", "on": "2027-04-10"}}'
EVENT_RULE = """
definition: renewal
tenant: acme
kind: {kind}
event: PolicyActivated
business_key: data.policy
cycle: data.term
effective_date: data.on
when: {{relative: P0D, to: effective_date, at: "09:00", timezone: UTC}}
"""


@pytest.fixture
def at(frozen: Connection, analytic: Pool) -> At:
    """Move business time for the writer and the reconciler."""

    async def move(moment: datetime) -> None:
        async with analytic.acquire() as connection:
            for each in (frozen, connection):
                await clock.set_clock(each, moment, 0)

    return move


@pytest.fixture
async def waiting_items(
    frozen: Connection, make_drafts: Drafts, at: At, actor_no: int
) -> list[ItemDraft]:
    """Three items of April and four of May that wait for later; emitted a minute ago."""
    drafts = [
        *make_drafts(3, due_at=NOON + HOUR, effective_date=APRIL),
        *make_drafts(4, due_at=NOON + 2 * HOUR, effective_date=MAY),
    ]
    await emit_items(frozen, drafts, actor_no=actor_no)
    await at(NOON + MINUTE)
    return drafts


async def tick(reconciler: Reconciler) -> PassResult:
    """Make one pass of the loop."""
    await reconciler.tick()
    assert reconciler.last is not None
    return reconciler.last


async def test_a_second_pass_of_the_loop_reads_no_item_again_and_says_the_same(
    make_reconciler: Make, waiting_items: list[ItemDraft]
) -> None:
    reconciler = make_reconciler()
    first, second = await tick(reconciler), await tick(reconciler)

    assert (first.cached_windows, first.cached_items) == (0, 0)
    assert (second.cached_windows, second.cached_items) == (2, len(waiting_items))
    assert second.comparison.tallies == first.comparison.tallies
    assert second.accounting == first.accounting
    assert second.watermarks != []


@pytest.mark.usefixtures("waiting_items")
async def test_a_pass_outside_the_loop_or_of_a_part_caches_nothing(make_reconciler: Make) -> None:
    reconciler = make_reconciler()
    await tick(reconciler)

    assert (await reconciler.run_pass()).cached_windows == 0
    part = await reconciler.run_pass(PassScope(APRIL, MAY), cache=reconciler.cache)
    assert part.cached_windows == 0
    assert (await tick(reconciler)).cached_windows == 2


CHANGES = {
    "insert": "insert into ledger.due_item (effective_date, id, flow_no, business_key, cycle,"
    " due_at, payload, emitted_at, actor_no) select effective_date, gen_random_uuid(), flow_no,"
    " business_key || '-2', cycle, due_at, payload, emitted_at, actor_no from ledger.due_item"
    " where effective_date = $1 order by item_no limit 1",
    "update": "update ledger.due_item set business_key = 'another' where effective_date = $1",
    "delete": "with gone as (delete from ledger.due_item where effective_date = $1 returning"
    " item_no) delete from ledger.pending where item_no in (select item_no from gone)",
    "transition": "with ended as (delete from ledger.pending where effective_date = $1 returning"
    " *) insert into ledger.transition select effective_date, 5, 1, item_no, null,"
    " (select min(actor_no) from ledger.actor), ledger.now(), null from ended",
    "truncate": "truncate ledger.due_item_202704",
    "payload": "update ledger.due_item set payload = '{\"edited\": 1}' where effective_date = $1",
    "as it was": "update ledger.due_item set tzdata = tzdata where effective_date = $1",
}


KNOWN = VersionSource(VersionKey(7, 1_000), frozenset({1, 2}))
LATER_SOURCES = {
    "later": (KNOWN._replace(key=VersionKey(7, 9_000)), HOUR, True),
    "another partition": (KNOWN._replace(partitions=frozenset({1, 2, 3})), HOUR, True),
    "a partition less": (KNOWN._replace(partitions=frozenset({2, 3})), HOUR, False),
    "other columns": (KNOWN._replace(key=VersionKey(8, 9_000)), HOUR, False),
    "a day later": (KNOWN._replace(key=VersionKey(7, 9_000)), 24 * HOUR, False),
    "the clock set back": (KNOWN._replace(key=VersionKey(7, 9_000)), -HOUR, False),
    "too many transactions": (KNOWN._replace(key=VersionKey(7, 2**30 + 1_001)), HOUR, False),
}


@pytest.mark.parametrize(("source", "after", "is_kept"), LATER_SOURCES.values(), ids=LATER_SOURCES)
def test_g11_what_a_pass_knows_ends_with_the_key_for_versions_of_rows(
    source: VersionSource, after: timedelta, *, is_kept: bool
) -> None:
    cache, window = PartitionCache(), DateRange.of(APRIL, MAY)
    assert cache.take_key(KNOWN, NOON) == KNOWN.key
    cache.results, cache.days = {window: CachedWindow("", NOON, NOON)}, {window.from_day: DayRows()}

    assert cache.take_key(source, NOON + after) == (KNOWN.key if is_kept else source.key)
    assert bool(cache.results) == bool(cache.days) == is_kept


@pytest.mark.damages
@pytest.mark.usefixtures("waiting_items")
@pytest.mark.parametrize("change", CHANGES)
async def test_g11_a_change_by_plain_sql_to_a_cached_month_is_read(
    frozen: Connection, make_reconciler: Make, change: str
) -> None:
    reconciler = make_reconciler()
    await tick(reconciler)
    assert (await tick(reconciler)).cached_items == 7

    text = CHANGES[change]
    await frozen.execute(text, *[APRIL] * ("$1" in text))
    seen = await tick(reconciler)

    assert seen.cached_items == 4
    whole = await make_reconciler().run_pass()
    assert seen.comparison.tallies == whole.comparison.tallies
    assert seen.accounting == whole.accounting
    assert seen.found == whole.found


@pytest.mark.usefixtures("waiting_items")
async def test_g11_overdue_by_time_alone_is_seen(
    frozen: Connection, make_reconciler: Make, at: At
) -> None:
    await put_grace(frozen, 600)
    reconciler = make_reconciler()
    await tick(reconciler)
    for moment, cached, found in (
        (NOON + HOUR - timedelta(seconds=1), 7, {}),
        (NOON + HOUR, 4, {}),
        (NOON + HOUR + 10 * MINUTE - timedelta(seconds=1), 7, {}),
        (NOON + HOUR + 10 * MINUTE, 4, {}),
        (NOON + HOUR + 11 * MINUTE, 4, {FindingType.OVERDUE: 3}),
        (NOON + HOUR + 12 * MINUTE, 4, {FindingType.OVERDUE: 3}),
    ):
        await at(moment)
        seen = await tick(reconciler)
        assert (seen.cached_items, seen.found) == (cached, found), moment
        whole = await make_reconciler().run_pass()
        assert seen.comparison.tallies == whole.comparison.tallies
        assert seen.watermarks == whole.watermarks


@pytest.mark.usefixtures("waiting_items")
async def test_a_clock_that_is_set_back_is_no_reason_to_believe_what_was_read(
    make_reconciler: Make, at: At
) -> None:
    reconciler = make_reconciler()
    await at(NOON + 10 * MINUTE)
    await tick(reconciler)
    await at(NOON + 9 * MINUTE)
    assert (await tick(reconciler)).cached_items == 0


async def test_g11_a_changed_population_is_seen_though_the_ledger_is_as_it_was(
    make_reconciler: Make,
    waiting_items: list[ItemDraft],
    owe: Callable[[list[ItemDraft]], Awaitable[None]],
    domain: asyncpg.Connection,
    policies: SqlPopulation,
) -> None:
    await owe(waiting_items)
    reconciler = make_reconciler(ReconcilerSources((policies,)))
    await tick(reconciler)
    seen = await tick(reconciler)
    assert (seen.cached_items, seen.expected_count) == (7, 7)

    await domain.execute(
        "update policy_due set cycle = '2028' where business_key = 'key-000001'"
        " and effective_date = $1",
        APRIL,
    )
    seen = await tick(reconciler)
    assert (seen.cached_items, seen.expected_count) == (4, 7)
    assert seen.found == {FindingType.MISSING: 1, FindingType.UNEXPECTED: 1}

    await domain.execute("update policy_due set cycle = '2027'")
    assert (await tick(reconciler)).found == {}
    assert (await tick(reconciler)).cached_items == 7


async def test_g11_the_cache_is_not_used_while_a_population_cannot_be_read(
    make_reconciler: Make,
    waiting_items: list[ItemDraft],
    owe: Callable[[list[ItemDraft]], Awaitable[None]],
    domain: asyncpg.Connection,
    policies: SqlPopulation,
) -> None:
    await owe(waiting_items)
    reconciler = make_reconciler(ReconcilerSources((policies,)))
    await tick(reconciler)

    await domain.execute("alter table policy_due rename to elsewhere")
    seen = await tick(reconciler)
    assert seen.cached_items == 0
    assert seen.found == {FindingType.SOURCE_FAILED: 1}
    assert {mark.complete_before for mark in seen.watermarks} == {None}


async def test_g11_a_definition_and_a_population_that_come_are_seen(
    frozen: Connection,
    make_reconciler: Make,
    owe: Owe,
    policies: SqlPopulation,
    waiting_items: list[ItemDraft],
    kind: str,
    actor_no: int,
    at: At,
) -> None:
    reconciler = make_reconciler(ReconcilerSources((policies,)))
    await tick(reconciler)
    (definition,) = load_definitions(SCHEDULE.format(kind=kind), source="test")
    await define(
        frozen,
        definition.normalised(),
        tenant="acme",
        name=definition.definition,
        kind=kind,
        event_type=None,
        effective_from=NOON - timedelta(days=40),
        actor_no=actor_no,
    )

    seen = await tick(reconciler)

    assert (seen.cached_items, seen.found) == (7, {FindingType.MISSING: 1})
    await owe(waiting_items[:1])
    seen = await tick(reconciler)
    assert seen.cached_items == 0
    assert seen.found == {FindingType.MISSING: 1, FindingType.UNEXPECTED: 6}
    await at(NOON + 2 * MINUTE)
    assert (await tick(reconciler)).found == seen.found


@pytest.mark.usefixtures("waiting_items")
async def test_a_changed_grace_is_seen(frozen: Connection, make_reconciler: Make, at: At) -> None:
    await put_grace(frozen, 86_400)
    await at(NOON + HOUR + MINUTE)
    reconciler = make_reconciler()
    assert (await tick(reconciler)).found == {}

    await put_grace(frozen, 30)

    seen = await tick(reconciler)
    assert (seen.cached_items, seen.found) == (0, {FindingType.OVERDUE: 3})


@pytest.mark.usefixtures("waiting_items")
async def test_an_hour_after_the_last_whole_pass_everything_is_read(
    analytic: Pool, make_reconciler: Make
) -> None:
    reconciler = make_reconciler()
    reconciler.cache = PartitionCache(full_pass_seconds=3600)
    cached: list[int] = []
    for minutes in (0, 30, 59, 60, 61, 30):
        async with analytic.acquire() as connection:
            await clock.set_machine_clock(connection, NOON + minutes * MINUTE, 0)
        cached.append((await tick(reconciler)).cached_items)

    assert cached == [0, 7, 7, 0, 7, 0]
    reconciler.cache.full_pass_seconds = 0
    assert (await tick(reconciler)).cached_items == 0


@pytest.mark.usefixtures("waiting_items")
async def test_g11_a_report_names_the_oldest_date_that_its_pass_did_not_read_anew(
    frozen: Connection, analytic: Pool, make_reconciler: Make
) -> None:
    reconciler = make_reconciler()
    reports: list[ReconciliationReport] = []
    for minutes, changed in ((0, None), (30, APRIL), (40, MAY)):
        async with analytic.acquire() as connection:
            await clock.set_machine_clock(connection, NOON + minutes * MINUTE, 0)
        await frozen.execute(
            "update ledger.due_item set emitted_at = emitted_at - interval '1 s'"
            " where effective_date = $1",
            changed,
        )
        await tick(reconciler)
        reports.append(await reconciler.report())

    assert [report.everything_read_at for report in reports] == [NOON] * 3
    assert [report.accounting[0].earlier for report in reports] == [0, 4, 3]
    assert [report.oldest_unread for report in reports] == [
        None,
        OldestUnread(effective_date=MAY, read_at=NOON),
        OldestUnread(effective_date=APRIL, read_at=NOON + 30 * MINUTE),
    ]
    assert "All items were read by this pass" in render_page(reports[0])
    page = render_page(reports[2])
    assert "3 read before" in page
    assert f"<b>{APRIL}</b>, read 2027-03-01 12:30:00 UTC" in page


@pytest.mark.usefixtures("waiting_items")
async def test_late_items_are_counted_again_and_reported_once(
    frozen: Connection,
    make_reconciler: Make,
    complete_all: Callable[..., Awaitable[None]],
    at: At,
) -> None:
    await at(NOON + 90 * MINUTE)
    await complete_all()
    for limits in (PassLimits(0, 10_000), PassLimits(0, 2)):
        reconciler = make_reconciler(limits=limits)
        first, second = await tick(reconciler), await tick(reconciler)

        assert first.found == second.found == {FindingType.LATE: 3}
        assert first.omitted == second.omitted
        assert first.watermarks == second.watermarks
        # Findings above a cap have to be read again: they may be below it then.
        assert second.cached_items == (7 if limits.findings_max > 3 else 4)
    rows = await frozen.fetch("select resolution from ledger.finding where type = 'LATE'")
    assert [row["resolution"] for row in rows] == [Resolution.EXPLAINED] * 3


async def test_g11_a_change_that_postgres_has_not_counted_is_read(
    database: str, make_reconciler: Make, waiting_items: list[ItemDraft]
) -> None:
    """A session's changes are counted when it has time for it, and a superuser may forbid it."""
    reconciler = make_reconciler()
    await tick(reconciler)
    assert (await tick(reconciler)).cached_items == len(waiting_items)
    other = await connect(database, application_name="test")
    await other.execute("set track_counts = off")
    await other.execute("begin")
    await other.execute(CHANGES["update"], APRIL)
    await other.execute("commit and chain")

    seen = await tick(reconciler)
    await other.close()

    assert seen.cached_items == 4
    assert seen.found == {FindingType.TAMPERED: 3}


@pytest.mark.damages
@pytest.mark.usefixtures("waiting_items")
async def test_g11_an_item_without_a_state_unbalances_though_its_row_is_as_it_was(
    frozen: Connection, make_reconciler: Make
) -> None:
    reconciler = make_reconciler()
    await tick(reconciler)
    await frozen.execute(
        "delete from ledger.pending where item_no = (select min(item_no) from ledger.pending)"
    )

    for _ in range(2):
        seen = await tick(reconciler)
        assert (seen.cached_items, seen.found) == (4, {FindingType.UNBALANCED: 1})


@pytest.mark.damages
async def test_g11_an_ending_that_its_run_does_not_have_stays_a_finding_of_the_next_pass(
    frozen: Connection,
    make_reconciler: Make,
    make_drafts: Drafts,
    complete_all: Callable[..., Awaitable[None]],
    actor_no: int,
) -> None:
    await emit_items(frozen, make_drafts(2, due_at=NOON), actor_no=actor_no)
    await complete_all()
    await frozen.execute("update ledger.transition set run_no = null")
    reconciler = make_reconciler()

    for _ in range(2):
        assert (await tick(reconciler)).found == {FindingType.OUTCOME_CONFLICT: 2}


@pytest.mark.damages
async def test_g11_an_event_that_changed_after_its_page_was_kept_is_applied_again(
    frozen: Connection,
    make_reconciler: Make,
    land: Callable[..., Awaitable[None]],
    kind: str,
    at: At,
    actor_no: int,
) -> None:
    (definition,) = load_definitions(EVENT_RULE.format(kind=kind), source="test")
    await define(
        frozen,
        definition.normalised(),
        tenant="acme",
        name=definition.definition,
        kind=kind,
        event_type=definition.event,
        effective_from=NOON - timedelta(days=1),
        actor_no=actor_no,
    )
    await land("PolicyActivated", *(BODY.format(n) for n in range(3)), at=NOON)
    await at(NOON + MINUTE)
    reconciler = make_reconciler()
    assert (await tick(reconciler)).found == {FindingType.MISSING: 3}
    (kept,) = reconciler.cache.rows.units.values()
    assert (await tick(reconciler)).expected_count == 3
    assert list(reconciler.cache.rows.units.values()) == [kept]

    await frozen.execute(
        'update ledger.event set body = body || \'{"policy": "P-9"}\' where event_no ='
        " (select min(event_no) from ledger.event)"
    )
    seen = await tick(reconciler)

    (again,) = reconciler.cache.rows.units.values()
    assert again.totals.hash_total != kept.totals.hash_total
    whole = await make_reconciler().run_pass()
    assert (seen.found, seen.missing) == (whole.found, whole.missing)
    await land("PolicyActivated", BODY.format(10), at=NOON)
    assert (await tick(reconciler)).expected_count == 4


@pytest.mark.damages
async def test_g11_an_item_whose_date_was_moved_to_another_month_is_not_missing_as_well(
    frozen: Connection,
    make_reconciler: Make,
    waiting_items: list[ItemDraft],
    owe: Callable[[list[ItemDraft]], Awaitable[None]],
    policies: SqlPopulation,
) -> None:
    await owe(waiting_items)
    sources = ReconcilerSources((policies,))
    reconciler = make_reconciler(sources)
    assert (await tick(reconciler)).found == {}
    await frozen.execute("set session_replication_role = replica")
    await frozen.execute(
        "update ledger.due_item set effective_date = $2 where id = $1", waiting_items[0].id, MAY
    )

    by_month = await tick(reconciler)
    at_once = await make_reconciler(sources).run_pass()

    found = {FindingType.TAMPERED: 1, FindingType.UNBALANCED: 1}
    assert (by_month.found, at_once.found) == (found, found)
    await frozen.execute(
        "update ledger.due_item set effective_date = $2 where id = $1", waiting_items[0].id, APRIL
    )
    assert (await tick(reconciler)).found == {}


async def test_an_item_of_the_pass_s_own_time_is_judged_by_a_later_one(
    frozen: Connection,
    make_reconciler: Make,
    waiting_items: list[ItemDraft],
    make_drafts: Drafts,
    owe: Callable[[list[ItemDraft]], Awaitable[None]],
    policies: SqlPopulation,
    at: At,
    actor_no: int,
) -> None:
    await owe(waiting_items)
    stray = make_drafts(1, due_at=NOON + HOUR, effective_date=APRIL, prefix="stray")
    await emit_items(frozen, stray, actor_no=actor_no)
    reconciler = make_reconciler(ReconcilerSources((policies,)))
    assert (await tick(reconciler)).found == {}

    await at(NOON + 2 * MINUTE)

    seen = await tick(reconciler)
    assert (seen.cached_items, seen.found) == (4, {FindingType.UNEXPECTED: 1})


class Hanging:
    """Evidence from a source that does not respond any more."""

    name = "hanging"
    digest = "0" * 64
    after_seconds = 0.0
    tenant = "acme"
    complete = False
    bounds = PopulationBounds()

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.asked = asyncio.Event()

    async def find_lacking(
        self, wanted: Sequence[EvidenceQuery], extract: object
    ) -> list[EvidenceQuery]:
        del wanted, extract
        self.asked.set()
        await asyncio.Event().wait()
        return []

    async def list_effects(
        self, extract: object, from_date: date, to_date: date
    ) -> AsyncGenerator[Sequence[ListedEffect]]:
        del extract, from_date, to_date
        yield ()


async def test_a_pass_that_is_cut_off_caches_nothing(
    frozen: Connection,
    make_reconciler: Make,
    waiting_items: list[ItemDraft],
    make_drafts: Drafts,
    kind: str,
    at: At,
    actor_no: int,
) -> None:
    hanging = Hanging(f"{kind}Proven")
    reconciler = make_reconciler(ReconcilerSources((), (hanging,)))
    await tick(reconciler)
    before = dict(reconciler.cache.results)
    await frozen.execute(CHANGES["transition"], APRIL)
    proven = make_drafts(1, due_at=NOON, effective_date=MAY, kind=hanging.kind)
    await emit_items(frozen, proven, actor_no=actor_no)
    await frozen.execute(CHANGES["transition"], MAY)

    ticking = asyncio.create_task(reconciler.tick())
    await hanging.asked.wait()
    reconciler.stop.request()
    assert await ticking == {}

    assert reconciler.cache.results == before
    assert len(waiting_items) == 7
    await at(NOON + 2 * MINUTE)
    again = make_reconciler()
    again.cache = reconciler.cache
    assert (await tick(again)).cached_items == 0
