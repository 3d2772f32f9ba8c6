"""The past load: what passes count of items due in the last weeks, as all rows say it."""

from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, Pool, clock
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.items import emit_items, withdraw_items
from dueledger.ledger.store.past_load import (
    FORGET_ROUNDS_MAX,
    DueResults,
    PastLoadCount,
    PastQuarter,
    forget_past_load,
    read_past_load_count,
    record_past_load,
)
from dueledger.reconciler import PassScope, Reconciler
from dueledger.reconciler.past_load import KEPT, PastSpan
from tests.reconciler.conftest import NOON
from tests.reconciler.past_loads import counted_load, recorded_load

WEEKS = timedelta(days=35)
_SUMS = "select s.* from ledger.past_sum s order by tenant, kind, minutes, begins"
_SUMS_OF_ROWS = """
select tenant, kind, minutes::smallint as minutes,
  date_bin(make_interval(mins => minutes), quarter, '2000-01-01T00:00:00Z') as begins,
  sum(items)::integer as items, sum(completed)::integer as completed,
  sum(completed_late)::integer as completed_late, sum(in_review)::integer as in_review,
  sum(withdrawn)::integer as withdrawn, sum(written_off)::integer as written_off,
  sum(had_failures)::integer as had_failures
from ledger.past_load cross join unnest(array[15, 60, 360, 1440]) minutes
group by 1, 2, 3, 4
order by 1, 2, 3, 4
"""


async def stand_at(frozen: Connection, analytic: Pool, instant: datetime) -> None:
    """Let all see another business time."""
    async with analytic.acquire() as connection:
        for each in (frozen, connection):
            await clock.set_clock(each, instant, 0)


async def test_what_ended_before_it_was_due_is_counted_once_its_time_is_past(
    frozen: Connection,
    analytic: Pool,
    make_reconciler: Callable[..., Reconciler],
    make_drafts: Callable[..., list[ItemDraft]],
    actor_no: int,
) -> None:
    due_at = NOON + timedelta(days=3)
    drafts = make_drafts(2, due_at=due_at, effective_date=date(2027, 3, 4))
    await emit_items(frozen, drafts, actor_no=actor_no)
    await withdraw_items(
        frozen,
        [draft.id for draft in drafts],
        event=TransitionEvent.CANCELLED,
        reason="test",
        actor_no=await register_actor(frozen, "person:test", ActorKind.PERSON),
    )
    loop = make_reconciler()
    await loop.run_pass(cache=loop.cache)
    assert await recorded_load(frozen, NOON - WEEKS, NOON + WEEKS) == []
    rest = await loop.run_pass(cache=loop.cache)
    assert rest.cached_items == 2
    now = NOON + timedelta(days=4)
    await stand_at(frozen, analytic, now)
    await loop.run_pass(cache=loop.cache)
    found = await recorded_load(frozen, NOON, now)
    assert [row["withdrawn"] for row in found] == [2, 2, 2]
    assert found == await counted_load(frozen, NOON, now)


async def test_a_pass_replaces_and_forgets_what_no_longer_holds(
    frozen: Connection,
    analytic: Pool,
    make_reconciler: Callable[..., Reconciler],
    make_drafts: Callable[..., list[ItemDraft]],
    complete_all: Callable[..., Awaitable[None]],
    actor_no: int,
) -> None:
    drafts = make_drafts(3, due_at=NOON - timedelta(hours=2), effective_date=date(2027, 3, 1))
    await emit_items(frozen, drafts, actor_no=actor_no)
    await make_reconciler().run_pass()
    waiting = await recorded_load(frozen, NOON - WEEKS, NOON)
    assert [(row["items"], row["completed"]) for row in waiting] == [(3, 0)] * 3
    await complete_all()
    await make_reconciler().run_pass()
    completed = await recorded_load(frozen, NOON - WEEKS, NOON)
    assert [(row["items"], row["completed"]) for row in completed] == [(3, 3)] * 3
    assert completed == await counted_load(frozen, NOON - WEEKS, NOON)
    later = NOON + WEEKS
    await stand_at(frozen, analytic, later)
    await make_reconciler().run_pass()
    assert await frozen.fetchval("select count(*) from ledger.past_load") == 0
    count = await read_past_load_count(frozen)
    assert count == PastLoadCount(later, later - KEPT)


async def test_only_a_pass_over_the_whole_ledger_says_for_which_moment_all_is_counted(
    frozen: Connection,
    make_reconciler: Callable[..., Reconciler],
    make_drafts: Callable[..., list[ItemDraft]],
    actor_no: int,
) -> None:
    drafts = make_drafts(1, due_at=NOON - timedelta(hours=2), effective_date=date(2027, 3, 1))
    await emit_items(frozen, drafts, actor_no=actor_no)
    await make_reconciler().run_pass(PassScope(date(2027, 3, 1), date(2027, 3, 2)))
    assert await read_past_load_count(frozen) is None
    assert len(await recorded_load(frozen, NOON - WEEKS, NOON)) == 3
    await make_reconciler().run_pass()
    assert await read_past_load_count(frozen) == PastLoadCount(NOON, NOON - KEPT)


async def test_rows_that_are_not_changed_are_not_written(frozen: Connection) -> None:
    def quarters(items: int) -> list[PastQuarter]:
        results = DueResults(items, items)
        days = [date(2027, 3, day) for day in (1, 2)]
        return [PastQuarter("acme", "K", NOON, day, results) for day in days]

    span: tuple[Any, Any] = date(2027, 3, 1), date(2027, 3, 3)
    assert await record_past_load(frozen, *span, quarters(5)) == 6
    assert await record_past_load(frozen, *span, quarters(5)) == 0
    assert await record_past_load(frozen, date(2027, 3, 2), span[1], quarters(6)[1:]) == 3
    assert await record_past_load(frozen, *span, []) == 6


async def test_sums_without_effective_date_follow_what_is_recorded_and_forgotten(
    frozen: Connection,
) -> None:
    def load(items: int, *days: int) -> list[PastQuarter]:
        return [
            PastQuarter(
                "acme", kind, NOON + number * timedelta(minutes=15), date(2027, 3, day), results
            )
            for kind, results in (("K", DueResults(items, items, 1)), ("L", DueResults(1, 0, 0, 1)))
            for day in days
            for number in range(-60, 60, 7)
        ]

    span: tuple[Any, Any] = date(2027, 3, 1), date(2027, 3, 4)
    for quarters in (load(5, 1, 2, 3), load(6, 1, 3), load(6, 2)):
        await record_past_load(frozen, *span, quarters)
        assert await frozen.fetch(_SUMS) == await frozen.fetch(_SUMS_OF_ROWS)
    await record_past_load(frozen, date(2027, 3, 2), span[1], load(2, 3))
    assert await frozen.fetch(_SUMS) == await frozen.fetch(_SUMS_OF_ROWS)
    old = await frozen.fetchval("select count(*) from ledger.past_load where quarter < $1", NOON)
    assert await forget_past_load(frozen, NOON, row_max=3) == min(old, 3 * FORGET_ROUNDS_MAX)
    assert old > 3
    assert await frozen.fetch(_SUMS) == await frozen.fetch(_SUMS_OF_ROWS)
    await record_past_load(frozen, *span, [])
    assert await frozen.fetchval("select count(*) from ledger.past_sum") == 0


def test_the_span_that_is_counted_begins_and_ends_with_a_quarter_hour() -> None:
    span = PastSpan.of(datetime(2027, 3, 1, 12, 14, 59, 999_999, tzinfo=UTC))
    assert span == (NOON - KEPT, NOON + timedelta(days=1))
