"""The limits of a flow apply to direct workers, and nothing else limits them."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest

from dueledger import Completed, DueItem, Handlers, Retry, Verdict
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import State
from dueledger.ledger.store.clock import set_machine_clock
from dueledger.ledger.store.flow_limits import update_circuits
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy
from tests.flood_rests import least_pause, rest_always

from .conftest import DirectWorker, Estate

pytestmark = pytest.mark.long

MakeDrafts = Callable[..., list[ItemDraft]]

LONG_REST_SECONDS = 0.6
"""Longer than a pause between claims that settling makes."""


def gathering(kind: str, seen: list[str], **options: int) -> Handlers:
    """Complete in batches, and remember the keys in the order worked."""
    handlers = Handlers()

    @handlers.on_batch(kind, **options)
    async def work(items: list[DueItem]) -> Sequence[Verdict]:
        seen.extend(item.business_key for item in items)
        return [Completed() for _ in items]

    return handlers


async def claim_times(worker: DirectWorker, count: int) -> None:
    for _ in range(count):
        await worker.claim()
        await worker.settle()


async def test_g12_a_paused_flow_waits_and_goes_on_when_it_is_resumed(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit([*make_drafts(5, lane="eu"), *make_drafts(5, prefix="us", lane="us")])
    await estate.connection.execute(
        "update ledger.flow set paused_at = now(), paused_by = $1 where lane = 'eu'",
        estate.actor_no,
    )
    seen: list[str] = []
    worker = await estate.employ(gathering(estate.kind, seen))
    await claim_times(worker, 4)
    assert sorted(seen) == [f"us-{number:06}" for number in range(5)]
    await estate.connection.execute("update ledger.flow set paused_at = null, paused_by = null")
    while len(seen) < 10:
        await claim_times(worker, 1)
    assert await estate.completed() == 10


async def test_a_flow_paused_after_it_was_listed_gives_nothing_more(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit(make_drafts(100))
    seen: list[str] = []
    worker = await estate.employ(gathering(estate.kind, seen), direct_claim_items_max=10)
    await claim_times(worker, 1)
    taken = len(seen)
    await estate.connection.execute(
        "update ledger.flow set paused_at = now(), paused_by = $1", estate.actor_no
    )
    await claim_times(worker, 3)
    assert len(seen) == taken < 100


async def test_a_rate_lets_through_what_its_bucket_holds_and_no_more(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit(make_drafts(50))
    await estate.set_flow(rate_per_second=7.0)
    async with estate.pool.acquire() as held:
        now = await held.fetchval("select clock_timestamp()")
    # Machine time is fixed for every connection, so that no token is added during this test.
    database = await estate.connection.fetchval("select quote_ident(current_database())")
    setting = f"{now.isoformat()}|{now.isoformat()}|0"
    await estate.connection.execute(
        f"alter database {database} set ledger.machine_clock = '{setting}'"
    )
    await estate.pool.connections.expire_connections()
    seen: list[str] = []
    worker = await estate.employ(gathering(estate.kind, seen))
    await claim_times(worker, 5)
    assert len(seen) == 7
    later = now + timedelta(seconds=0.5)
    setting = f"{later.isoformat()}|{later.isoformat()}|0"
    await estate.connection.execute(
        f"alter database {database} set ledger.machine_clock = '{setting}'"
    )
    await estate.pool.connections.expire_connections()
    while len(seen) < 10:
        await claim_times(worker, 1)
    await claim_times(worker, 3)
    assert len(seen) == 10
    assert await estate.completed() == 10


async def test_a_limit_set_after_a_flow_was_listed_counts_at_the_next_take(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit(make_drafts(100))
    going = asyncio.Event()
    handlers = Handlers()
    running: set[str] = set()
    most = 0

    @handlers.on(estate.kind, concurrency=10)
    async def work(item: DueItem) -> Verdict:
        nonlocal most
        running.add(item.business_key)
        most = max(most, len(running))
        await going.wait()
        running.remove(item.business_key)
        return Completed()

    worker = await estate.employ(handlers, direct_claim_items_max=5)
    await worker.claim()
    await estate.set_flow(concurrency_max=2)  # items that run already are not counted
    for _ in range(4):
        await worker.claim()
    await asyncio.sleep(0)
    assert len(running) == 5 + 2
    going.set()
    while await estate.completed() < 100:
        await claim_times(worker, 1)
    assert most == 7


async def test_a_flows_concurrency_holds_over_all_workers(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit(make_drafts(60))
    await estate.set_flow(concurrency_max=3)
    running: set[str] = set()
    most = 0

    def handlers() -> Handlers:
        own = Handlers()

        @own.on(estate.kind)
        async def work(item: DueItem) -> Verdict:
            nonlocal most
            running.add(item.business_key)
            most = max(most, len(running))
            await asyncio.sleep(0)
            running.remove(item.business_key)
            return Completed()

        return own

    for _ in range(3):
        await estate.work(handlers())
    await estate.until_completed(60)
    assert 1 <= most <= 3


async def test_a_circuit_that_is_open_takes_nothing_and_half_open_one_probe(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit(make_drafts(30))
    await estate.set_flow(circuit_failure_ratio=0.5, circuit_calls_min=10)
    fails = True
    seen: list[str] = []
    handlers = Handlers()

    @handlers.on_batch(estate.kind, batch_max=10, concurrency=1)
    async def work(items: list[DueItem]) -> Sequence[Verdict]:
        seen.extend(item.business_key for item in items)
        return [Retry(after_seconds=3600.0) if fails else Completed() for _ in items]

    worker = await estate.employ(handlers)
    await claim_times(worker, 1)
    assert len(seen) == 10
    (change,) = await update_circuits(estate.connection)
    assert (change.before, change.after, change.failed) == ("closed", "open", 10)
    await claim_times(worker, 3)
    assert len(seen) == 10
    now = await estate.connection.fetchval("select clock_timestamp()")
    await set_machine_clock(estate.connection, now + timedelta(minutes=5), 1.0)
    (change,) = await update_circuits(estate.connection)
    assert (change.before, change.after) == ("open", "half_open")
    fails = False
    while len(seen) < 11:
        await claim_times(worker, 1)
    # The probe is settled; until the circuit is judged, one at a time goes through.
    assert len(seen) == 11


async def test_g12_what_little_is_due_is_taken_at_once_beside_a_flood(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit(make_drafts(2000, prefix="flood", lane="flood"))
    await estate.emit(make_drafts(3, prefix="little", lane="little"))
    seen: list[str] = []
    worker = await estate.employ(
        gathering(estate.kind, seen, batch_max=200, concurrency=2), direct_claim_items_max=200
    )
    await claim_times(worker, 1)
    assert sum(key.startswith("little") for key in seen) == 3
    assert len(seen) <= 200


async def test_one_limited_flow_that_is_exhausted_costs_the_others_nothing(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit([*make_drafts(200, lane="slow"), *make_drafts(200, prefix="free")])
    await estate.connection.execute(
        "update ledger.flow set rate_per_second = 0.000001, tokens = 0,"
        " tokens_at = clock_timestamp() where lane = 'slow'"
    )
    seen: list[str] = []
    worker = await estate.employ(gathering(estate.kind, seen), direct_claim_items_max=50)
    while len(seen) < 200:
        await claim_times(worker, 1)
    assert {key.partition("-")[0] for key in seen} == {"free"}
    assert await estate.count("ledger.pending") == 200


async def test_items_of_one_key_run_one_after_another_in_the_order_they_are_due(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit(make_drafts(1, prefix="make-the-kind"))
    await estate.set_kind(ordering="key")
    first = (await estate.connection.fetchval("select ledger.now()")) - timedelta(hours=1)
    drafts = [
        draft
        for number in range(20)
        for draft in make_drafts(
            2,
            prefix=f"item-{number:02}",
            due_at=first + timedelta(seconds=number),
            partition_key=f"P-{number % 3}",
        )
    ]
    await estate.emit(drafts)
    keys = {draft.business_key: draft.partition_key for draft in drafts}
    order: dict[str | None, list[str]] = {}
    running: dict[str | None, int] = {}
    handlers = Handlers()

    @handlers.on(estate.kind, concurrency=20)
    async def work(item: DueItem) -> Verdict:
        key = keys.get(item.business_key, item.business_key)
        running[key] = running.get(key, 0) + 1
        assert running[key] == 1
        order.setdefault(key, []).append(item.business_key)
        await asyncio.sleep(0)
        running[key] -= 1
        return Completed()

    await estate.work(handlers)
    await estate.until_completed(41)
    for number in range(3):
        worked = order[f"P-{number}"]
        assert [key[:7] for key in worked] == sorted(key[:7] for key in worked)
    assert await estate.count("ledger.held_key") == 0


async def test_a_key_that_a_failure_holds_keeps_what_is_behind_it_waiting(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    await estate.emit(make_drafts(1, prefix="make-the-kind"))
    await estate.set_kind(ordering="key")
    await estate.emit(make_drafts(1, prefix="before", partition_key="P"))
    await estate.emit(make_drafts(1, prefix="later", partition_key="P"))
    handlers = Handlers()

    @handlers.on(estate.kind)
    async def work(item: DueItem) -> Verdict:
        if item.business_key.startswith("before"):
            return Retry(after_seconds=3600.0)
        return Completed()

    worker = await estate.employ(handlers)
    await claim_times(worker, 8)
    waiting = await estate.pending()
    assert waiting["before-000000"]["state"] == State.RETRYABLE_FAILURE
    assert waiting["later-000000"]["state"] == State.SCHEDULED
    assert await estate.completed() == 1


@pytest.mark.parametrize("ordering", ["none", "key"])
async def test_retries_have_a_share_of_their_own_beside_first_attempts(
    estate: Estate, make_drafts: MakeDrafts, ordering: str
) -> None:
    policy = KindPolicy("acme", estate.kind, ordering=ordering)
    await put_kind_policy(estate.connection, policy)
    await estate.emit(make_drafts(300))
    await estate.set_flow(retry_share=0.25)
    await estate.connection.execute(
        "update ledger.pending set state = 4 where item_no in"
        " (select item_no from ledger.pending order by item_no limit 200)"
    )
    worker = await estate.employ(gathering(estate.kind, [], concurrency=1, batch_max=40))
    await worker.claim()
    left = Counter(row["state"] for row in (await estate.pending()).values())
    assert left == {State.SCHEDULED: 100 - 30, State.RETRYABLE_FAILURE: 200 - 10}
    await claim_times(worker, 1)
    while len(await estate.pending()) > 0:
        await claim_times(worker, 1)


async def test_g12_a_flood_is_claimed_in_small_shares_beside_a_flow_with_a_lag_target(
    estate: Estate, make_drafts: MakeDrafts, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests = rest_always(monkeypatch, LONG_REST_SECONDS)
    card = make_drafts(5, prefix="card", lane="card")
    await estate.emit([*make_drafts(3000, prefix="flood", lane="flood"), *card])
    await estate.connection.execute(
        "update ledger.flow set lag_target_seconds = 3600 where lane = 'card'"
    )
    seen: list[str] = []
    worker = await estate.employ(gathering(estate.kind, seen, batch_max=4000))
    while len(seen) < 3005:
        await claim_times(worker, 1)
    [measured] = await estate.connection.fetch(
        "select distinct f.lane from ledger.claim c join ledger.flow f on f.flow_no = c.lag_flow_no"
    )
    assert measured["lane"] == "card"
    assert await estate.connection.fetchval("select share < 1 from ledger.flood_pace")
    busy = [seconds for share, seconds in rests if share < 1]
    assert len(busy) >= 2
    assert all(seconds > 0 for seconds in busy)
    assert await least_pause(estate.connection) >= LONG_REST_SECONDS
