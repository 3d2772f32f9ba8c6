"""Each limit of a flow holds with several claimers, and a change is in force at once."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from dueledger.allocator import Allocator
from dueledger.ledger.flows.admission import admit_shares
from dueledger.ledger.flows.shares import FlowShare
from dueledger.ledger.rules.drafts import ItemDraft, Overlap
from dueledger.ledger.runtime.log import LogEvent
from dueledger.ledger.runtime.service import Signals
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection
from dueledger.ledger.store.claims import list_due_flows
from dueledger.ledger.store.flows import FlowScope, pause_flows, resume_flows
from dueledger.ledger.store.items import read_accounting
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy

from .conftest import PlainWorker

pytestmark = pytest.mark.long

Start = Callable[..., Awaitable[Allocator]]
Emit = Callable[[list[ItemDraft]], Awaitable[None]]
Drafts = Callable[..., list[ItemDraft]]
Grant = Callable[..., Awaitable[None]]
Limit = Callable[..., Awaitable[None]]
UntilClaimed = Callable[[Allocator], Awaitable[int]]
SetMachineClock = Callable[[datetime], Awaitable[None]]

COMPLETED = TransitionEvent.COMPLETED
FAILED = TransitionEvent.FAILED
NOON = datetime.fromisoformat("2026-11-21T12:00:00+00:00")

MOST_AT_ONCE = """
select max(s.at_once) from (
  select sum(e.one) over (order by e.at, e.one) as at_once
  from (
    select c.claimed_at as at, c.size as one from ledger.claim c
    union all
    select t.at, -1 from ledger.transition t
  ) e
) s
"""


@pytest.fixture
def stop_machine_clock(connection: Connection) -> SetMachineClock:
    """Let leases and buckets see an instant that does not pass: here, and in later connections."""

    async def stop(at: datetime) -> None:
        setting = f"{at.isoformat()}|{at.isoformat()}|0"
        name = await connection.fetchval("select quote_ident(current_database())")
        await connection.execute(f"alter database {name} set ledger.machine_clock = '{setting}'")
        await connection.execute(f"set ledger.machine_clock = '{setting}'")

    return stop


async def in_flight(connection: Connection) -> int:
    [account] = await read_accounting(connection)
    assert account.difference == 0
    return account.handed_out + account.running


async def test_a_flow_has_no_more_in_flight_than_its_concurrency(
    start_allocator: Start,
    emit: Emit,
    limit: Limit,
    make_drafts: Drafts,
    plain_worker: PlainWorker,
    until_claimed: UntilClaimed,
) -> None:
    await emit(make_drafts(20))
    await limit(concurrency_max=5)
    allocator = await start_allocator()

    assert (await allocator.tick())["claimed"] == 5
    runs = await plain_worker.start()
    assert (await allocator.tick())["claimed"] == 0
    await plain_worker.end(dict(list(runs.items())[:1]))

    assert await until_claimed(allocator) == next(iter(runs.values()))


async def test_a_window_counts_what_was_not_started(
    start_allocator: Start,
    emit: Emit,
    limit: Limit,
    make_drafts: Drafts,
    plain_worker: PlainWorker,
    until_claimed: UntilClaimed,
) -> None:
    await emit(make_drafts(20))
    await limit(window_items=5)
    allocator = await start_allocator()

    assert (await allocator.tick())["claimed"] == 5
    assert (await allocator.tick())["claimed"] == 0
    await plain_worker.start(3)

    assert await until_claimed(allocator) == 3


async def test_a_rate_is_what_its_bucket_holds_and_what_a_second_brings(
    start_allocator: Start,
    emit: Emit,
    limit: Limit,
    make_drafts: Drafts,
    stop_machine_clock: SetMachineClock,
) -> None:
    await stop_machine_clock(NOON)
    await emit(make_drafts(30))
    await limit(rate_per_second=5.0)
    assert (await (await start_allocator()).tick())["claimed"] == 5
    assert (await (await start_allocator()).tick())["claimed"] == 0

    await stop_machine_clock(NOON + timedelta(seconds=0.4))
    assert (await (await start_allocator()).tick())["claimed"] == 2
    await stop_machine_clock(NOON + timedelta(minutes=10))
    assert (await (await start_allocator()).tick())["claimed"] == 5


async def test_a_rate_is_not_counted_twice_by_allocators_beside_each_other(
    start_allocator: Start,
    emit: Emit,
    limit: Limit,
    make_drafts: Drafts,
    stop_machine_clock: SetMachineClock,
    connection: Connection,
) -> None:
    await stop_machine_clock(NOON)
    await emit(make_drafts(200))
    await limit(rate_per_second=20.0)
    allocators = [await start_allocator(allocator_batch_items_max=3) for _ in range(3)]

    for _ in range(5):
        await asyncio.gather(*(allocator.tick() for allocator in allocators))

    assert await in_flight(connection) == 20


async def test_allocators_beside_each_other_never_exceed_a_concurrency(
    start_allocator: Start,
    emit: Emit,
    limit: Limit,
    make_drafts: Drafts,
    plain_worker: PlainWorker,
    connection: Connection,
) -> None:
    await emit(make_drafts(60))
    await limit(concurrency_max=7)
    allocators = [await start_allocator() for _ in range(3)]
    completed = 0

    async def work() -> None:
        nonlocal completed
        runs = await plain_worker.start()
        completed += sum(runs.values())
        await plain_worker.end(runs)

    while completed < 60:
        await asyncio.gather(work(), *(allocator.tick() for allocator in allocators))

    assert await connection.fetchval(MOST_AT_ONCE) == 7


@pytest.mark.parametrize(
    ("limits", "own"),
    [({"rate_per_second": 3.0}, 0), ({"rate_per_second": 3.0, "concurrency_max": 9}, 2)],
    ids=["a rate counts what is claimed", "a concurrency what is in flight"],
)
async def test_only_flows_whose_items_in_flight_are_counted_have_claims_of_their_own(
    start_allocator: Start,
    emit: Emit,
    limit: Limit,
    make_drafts: Drafts,
    stop_machine_clock: SetMachineClock,
    connection: Connection,
    limits: dict[str, float],
    own: int,
) -> None:
    await stop_machine_clock(NOON)
    for lane in ("north", "south"):
        await emit(make_drafts(5, lane=lane, prefix=lane, partition_key="one partition"))
    await limit(**limits)
    allocator = await start_allocator()

    assert (await allocator.tick())["claimed"] == 6

    claims = await connection.fetch("select flow_no, size from ledger.claim order by fence")
    counted = [claim["size"] for claim in claims if claim["flow_no"] is not None]
    assert counted == [3] * own
    assert sum(claim["size"] for claim in claims) == 6
    assert len(claims) == max(1, own)


async def test_an_admission_knows_whether_a_flow_listed_before_is_counted_now(
    emit: Emit, limit: Limit, make_drafts: Drafts, connection: Connection
) -> None:
    await emit(make_drafts(40))
    await limit(rate_per_second=1000.0)
    [listed] = await list_due_flows(connection, 10)
    await limit(concurrency_max=12)

    async with connection.transaction():
        admission = await admit_shares(connection, [FlowShare(listed, 30, listed.floor, 1)], 1000)

    assert not listed.is_counted
    assert [(share.flow.is_counted, share.quota) for share in admission.shares] == [(True, 12)]


async def test_a_limit_that_is_lifted_or_tightened_is_in_force_at_the_next_tick(
    start_allocator: Start,
    emit: Emit,
    limit: Limit,
    make_drafts: Drafts,
    until_claimed: UntilClaimed,
    connection: Connection,
) -> None:
    await emit(make_drafts(20))
    await limit(rate_per_second=1e-6)
    allocator = await start_allocator()
    assert (await allocator.tick())["claimed"] == 1

    await limit(cleared=["rate_per_second"], concurrency_max=6)

    assert await until_claimed(allocator) == 5
    assert await in_flight(connection) == 6
    await limit(cleared=["concurrency_max"])
    await until_claimed(allocator)
    assert await in_flight(connection) == 20


async def test_a_pause_stops_a_flood_within_the_claims_that_are_being_made(
    start_allocator: Start, emit: Emit, make_drafts: Drafts, connection: Connection, actor_no: int
) -> None:
    await emit([*make_drafts(3000, lane="flood"), *make_drafts(40, lane="calm", prefix="calm")])
    signals = Signals()
    allocator = await start_allocator(signals=signals, allocator_batch_items_max=50)
    scope = FlowScope("acme", make_drafts()[0].kind, "flood")

    async def pause() -> int:
        await signals.expect("claim.recorded")
        await pause_flows(connection, scope, reason="a flood", actor_no=actor_no)
        return await connection.fetchval("select count(*) from ledger.pending")

    left, _ = await asyncio.gather(pause(), allocator.tick())

    still = await connection.fetchval("select count(*) from ledger.pending")
    assert left - 4 * 50 <= still <= left
    assert (await allocator.tick())["claimed"] == 0
    await resume_flows(connection, scope, actor_no=actor_no)
    assert (await allocator.tick())["claimed"] == still


async def test_an_exhausted_flow_holds_up_no_other(
    start_allocator: Start, emit: Emit, limit: Limit, make_drafts: Drafts, connection: Connection
) -> None:
    await emit([*make_drafts(50, lane="slow"), *make_drafts(300, lane="free", prefix="free")])
    await limit("slow", concurrency_max=1)

    assert (await (await start_allocator()).tick())["claimed"] == 301

    claims = await connection.fetch("select flow_no, size from ledger.claim")
    assert [claim["size"] for claim in claims if claim["flow_no"] is not None] == [1]


async def test_a_circuit_opens_lets_one_probe_through_and_closes_when_it_completes(
    start_allocator: Start,
    emit: Emit,
    limit: Limit,
    make_drafts: Drafts,
    plain_worker: PlainWorker,
    until_claimed: UntilClaimed,
    connection: Connection,
) -> None:
    await emit(make_drafts(40))
    await limit(
        circuit_failure_ratio=0.5, circuit_calls_min=10, circuit_rest_seconds=3600, window_items=10
    )
    allocators = [await start_allocator() for _ in range(2)]
    allocator = allocators[0]
    with capture_logs() as logs:
        assert (await allocator.tick())["claimed"] == 10
        await plain_worker.end(await plain_worker.start(), FAILED, after_seconds=0.0)
        assert (await allocator.tick())["circuits"] == 1
        assert (await allocator.tick())["claimed"] == 0

        await rest(connection)
        probes = [await until_claimed(allocator)]
        probes += [tick["claimed"] for tick in await tick_all(allocators)]
        await plain_worker.end(await plain_worker.start(), FAILED, after_seconds=0.0)
        await tick_all(allocators)
        assert sum(probes) == 1
        assert await in_flight(connection) == 0

        await rest(connection)
        await until_claimed(allocator)
        await tick_all(allocators)
        assert await in_flight(connection) == 1
        await plain_worker.end(await plain_worker.start(), COMPLETED)
        while await in_flight(connection) < 10:
            await tick_all(allocators)

    changes = [
        (log["before"], log["after"]) for log in logs if log["event"] == LogEvent.CIRCUIT_CHANGED
    ]
    assert changes == [
        ("closed", "open"),
        ("open", "half_open"),
        ("half_open", "open"),
        ("open", "half_open"),
        ("half_open", "closed"),
    ]


async def rest(connection: Connection) -> None:
    """Let the circuit have rested long enough."""
    await connection.execute("update ledger.flow set circuit_at = circuit_at - interval '2 hours'")


async def tick_all(allocators: list[Allocator]) -> list[Any]:
    return await asyncio.gather(*(allocator.tick() for allocator in allocators))


@pytest.mark.damages
@pytest.mark.parametrize("sort", ["plain", "ordered", *Overlap])
async def test_retries_have_a_share_of_their_own_and_what_first_attempts_leave(
    *,
    sort: str | Overlap,
    start_allocator: Start,
    emit_unwanted: Emit,
    grant: Grant,
    limit: Limit,
    make_drafts: Drafts,
    connection: Connection,
    kind: str,
) -> None:
    drafts = make_drafts(300)
    if sort == "ordered":
        await put_kind_policy(connection, KindPolicy("acme", kind, ordering="key"))
    elif isinstance(sort, Overlap):
        drafts = [replace(draft, overlap=sort, overlap_key=draft.business_key) for draft in drafts]
    await emit_unwanted(drafts)
    await limit(retry_share=0.25)
    await connection.execute(
        "update ledger.pending set state = 4 where item_no in"
        " (select item_no from ledger.pending order by item_no limit 200)"
    )
    await grant(40)
    await (await start_allocator()).tick()

    rows = await connection.fetch("select state, count(*) from ledger.pending group by state")
    left = {row["state"]: row["count"] for row in rows}
    assert left == {1: 100 - 30, 4: 200 - 10}

    await connection.execute("delete from ledger.claim")
    await connection.execute("delete from ledger.pending where state = 1")
    assert (await (await start_allocator()).tick())["claimed"] == 40


async def test_a_key_that_fails_in_a_row_is_flagged_once(
    start_allocator: Start,
    emit: Emit,
    make_drafts: Drafts,
    plain_worker: PlainWorker,
    connection: Connection,
    kind: str,
) -> None:
    await put_kind_policy(connection, KindPolicy("acme", kind, streak_max=2))
    await emit(make_drafts(2))
    allocator = await start_allocator()
    with capture_logs() as logs:
        for _ in range(3):
            await allocator.tick()
            runs = await plain_worker.start()
            await plain_worker.end(runs, FAILED, after_seconds=0.0)
        await allocator.tick()

    flagged = [log for log in logs if log["event"] == LogEvent.FAILURE_STREAK_FLAGGED]
    assert sorted(log["business_key"] for log in flagged) == ["key-000000", "key-000001"]
    assert {(log["tenant"], log["kind"], log["failures"]) for log in flagged} == {("acme", kind, 2)}
