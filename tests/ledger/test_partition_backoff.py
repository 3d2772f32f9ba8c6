"""Claims that expire unstarted in Kafka: their items wait, by partition, longer each time."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import pytest

from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import connect
from dueledger.ledger.store.claims import Claim, mark_published, reap_claims
from dueledger.ledger.store.credits import grant_credits, prune_credits
from dueledger.ledger.store.flows import find_handed_out
from dueledger.ledger.store.items import show_item
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy
from dueledger.ledger.store.runs import start_runs
from dueledger.ledger.store.statements import statement
from dueledger.ledger.store.topic_partitions import (
    StalledPartition,
    list_queue_deadlines,
    record_stalled_partitions,
)
from dueledger.why import explain

from .conftest import Ledger

WaitUntil = Callable[[Callable[[], Awaitable[bool]]], Awaitable[bool]]


async def publish(ledger: Ledger) -> Claim:
    claim = await ledger.claim()
    await mark_published(ledger.connection, [claim.id], [0])
    return claim


async def reap(ledger: Ledger) -> list[float]:
    """Let the deadlines pass, and reap; return the seconds until each pending item is available."""
    await ledger.end_leases()
    await reap_claims(ledger.connection, 100, ledger.worker_no)
    rows = await ledger.connection.fetch(
        "select extract(epoch from p.available_at - ledger.now())::float as seconds"
        " from ledger.pending p order by p.available_at"
    )
    return [max(0.0, row["seconds"]) for row in rows]


async def test_g9_items_that_expire_in_one_partition_again_and_again_wait_longer_up_to_a_bound(
    ledger: Ledger, noon: datetime
) -> None:
    await ledger.stand_at(noon)
    await ledger.emit(2)
    waits: list[float] = []
    for place in range(7):
        if place == 6:
            await ledger.connection.execute(
                "update ledger.partition_backoff set expirations = 32767"
            )
        await publish(ledger)
        seconds, same = await reap(ledger)
        assert seconds == same
        waits.append(seconds)
        noon += timedelta(seconds=seconds)
        await ledger.stand_at(noon)
    assert waits == [1, 2, 4, 8, 8, 8, 8]


@pytest.mark.parametrize(
    "event", [None, TransitionEvent.SNOOZED, TransitionEvent.RELEASED], ids=str
)
async def test_why_names_the_backoff_of_an_item_and_not_what_came_before_it(
    ledger: Ledger, noon: datetime, event: TransitionEvent | None
) -> None:
    await ledger.stand_at(noon)
    (item,) = await ledger.emit()
    if event is not None:
        started = await ledger.start((await publish(ledger)).fence)
        await ledger.settle(started.run_no, event)
    await publish(ledger)
    await reap(ledger)
    shown = await show_item(ledger.connection, item)
    assert shown is not None
    explanation = await explain(ledger.connection, shown)
    assert explanation.code == "EXPIRED"
    assert "no worker started it before its queue deadline" in explanation.sentence


async def test_g9_claims_that_expire_during_a_backoff_end_with_it(
    ledger: Ledger, noon: datetime
) -> None:
    await ledger.stand_at(noon)
    await ledger.emit()
    await publish(ledger)
    assert await reap(ledger) == [1]
    await ledger.emit()
    await publish(ledger)
    await ledger.stand_at(noon + timedelta(seconds=0.25))
    assert await reap(ledger) == [0.75, 0.75]
    backoffs = await ledger.connection.fetch("select expirations from ledger.partition_backoff")
    assert [row["expirations"] for row in backoffs] == [1]


async def test_g9_the_first_start_out_of_a_partition_ends_its_backoff(
    ledger: Ledger, noon: datetime
) -> None:
    await ledger.stand_at(noon)
    await ledger.emit(3)
    for seconds in (1, 2):
        await publish(ledger)
        assert await reap(ledger) == [seconds] * 3
        noon += timedelta(seconds=seconds)
        await ledger.stand_at(noon)
    claim = await publish(ledger)
    assert (await ledger.start(claim.fence)).run_no is not None
    assert await reap(ledger) == [1, 1]


async def test_g9_a_claim_that_never_reached_kafka_does_not_wait(
    ledger: Ledger, noon: datetime
) -> None:
    await ledger.stand_at(noon)
    await ledger.emit()
    await ledger.claim()
    assert await reap(ledger) == [0]
    assert not await ledger.connection.fetch("select from ledger.partition_backoff")


async def test_g5_a_start_that_waits_for_a_claim_that_is_reaped_has_not_locked_its_backoff(
    ledger: Ledger, noon: datetime, database: str, eventually: WaitUntil
) -> None:
    await ledger.stand_at(noon)
    await ledger.emit()
    await publish(ledger)
    await reap(ledger)  # the partition has a backoff
    claims: list[Claim] = []
    for _ in range(2):
        await ledger.emit()
        claims.append(await publish(ledger))
    open_claim, late = claims
    worker = await connect(database, application_name="starting")
    async with ledger.connection.transaction():
        # What reap_claims runs, one statement after the other.
        await ledger.connection.execute(
            "update ledger.claim set deadline = ledger.machine_now() - interval '1 second'"
            " where fence = $1",
            late.id.fence,
        )
        rows = await ledger.connection.fetch(statement("lock_late_claims"), 10, None)
        assert [row["fence"] for row in rows] == [late.id.fence]
        starting = asyncio.create_task(
            start_runs(
                worker,
                [open_claim.id, late.id],
                [1, 1],
                [1, 1],
                worker_no=ledger.worker_no,
                lease_seconds=60,
            )
        )

        async def waits() -> bool:
            return await ledger.connection.fetchval(
                "select count(*) = 1 from pg_stat_activity"
                " where datname = current_database() and application_name = 'starting'"
                " and wait_event_type = 'Lock'"
            )

        await eventually(waits)
        await ledger.connection.execute("set local lock_timeout = '5s'")
        reaped = await ledger.connection.fetchrow(
            statement("reap_claims"),
            [late.id.fence],
            [late.id.claimed_at],
            ledger.worker_no,
            late.id.claimed_at,
            late.id.claimed_at,
        )
        assert reaped is not None
        assert reaped["claims"] == 1
    started, refused = await starting
    assert (started.run is not None, refused.run) == (True, None)
    await worker.close()


async def _claim_from(ledger: Ledger, topic: str, partition: int, *, published: bool) -> Claim:
    """Claim one item, as published to a partition or not."""
    await ledger.emit()
    claim = await ledger.claim()
    await ledger.connection.execute(
        "update ledger.claim set topic = $2, partition = $3 where fence = $1",
        *(claim.fence, topic, partition),
    )
    if published:
        await mark_published(ledger.connection, [claim.id], [0])
    return claim


async def test_g9_each_partition_has_a_backoff_of_its_own(
    ledger: Ledger, noon: datetime, database: str
) -> None:
    await ledger.stand_at(noon)
    known = {("first", 1): noon, ("second", 0): noon + timedelta(seconds=0.5)}
    for (topic, partition), at in known.items():
        await ledger.connection.execute(
            "insert into ledger.partition_backoff values ($1, $2, 1, $3)", topic, partition, at
        )
    partitions = [("first", 0), ("first", 1), ("second", 0), ("third", -1)]
    published = [await _claim_from(ledger, *each, published=True) for each in partitions]
    unpublished = await _claim_from(ledger, "first", 0, published=False)
    await reap(ledger)

    rows = await ledger.connection.fetch("select item_no, available_at from ledger.pending")
    seconds = {row["item_no"]: (row["available_at"] - noon).total_seconds() for row in rows}
    assert [seconds[claim.item_nos[0]] for claim in (*published, unpublished)] == [1, 2, 0.5, 0, 0]

    async def left() -> set[tuple[str, int]]:
        found = await ledger.connection.fetch(
            "select topic, partition from ledger.partition_backoff"
        )
        return {(row["topic"], row["partition"]) for row in found}

    assert await left() == {*partitions[:3]}
    first = await _claim_from(ledger, "first", 0, published=True)
    await ledger.start(first.fence)
    assert await left() == {*partitions[1:3]}
    second = await _claim_from(ledger, "second", 0, published=True)
    await ledger.connection.execute("set lock_timeout = '1s'")
    rival = await connect(database, application_name="rival")
    async with rival.transaction():
        await rival.execute("select from ledger.partition_backoff for update")
        assert (await ledger.start(second.fence)).run_no is not None
    await rival.close()
    assert await left() == {*partitions[1:3]}


async def test_backoffs_that_ended_long_ago_are_pruned(ledger: Ledger, noon: datetime) -> None:
    await ledger.stand_at(noon)
    for topic, minutes in (("old", 11), ("recent", 9)):
        await ledger.connection.execute(
            "insert into ledger.partition_backoff values ($1, 0, 1, $2)",
            topic,
            noon - timedelta(minutes=minutes),
        )
    await prune_credits(ledger.connection)
    rows = await ledger.connection.fetch("select topic from ledger.partition_backoff")
    assert [row["topic"] for row in rows] == ["recent"]


async def test_the_queue_deadline_of_a_topic_is_the_shortest_of_its_kinds(ledger: Ledger) -> None:
    for kind, topic, seconds in (("A", "due.Two", 90), ("B", "due.Two", 30), ("C", "due.One", 60)):
        policy = KindPolicy("acme", kind, topic=topic, queue_seconds=seconds)
        await put_kind_policy(ledger.connection, policy)
    deadlines = await list_queue_deadlines(ledger.connection, ["due.One", "due.Two", "due.None"])
    assert deadlines == {"due.One": 60, "due.Two": 30}


async def test_a_partition_is_stalled_for_as_long_as_its_worker_is_alive(ledger: Ledger) -> None:
    (item,) = await ledger.emit()
    claim = await publish(ledger)

    async def stalled_at() -> int | None:
        shown = await show_item(ledger.connection, item)
        assert shown is not None
        found = await find_handed_out(ledger.connection, shown)
        assert found is not None
        return found["next_offset"]

    stalled = StalledPartition(claim.topic, claim.partition, 7, False, 60)  # noqa: FBT003  # its field
    await record_stalled_partitions(ledger.connection, ledger.worker_no, [stalled])
    assert await stalled_at() is None
    await grant_credits(ledger.connection, ledger.worker_no, [claim.topic], [1], 5)
    assert await stalled_at() == 7
    await ledger.pass_machine_seconds(6)
    assert await stalled_at() is None
