"""The overview agrees with the items of two days, and each call of its refresh is bounded."""

from dataclasses import astuple, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from dueledger.ledger.rules.drafts import Overlap
from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store import Connection
from dueledger.ledger.store.items import emit_items
from dueledger.ledger.store.overview import (
    add_overview_flows,
    count_overview_in_flight,
    count_overview_waiting,
    list_flow_overview,
    list_flow_rates,
    list_overview,
    measure_overview_rates,
    read_overview_place,
    read_overview_runs,
)
from dueledger.ledger.store.reviews import redrive_items
from tests.ledger.conftest import Ledger

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
QUARTER = timedelta(minutes=15)
COMPLETED, FAILED, PARKED = (
    TransitionEvent.COMPLETED,
    TransitionEvent.FAILED,
    TransitionEvent.PARKED,
)

OPEN_AND_COMPLETED = """
select c.lane, c.quarter, count(c.at) as completed, count(*) filter (where c.is_late) as late,
  count(*) filter (where c.is_in_flight) as in_flight,
  count(*) filter (where c.state = 1 and not c.is_blocked) as waiting,
  count(*) filter (where c.state = 1 and c.is_blocked) as blocked,
  count(*) filter (where c.is_failed) as failed
from (
  select f.lane, p.state, p.available_at = 'infinity' as is_blocked, t.at,
    t.at > i.due_at + make_interval(secs => k.grace_seconds) as is_late,
    o.item_no is not null as is_in_flight,
    coalesce(p.state = 4, false) or r.item_no is not null as is_failed,
    date_bin('15 minutes', case when p.state = 1 and p.available_at < 'infinity'
      then p.available_at else i.due_at end, '2000-01-01T00:00:00Z') as quarter
  from ledger.due_item i
  join ledger.flow f using (flow_no) join ledger.kind k using (kind_no)
  left join ledger.pending p using (item_no) left join ledger.review r using (item_no)
  left join ledger.open_item o on o.item_no = i.item_no
  left join ledger.transition t on t.item_no = i.item_no and t.event = 5
) c
where c.quarter >= ledger.overview_begin()
  and c.quarter < ledger.overview_begin() + interval '48 hours 15 minutes'
group by 1, 2
order by 1, 2
"""
READ = """
select c.relname as name, pg_stat_get_xact_tuples_returned(c.oid) as rows from pg_class c
where c.relnamespace = 'ledger'::regnamespace and c.relkind in ('r', 'i')
"""


async def refresh(
    connection: Connection, *, items_max: int = 1_000, flows_max: int = 10, rounds: int = 20
) -> None:
    """Refresh until nothing is left to count."""
    await add_overview_flows(connection, limit=100)
    while await read_overview_runs(connection, items_max=items_max):
        pass
    await count_overview_in_flight(connection, items_max=1_000)
    for _ in range(rounds):
        for is_far in (False, True):
            await count_overview_waiting(
                connection, flows_max=flows_max, items_max=items_max, is_far=is_far
            )


async def shown(connection: Connection) -> list[tuple[Any, ...]]:
    """Return lane, quarter hour and numbers of each cell that has items."""
    cells = await list_overview(connection, tenants=None, flows_max=8)
    rows = [
        (
            *(each.lane, each.quarter, each.completed, each.completed_late),
            *(each.in_flight, each.waiting, each.blocked, each.failed),
        )
        for each in cells
    ]
    return sorted(row for row in rows if any(row[2:]))


async def expected(connection: Connection) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await connection.fetch(OPEN_AND_COMPLETED)]


async def test_the_overview_agrees_with_the_items_through_their_whole_life(ledger: Ledger) -> None:
    connection = ledger.connection

    async def check(*, is_empty: bool = False) -> None:
        await refresh(connection)
        found = await shown(connection)
        assert found == await expected(connection)
        assert bool(found) != is_empty

    await ledger.stand_at(NOON)
    await check(is_empty=True)
    for hours, lane in ((-23, "eu"), (-3, ""), (-3, "eu"), (-0.25, ""), (1, ""), (23, "eu")):
        due_at = NOON + timedelta(hours=hours, minutes=7)
        await ledger.emit(4, due_at=due_at, lane=lane)
    serial = [
        replace(draft, overlap=Overlap.WAIT, overlap_key="k")
        for draft in ledger.make_drafts(3, due_at=NOON - 2 * QUARTER, prefix="serial")
    ]
    await emit_items(connection, serial, actor_no=ledger.worker_no)
    await ledger.emit(2, due_at=NOON - timedelta(days=3))
    await ledger.emit(2, due_at=NOON + timedelta(days=3))
    await check()
    claim = await ledger.claim(limit=4)
    await check()
    first = await ledger.start(claim.fence, 1, 3)
    second = await ledger.start(claim.fence, 4, len(claim.item_nos))
    await check()
    await ledger.settle(first.run_no, COMPLETED, FAILED, PARKED)
    await ledger.settle(second.run_no, *[COMPLETED] * (len(claim.item_nos) - 3))
    await check()
    again = await ledger.claim()
    await ledger.stand_at(NOON + timedelta(hours=2))
    rest = await ledger.start(again.fence, 1, len(again.item_nos))
    await ledger.settle(rest.run_no, *[COMPLETED] * len(again.item_nos))
    await check()
    parked = await connection.fetch(
        "select i.id from ledger.review r join ledger.due_item i using (item_no)"
    )
    await redrive_items(
        connection, [row["id"] for row in parked], reason="x", actor_no=ledger.worker_no
    )
    await check()


async def test_what_an_open_run_completed_is_counted_once(ledger: Ledger) -> None:
    connection = ledger.connection
    await ledger.stand_at(NOON)
    await ledger.emit(3, due_at=NOON - QUARTER)
    claim = await ledger.claim()
    run = await ledger.start(claim.fence, 1, 3)
    for events in ((COMPLETED, None, None), (None, COMPLETED, None), (None, None, COMPLETED)):
        await ledger.settle(run.run_no, *events)
        for _ in range(2):
            await refresh(connection)
            assert await shown(connection) == await expected(connection)
    assert (await connection.fetchval("select count(*) from ledger.overview_run")) == 0


async def test_runs_before_the_first_refresh_are_read_the_latest_first(ledger: Ledger) -> None:
    connection = ledger.connection
    for hours in (-20, -10, -5):
        await ledger.stand_at(NOON + timedelta(hours=hours))
        await ledger.place(State.COMPLETED, due_at=NOON + timedelta(hours=hours))
    await ledger.stand_at(NOON)
    reached: list[datetime | None] = []
    for _ in range(4):
        await read_overview_runs(connection, items_max=1)
        place = await read_overview_place(connection)
        assert place is not None
        reached.append(place.read_from)
    hours = [None if each is None else (each - NOON) / timedelta(hours=1) for each in reached]
    assert hours == [-5, -10, -20, None]
    await refresh(connection)
    assert await shown(connection) == await expected(connection)


async def test_after_a_day_without_a_page_the_overview_begins_anew(ledger: Ledger) -> None:
    connection = ledger.connection
    await ledger.stand_at(NOON)
    await ledger.place(State.COMPLETED, due_at=NOON)
    await refresh(connection)
    later = NOON + timedelta(hours=20)
    await ledger.stand_at(later)
    await ledger.place(State.COMPLETED, due_at=later)
    await ledger.stand_at(NOON + timedelta(days=2))
    await ledger.place(State.COMPLETED, due_at=later)
    await refresh(connection)
    assert await shown(connection) == await expected(connection) == []
    await ledger.stand_at(later + timedelta(hours=23))
    await refresh(connection)


async def test_a_quarter_hour_with_more_items_than_are_counted_is_capped(ledger: Ledger) -> None:
    connection = ledger.connection
    await ledger.stand_at(NOON)
    await ledger.emit(30, due_at=NOON + QUARTER)
    await ledger.emit(4, due_at=NOON + 2 * QUARTER)
    await ledger.emit(4, due_at=NOON + 3 * QUARTER)
    await add_overview_flows(connection, limit=10)
    await read_overview_runs(connection, items_max=10)
    counted: list[list[tuple[int, bool]]] = []
    for _ in range(3):
        await count_overview_waiting(connection, flows_max=10, items_max=10, is_far=False)
        cells = await list_overview(connection, tenants=None, flows_max=8)
        counted.append([(each.waiting, each.is_capped) for each in cells])
    assert counted == [
        [(10, True)],
        [(10, True), (4, False), (4, False)],
        [(10, True), (4, False), (4, False)],
    ]


async def test_no_call_reads_more_than_it_is_allowed_to(ledger: Ledger) -> None:
    connection = ledger.connection
    await ledger.stand_at(NOON)
    await ledger.emit(2_000, due_at=NOON)
    claim = await ledger.claim(limit=1_000)
    for position in range(1, 1_000, 100):
        run = await ledger.start(claim.fence, position, position + 99)
        if position > 500:
            await ledger.settle(run.run_no, *[COMPLETED] * 100)
    await add_overview_flows(connection, limit=10)
    await read_overview_runs(connection, items_max=1)
    await connection.execute("vacuum analyze")
    calls = (
        (read_overview_runs(connection, items_max=100), "transition", 400),
        (count_overview_in_flight(connection, items_max=100), "due_item", 300),
        (
            count_overview_waiting(connection, items_max=100, flows_max=5, is_far=False),
            "pending",
            300,
        ),
    )
    for call, table, rows_max in calls:
        async with connection.transaction():
            before = {row["name"]: row["rows"] for row in await connection.fetch(READ)}
            await call
            after = {row["name"]: row["rows"] for row in await connection.fetch(READ)}
        read = sum(
            rows - before.get(name, 0) for name, rows in after.items() if name.startswith(table)
        )
        assert 0 < read <= rows_max, (table, read)


async def test_a_caller_is_shown_the_flows_of_its_tenants_and_the_worst_first(
    ledger: Ledger,
) -> None:
    connection = ledger.connection
    await ledger.stand_at(NOON)
    late = NOON - timedelta(hours=20)
    await ledger.emit(3, due_at=NOON + QUARTER, lane="many")
    await ledger.stand_at(late)
    await ledger.emit(1, due_at=late, lane="late")
    await ledger.emit(2, due_at=late, lane="later")
    await ledger.emit(9, due_at=late, tenant="umbra")
    await ledger.stand_at(NOON)
    await refresh(connection)
    for tenants, lanes in (
        (None, ["", "later", "late"]),
        (["acme"], ["later", "late", "many"]),
        (["umbra"], [""]),
        ([], []),
    ):
        cells = await list_overview(connection, tenants=tenants, flows_max=3)
        assert [each.lane for each in cells] == lanes, tenants
        assert [astuple(each)[0] for each in cells] == list(range(1, len(lanes) + 1))
    rows = await connection.fetch("select tenant, lane, flow_no from ledger.flow")
    numbers = {row["lane"] or row["tenant"]: row["flow_no"] for row in rows}
    first = [numbers["umbra"], numbers["many"], numbers["late"], 4711]
    for flows_max, lanes in ((1, ["many"]), (3, ["many", "late", "later"])):
        cells = await list_overview(
            connection, tenants=["acme"], flows_max=flows_max, first_flow_nos=first
        )
        assert [each.lane for each in cells] == lanes
    await connection.execute(
        "update ledger.overview_flow set items = 0 where flow_no = $1", numbers["many"]
    )
    await connection.execute(
        "insert into ledger.overview (flow_no, quarter, completed) values ($1, $2, 1)",
        *(numbers["late"], NOON - timedelta(days=2)),
    )
    await connection.execute("delete from ledger.overview where flow_no = $1", numbers["many"])
    cells = await list_overview(connection, tenants=["acme"], flows_max=3, first_flow_nos=first)
    assert [(each.lane, each.due) for each in cells] == [("many", 0), ("late", 1), ("later", 2)]
    assert 0 <= cells[0].age_seconds < 600, "it is counted, and says when"
    own = await list_flow_overview(connection, "acme", ledger.kind, "many")
    assert [replace(each, age_seconds=0) for each in own] == [replace(cells[0], age_seconds=0)]
    await connection.execute("update ledger.overview_flow set counted_at = 'epoch'")
    cells = await list_overview(connection, tenants=["acme"], flows_max=3, first_flow_nos=first)
    assert [each.lane for each in cells] == ["late", "later"], "it is not counted yet"
    assert await list_flow_overview(connection, "acme", ledger.kind, "many") == []


async def test_the_rate_of_a_flow_is_what_ended_of_it_in_the_last_minutes(ledger: Ledger) -> None:
    connection = ledger.connection
    flows = [("acme", ledger.kind, lane) for lane in ("", "eu", "us", "nowhere")]

    async def measure(minutes: float, *, runs_max: int = 100) -> list[float | None]:
        await ledger.stand_at(NOON + timedelta(minutes=minutes))
        await measure_overview_rates(connection, runs_max=runs_max)
        return await list_flow_rates(connection, flows)

    async def work(*lanes: str, count: int = 60, ended: int = 60) -> None:
        for lane in lanes:
            await ledger.emit(count, due_at=NOON - QUARTER, lane=lane)
        claim = await ledger.claim()
        run = await ledger.start(claim.fence, 1, len(claim.item_nos))
        open_items = len(claim.item_nos) - ended
        await ledger.settle(run.run_no, *[COMPLETED] * ended, *[None] * open_items)

    await ledger.stand_at(NOON - timedelta(minutes=1))
    assert await list_flow_rates(connection, flows) == [None] * 4
    assert await measure_overview_rates(connection, runs_max=1) == 0, "nothing was ever counted"
    await work("")
    await ledger.stand_at(NOON)
    await refresh(connection)
    assert await measure(0) == [0, None, None, None], "what was before is not in its time"
    await ledger.stand_at(NOON + timedelta(minutes=1))
    await work("", "eu", count=48, ended=96)
    await work("us", ended=30)
    await add_overview_flows(connection, limit=100)
    assert await measure(2) == [0.4, 0.4, 0.25, None]
    await ledger.stand_at(NOON + timedelta(minutes=3))
    await work("eu")
    assert await measure(4) == [0.2, 0.45, 0.125, None]
    assert await measure(4, runs_max=1) == [0, 1, 0, None], "of the latest run: a minute"
    assert await measure(7) == [0, 0.2, 0, None]
    assert await measure(9) == [0, 0, 0, None]
    await connection.execute(
        "update ledger.overview_reader set rated_at = rated_at - interval '2 minutes'"
    )
    assert await list_flow_rates(connection, flows) == [None] * 4
