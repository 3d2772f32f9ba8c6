"""Deadlines that pass: from when on each counts, what is taken back then, and what is parked."""

import pytest

from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store.claims import mark_published, reap_claims, reap_runs
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy
from dueledger.ledger.store.runs import RunIsolation

from .conftest import Ledger

FAILED = TransitionEvent.FAILED
SNOOZED = TransitionEvent.SNOOZED
DISPATCH_SECONDS = 30


async def released(ledger: Ledger) -> int:
    return (await reap_claims(ledger.connection, 100, ledger.worker_no)).released


@pytest.mark.parametrize("queue_seconds", [10, 50])
@pytest.mark.parametrize("acknowledged_after", [1, DISPATCH_SECONDS - 5])
async def test_g9_the_queue_deadline_counts_from_the_acknowledgement(
    ledger: Ledger, queue_seconds: int, acknowledged_after: int
) -> None:
    await ledger.emit(2)
    claim = await ledger.claim(queue_seconds=queue_seconds)
    await ledger.pass_machine_seconds(acknowledged_after)
    await mark_published(ledger.connection, [claim.id], [0])

    await ledger.pass_machine_seconds(queue_seconds - 4)
    assert await released(ledger) == 0
    await ledger.pass_machine_seconds(5)
    assert await released(ledger) == 2


async def test_g9_what_kafka_never_acknowledged_goes_back_at_its_dispatch_deadline(
    ledger: Ledger,
) -> None:
    await ledger.emit()
    await ledger.claim(queue_seconds=10)
    await ledger.pass_machine_seconds(DISPATCH_SECONDS - 4)
    assert await released(ledger) == 0
    await ledger.pass_machine_seconds(5)
    assert await released(ledger) == 1


async def test_g9_a_queue_deadline_that_parks_leaves_alone_what_was_never_published(
    ledger: Ledger,
) -> None:
    await put_kind_policy(ledger.connection, KindPolicy("acme", ledger.kind, queue_late="park"))
    queued = await ledger.emit(2)
    claim = await ledger.claim()
    await mark_published(ledger.connection, [claim.id], [0])
    (unpublished,) = await ledger.emit()
    await ledger.claim()
    await ledger.end_leases()

    reaped = await reap_claims(ledger.connection, 100, ledger.worker_no)

    assert (reaped.claims, reaped.parked, reaped.released) == (2, 2, 1)
    assert [await ledger.state_of(item) for item in queued] == [State.MANUAL_REVIEW] * 2
    assert await ledger.state_of(unpublished) is State.SCHEDULED
    await ledger.check_balance()


async def start_again(ledger: Ledger) -> int:
    fence = (await ledger.claim()).fence
    run_no = (await ledger.start(fence, isolation=RunIsolation.SLOT)).run_no
    assert run_no is not None
    return run_no


@pytest.mark.parametrize("starts", [2, 3])
@pytest.mark.parametrize("lease_ends", [False, True])
async def test_g9_a_failure_at_the_cap_of_starts_is_parked_at_its_first_attempt(
    ledger: Ledger, starts: int, *, lease_ends: bool
) -> None:
    policy = KindPolicy("acme", ledger.kind, attempt_max=3, start_max=3)
    await put_kind_policy(ledger.connection, policy)
    (item,) = await ledger.emit()
    for _ in range(starts - 1):
        await ledger.settle(await start_again(ledger), SNOOZED, after_seconds=0)
    run_no = await start_again(ledger)
    if lease_ends:
        await ledger.end_leases()
        await reap_runs(ledger.connection, 100, ledger.worker_no)
    else:
        await ledger.settle(run_no, FAILED, after_seconds=0)
    assert await ledger.state_of(item) is (
        State.MANUAL_REVIEW if starts == 3 else State.RETRYABLE_FAILURE
    )
    attempts = "select attempt from ledger.review union all select attempt from ledger.pending"
    assert await ledger.connection.fetchval(attempts) == 1


@pytest.mark.parametrize("crowd", [1, 8])
async def test_g9_an_item_past_its_total_deadline_is_parked_when_its_lease_ends(
    ledger: Ledger, crowd: int
) -> None:
    await put_kind_policy(ledger.connection, KindPolicy("acme", ledger.kind, total_seconds=3600))
    late = await ledger.emit(crowd)
    now = await ledger.connection.fetchval("select ledger.now()")
    in_time = await ledger.emit(crowd, due_at=now)
    claim = await ledger.claim()
    await ledger.start(claim.fence, 1, 2 * crowd)
    await ledger.end_leases()

    reaped = await reap_runs(ledger.connection, 100, ledger.worker_no)

    assert (reaped.runs, reaped.parked, reaped.retried) == (1, crowd, crowd)
    assert {await ledger.state_of(item) for item in late} == {State.MANUAL_REVIEW}
    assert {await ledger.state_of(item) for item in in_time} == {State.RETRYABLE_FAILURE}
    await ledger.check_balance()
