"""What was completed in each minute of the last hour agrees with the journal, for each tenant."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection
from dueledger.ledger.store.overview import (
    OverviewMinute,
    count_overview_minutes,
    list_overview_minutes,
    read_overview_place,
    read_overview_runs,
)
from tests.ledger.conftest import Ledger

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)
COMPLETED, FAILED = TransitionEvent.COMPLETED, TransitionEvent.FAILED
BUCKET = 2 ** (1 / 8)

JOURNAL = """
select date_bin('1 minute', t.at, '2000-01-01T00:00:00Z') as minute,
  count(*)::double precision as completed, count(*)::integer as sampled,
  percentile_disc(0.99) within group (
    order by greatest(0.001, extract(epoch from t.at - i.due_at)::double precision)) as p99
from ledger.transition t
join ledger.due_item i using (item_no, effective_date) join ledger.flow f using (flow_no)
where t.event = 5 and t.at >= $1 and t.at < $2 and ($3::text[] is null or f.tenant = any ($3))
group by grouping sets ((1), ()) having count(*) > 0 order by 1
"""


async def count(
    connection: Connection, *, runs: int = 100, runs_max: int = 1_000, items_max: int = 1_000
) -> int:
    """Count once; return by how many runs it has gone on."""
    return await count_overview_minutes(
        connection, runs_max=runs_max, sampled_runs_max=runs, items_max=items_max
    )


async def looked_at(connection: Connection) -> int:
    query = "select coalesce(sum(sampled), 0) from ledger.overview_minute where tenant = ''"
    return await connection.fetchval(query)


async def check(
    connection: Connection, until: datetime, tenants: Sequence[str] | None = None
) -> list[OverviewMinute]:
    """Compare the hour before the minute of `until` with the journal, and return it."""
    ends = until.replace(second=0, microsecond=0)
    expected = await connection.fetch(JOURNAL, ends - HOUR, ends, tenants)
    found = await list_overview_minutes(connection, tenants=tenants)
    rows = [(each.minute, each.completed, each.sampled) for each in found]
    assert rows == [(row["minute"], row["completed"], row["sampled"]) for row in expected]
    for each, row in zip(found, expected, strict=True):
        assert row["p99"] <= each.p99_seconds * 1.000_001
        assert each.p99_seconds <= row["p99"] * BUCKET * 1.000_001
    return found


async def begin(ledger: Ledger, at: datetime) -> None:
    await ledger.stand_at(at)
    await read_overview_runs(ledger.connection, items_max=1)


async def work(ledger: Ledger, items: int, at: datetime, **terms: object) -> None:
    """Complete items at an instant that were due long before."""
    await ledger.emit(items, **{"due_at": NOON - 2 * HOUR, **terms})
    await ledger.stand_at(at)
    claim = await ledger.claim()
    run = await ledger.start(claim.fence, 1, items)
    await ledger.settle(run.run_no, *[COMPLETED] * items)


async def test_the_minutes_agree_with_the_journal_for_each_tenant(ledger: Ledger) -> None:
    connection = ledger.connection
    await ledger.stand_at(NOON - 2 * HOUR)
    assert await count(connection) == 0, "nobody ever looked"
    assert await list_overview_minutes(connection, tenants=None) == []
    # Before the first count: what is older than an hour is left out, its first minute is not.
    await work(ledger, 2, NOON - HOUR - SECOND)
    await work(ledger, 3, NOON - HOUR)
    await work(ledger, 1, NOON - 30 * MINUTE, tenant="umbra", due_at=NOON - 31 * MINUTE)
    await begin(ledger, NOON + 20 * SECOND)
    assert await check(connection, NOON - 2 * HOUR) == [], "nothing is counted"
    assert await count(connection) == 3
    first = await check(connection, NOON)
    assert [each.minute for each in first] == [NOON - HOUR, NOON - 30 * MINUTE, None]
    # The minute that goes on is not shown before its end.
    await work(ledger, 5, NOON + 30 * SECOND, lane="eu", due_at=NOON)
    await ledger.stand_at(NOON + 50 * SECOND)
    assert await count(connection) == 1
    assert await check(connection, NOON) == first
    await work(ledger, 4, NOON + 59 * SECOND, tenant="umbra", due_at=NOON + 59 * SECOND)
    await work(ledger, 6, NOON + MINUTE, due_at=NOON + MINUTE)
    await ledger.stand_at(NOON + MINUTE + SECOND)
    assert await count(connection) == 2
    for tenants, minutes in ((None, 2), (["acme"], 1), (["umbra"], 2), (["acme", "umbra"], 2)):
        found = await check(connection, NOON + MINUTE, tenants)
        assert len(found) == minutes + 1, tenants
    for nobody in (["nobody"], [], [""]):
        assert await list_overview_minutes(connection, tenants=nobody) == [], nobody
    # An hour later only what is not over stays; nothing is counted twice, and gaps are gaps.
    await ledger.stand_at(NOON + HOUR + 30 * SECOND)
    assert await count(connection) == 0
    assert [each.minute for each in await check(connection, NOON + HOUR)] == [
        NOON,
        NOON + MINUTE,
        None,
    ]
    await work(ledger, 1, NOON + 4 * HOUR)
    await ledger.stand_at(NOON + 4 * HOUR + MINUTE)
    assert await count(connection) == 1, "after an hour without a page it begins anew"
    assert len(await check(connection, NOON + 4 * HOUR + MINUTE)) == 2
    place = await read_overview_place(connection)
    assert place is not None
    assert place.minutes_to == NOON + 4 * HOUR + MINUTE
    await ledger.stand_at(NOON + 2 * HOUR)
    await count(connection)
    assert await check(connection, NOON + 2 * HOUR) == [], "the clock was set back"


async def test_what_a_long_run_completes_is_counted_once_in_its_minutes(ledger: Ledger) -> None:
    connection = ledger.connection
    await ledger.stand_at(NOON - 3 * HOUR)
    await ledger.emit(4, due_at=NOON - 3 * HOUR)
    claim = await ledger.claim()
    old = await ledger.start(claim.fence, 1, 2, lease_seconds=100_000)
    await begin(ledger, NOON)
    await count(connection)
    new = await ledger.start(claim.fence, 3, 4)
    steps = (
        (new, COMPLETED, None),
        (old, None, COMPLETED),
        (old, FAILED, None),
        (new, None, COMPLETED),
    )
    for number, (run, *events) in enumerate(steps):
        at = NOON + number * MINUTE
        await ledger.stand_at(at)
        await ledger.settle(run.run_no, *events)
        await ledger.stand_at(at + SECOND)
        before = await looked_at(connection)
        for _ in range(2):
            await count(connection)
        assert await looked_at(connection) - before == (COMPLETED in events)
        await check(connection, at)
    await ledger.stand_at(NOON + 5 * MINUTE)
    await count(connection)
    found = await check(connection, NOON + 5 * MINUTE)
    assert [each.completed for each in found] == [1, 1, 1, 3]
    assert await connection.fetchval("select count(*) from ledger.overview_minute_run") == 0


async def test_of_many_items_a_sample_is_counted_and_of_many_runs_some(ledger: Ledger) -> None:
    connection = ledger.connection
    await begin(ledger, NOON)
    await count(connection)
    await ledger.emit(400, due_at=NOON - HOUR)
    await ledger.emit(400, due_at=NOON - HOUR, tenant="umbra")
    claim = await ledger.claim()
    for place in range(20):
        run = await ledger.start(claim.fence, 40 * place + 1, 40 * place + 40)
        await ledger.settle(run.run_no, *[COMPLETED] * 40)
    await ledger.stand_at(NOON + MINUTE)
    # Each second run, and of each 40 items 5.
    assert await count(connection, runs=10, items_max=50) == 20
    [minute, _] = await list_overview_minutes(connection, tenants=None)
    assert (minute.completed, minute.sampled) == (800, 50)
    assert 3_600 <= minute.p99_seconds <= 3_600 * BUCKET
    tenants = [
        (await list_overview_minutes(connection, tenants=[tenant]))[0]
        for tenant in ("acme", "umbra")
    ]
    assert sum(each.completed for each in tenants) == 800
    assert sum(each.sampled for each in tenants) == 50
    assert all(320 <= each.completed <= 480 for each in tenants)
    # What is left of a number of runs that is no multiple is counted the next time.
    for _ in range(7):
        await work(ledger, 1, NOON + 2 * MINUTE)
    await ledger.stand_at(NOON + 3 * MINUTE)
    assert [await count(connection, runs=3) for _ in range(3)] == [6, 1, 0]
    [_, minute, _] = await list_overview_minutes(connection, tenants=None)
    assert (minute.completed, minute.sampled) == (7, 3)


async def test_runs_are_read_in_steps_and_the_latest_alone_where_they_are_too_many(
    ledger: Ledger,
) -> None:
    connection = ledger.connection
    for number in range(12):
        await work(ledger, 1, NOON + number * MINUTE)
        # Numbers have gaps: each process lifts them to the clock.
        await connection.execute(
            "select setval('ledger.run_run_no_seq', $1)", 1_000_000 * (number + 1)
        )
    await begin(ledger, NOON + 13 * MINUTE)
    reached: list[tuple[float, float]] = []
    for _ in range(6):
        await count(connection, runs_max=2)
        place = await read_overview_place(connection)
        assert place is not None
        assert place.minutes_from is not None
        assert place.minutes_to is not None
        reached.append(((place.minutes_from - NOON) / MINUTE, (place.minutes_to - NOON) / MINUTE))
    assert reached == [(2, to) for to in (3, 5, 7, 9, 11, 13)]
    found = await list_overview_minutes(connection, tenants=None)
    assert [each.minute for each in found[:-1]] == [NOON + n * MINUTE for n in range(2, 12)]
    assert found[-1].completed == 10
