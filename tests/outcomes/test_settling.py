"""Reported outcomes on a real ledger: each verdict, any order, and all errors."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store import connect
from dueledger.ledger.store.claims import mark_published
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.items import item_timeline
from dueledger.ledger.store.runs import start_runs
from dueledger.workers.outcomes import record as recording

from .conftest import Desk, Handed, record

Eventually = Callable[[Callable[[], Awaitable[object]]], Awaitable[object]]

COMPLETED, FAILED = TransitionEvent.COMPLETED, TransitionEvent.FAILED
SNOOZED, PARKED = TransitionEvent.SNOOZED, TransitionEvent.PARKED
CANCELLED = TransitionEvent.CANCELLED
WRITERS = "select count(distinct xmin::text) from ledger.transition"


async def test_g2_each_verdict_ends_in_a_recorded_state(desk: Desk) -> None:
    completed, retried, snoozed, parked, undue, waiting = await desk.hand_out(6)
    until = (await read_now(desk.connection) + timedelta(hours=2)).isoformat()
    done = await desk.take(
        waiting.answers("heartbeat"),
        completed.answers(evidence={"booking": "B-1"}),
        retried.answers(
            "retry", after="PT10M", reason="the provider is down", evidence={"code": 1}
        ),
        snoozed.answers("snooze", after=until),
        parked.answers("park", reason="two policies"),
        undue.answers("not_due", reason="paid already"),
    )
    assert (done.settled, done.heartbeats, done.refused, done.rejected) == (5, 1, 0, [])
    assert [await desk.state_of(handed) for handed in (completed, retried, snoozed)] == [
        State.COMPLETED,
        State.RETRYABLE_FAILURE,
        State.SCHEDULED,
    ]
    assert [await desk.state_of(handed) for handed in (parked, undue, waiting)] == [
        State.MANUAL_REVIEW,
        State.CANCELLED,
        State.RUNNING,
    ]
    assert sorted(await desk.journal(), key=lambda told: told[0]) == [
        (COMPLETED, {"booking": "B-1"}),
        (FAILED, {"reason": "the provider is down", "evidence": {"code": 1}}),
        (SNOOZED, None),
        (PARKED, {"reason": "two policies"}),
        (CANCELLED, {"reason": "not due: paid already"}),
    ]
    waits = await desk.connection.fetch(
        "select round(extract(epoch from available_at - ledger.now()) / 60)::int as minutes"
        " from ledger.pending order by 1"
    )
    assert [row["minutes"] for row in waits] == [10, 120]
    await desk.check_balance()


async def test_evidence_keeps_every_digit(desk: Desk) -> None:
    (handed,) = await desk.hand_out()
    answer = handed.answers(evidence={"booking": 0})
    assert answer.value is not None
    exact = b'{"booking":12345678901234567890,"s":1.10}'
    await desk.take(record(answer.value.replace(b'{"booking":0}', exact)))
    kept = await desk.connection.fetchval("select detail::text from ledger.transition")
    assert kept == '{"s": 1.10, "booking": 12345678901234567890}'


async def test_g7_outcomes_in_any_order_doubled_and_in_any_batches_complete_each_item_once(
    desk: Desk,
) -> None:
    handed = [item for _ in range(4) for item in await desk.hand_out(40)]
    records = [one.answers(evidence={"key": str(one.item)}) for one in handed for _ in range(2)]
    shuffled = random.Random(1)  # noqa: S311 - reproducible, no secret
    shuffled.shuffle(records)
    counts = {"settled": 0, "duplicates": 0, "refused": 0}
    while records:
        size = shuffled.choice((1, 7, 60))
        done = (await desk.take(*records[:size])).counts()
        records = records[size:]
        counts = {name: counts[name] + done[name] for name in counts}
    assert counts == {"settled": 160, "duplicates": 160, "refused": 0}
    told = await desk.journal()
    assert [event for event, _ in told] == [COMPLETED] * 160
    assert {detail["key"] for _, detail in told} == {str(one.item) for one in handed}
    await desk.check_balance()


async def test_processes_that_settle_the_same_run_at_once_wait_for_each_other(
    desk: Desk,
) -> None:
    handed = await desk.hand_out(60)
    records = [one.answers() for one in handed]
    passes = await asyncio.gather(*(desk.take(*records[: 20 * part]) for part in (1, 2, 3)))
    assert sum(done.settled for done in passes) == 60
    assert sum(done.duplicates for done in passes) == 60
    assert await desk.states() == [State.COMPLETED]


async def test_a_poll_of_many_runs_is_one_transaction(desk: Desk) -> None:
    handed = [item for _ in range(12) for item in await desk.hand_out(3)]
    assert (await desk.take(*(one.answers() for one in handed))).settled == 36
    assert await desk.connection.fetchval(WRITERS) == 1


async def test_what_is_too_much_for_one_transaction_becomes_several(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "SLOTS_MAX", 12)
    monkeypatch.setattr(recording, "BYTES_MAX", 200)
    handed = [item for _ in range(4) for item in await desk.hand_out(5)]
    done = await desk.take(*(one.answers(evidence={"text": "x" * 40}) for one in handed))
    assert done.settled == 20
    assert await desk.connection.fetchval(WRITERS) > 4


async def test_an_outcome_that_the_ledger_refuses_is_rejected_alone(desk: Desk) -> None:
    await desk.connection.execute(
        "alter table ledger.transition add constraint unwanted check (detail ->> 'poison' is null)"
    )
    handed = await desk.hand_out(9)
    done = await desk.take(
        *(one.answers(evidence={"poison": 1} if one.position == 4 else {}) for one in handed)
    )
    assert (done.settled, len(done.rejected)) == (8, 1)
    assert "unwanted" in str(done.rejected[0].error)
    assert await desk.state_of(handed[3]) is State.RUNNING


async def test_a_retry_that_names_no_time_waits_as_its_kind_says(desk: Desk) -> None:
    await desk.put_policy(backoff_seconds=3000.0)
    handed = await desk.hand_out(20)
    await desk.take(*(one.answers("retry") for one in handed))
    waits = await desk.connection.fetch(
        "select extract(epoch from available_at - ledger.now())::float8 as seconds"
        " from ledger.pending"
    )
    seconds = [row["seconds"] for row in waits]
    assert len(set(seconds)) == 20
    assert 0 < max(seconds) <= 3000


# Outcomes that are early, late, or repeated.


async def test_an_answer_that_overtakes_our_own_acknowledgement_starts_its_claim(
    desk: Desk,
) -> None:
    first, second = await desk.hand_out(2, published=False)
    done = await desk.take(second.answers())
    assert (done.settled, done.rejected) == (1, [])
    assert await desk.state_of(second) is State.COMPLETED
    assert await desk.state_of(first) is State.RUNNING
    await mark_published(desk.connection, [first.fence], [70])
    assert await desk.connection.fetchval("select count(*) from ledger.run") == 1
    told = await item_timeline(desk.connection, second.item)
    assert [row["event"] for row in told] == ["emitted", "claimed", "started", "completed"]
    assert told[1]["kafka_offset"] == 71
    await desk.take(first.answers())
    assert await desk.states() == [State.COMPLETED]


async def test_an_answer_while_the_acknowledgement_is_being_marked_opens_no_second_run(
    desk: Desk, database: str, eventually: Eventually
) -> None:
    (handed,) = await desk.hand_out(published=False)
    marking = await connect(database, application_name="marking")
    transaction = marking.transaction()
    await transaction.start()
    await mark_published(marking, [handed.fence], [0])
    answering = asyncio.create_task(desk.take(handed.answers()))

    async def blocked() -> object:
        return await desk.connection.fetchval(
            "select count(*) from pg_locks where not granted and locktype = 'transactionid'"
        )

    await eventually(blocked)
    await transaction.commit()
    await marking.close()
    assert (await answering).settled == 1
    assert await desk.connection.fetchval("select count(*) from ledger.run") == 1
    assert await desk.state_of(handed) is State.COMPLETED


async def test_g4_an_answer_under_an_older_fence_changes_nothing_and_is_recorded(
    desk: Desk,
) -> None:
    before, answered = await desk.hand_out(2)
    await desk.take(answered.answers())
    await desk.pass_machine_seconds(3600)
    await desk.reap()
    assert await desk.state_of(before) is State.RETRYABLE_FAILURE
    await desk.connection.execute("update ledger.pending set available_at = ledger.now()")
    (after,) = await desk.claim()
    assert after.fence > before.fence
    done = await desk.take(before.answers(evidence={"booking": "B-1"}), before.answers("heartbeat"))
    assert (done.settled, done.heartbeats, done.refused, done.rejected) == (0, 0, 2, [])
    assert await desk.refused() == [("stale", "completed"), ("stale", "heartbeat")]
    assert (
        await desk.connection.fetchval(
            "select detail #>> '{reported,booking}' from ledger.rejected_write order by 1 limit 1"
        )
        == "B-1"
    )
    assert await desk.state_of(after) is State.RUNNING
    assert (await desk.take(after.answers())).settled == 1


async def test_g4_an_answer_to_a_claim_that_was_taken_back_unpublished_is_stale(
    desk: Desk,
) -> None:
    (handed,) = await desk.hand_out(published=False)
    await desk.pass_machine_seconds(3600)
    await desk.reap()
    assert await desk.state_of(handed) is State.SCHEDULED
    assert (await desk.take(handed.answers())).refused == 1
    assert await desk.refused() == [("stale", "completed")]
    assert await desk.state_of(handed) is State.SCHEDULED


async def test_g8_an_item_that_ended_stays_as_it_ended(desk: Desk) -> None:
    await desk.put_policy(attempt_max=1)
    completed, parked, capped = await desk.hand_out(3)
    await desk.take(
        completed.answers(evidence={"booking": "B-1", "fee": 1.0}),
        parked.answers("park", reason="two policies"),
        capped.answers("retry", reason="no answer"),
    )
    assert await desk.state_of(capped) is State.MANUAL_REVIEW
    told = await desk.journal()
    again = await desk.take(
        completed.answers(evidence={"fee": 1, "booking": "B-1"}),
        completed.answers("heartbeat"),
        parked.answers("park", reason="still two"),
        capped.answers("retry", reason="no answer"),
    )
    assert (again.duplicates, again.settled, again.refused) == (4, 0, 0)
    other = await desk.take(
        completed.answers(evidence={"booking": "B-2"}),
        completed.answers("retry"),
        parked.answers(),
        capped.answers("retry", reason="another"),
    )
    assert (other.duplicates, other.settled, other.refused) == (0, 0, 4)
    assert await desk.refused() == [
        ("conflict", "completed"),
        ("conflict", "retry"),
        ("conflict", "completed"),
        ("conflict", "retry"),
    ]
    assert await desk.journal() == told


async def test_of_two_outcomes_of_one_poll_the_first_is_right(desk: Desk) -> None:
    (handed,) = await desk.hand_out()
    done = await desk.take(
        handed.answers("heartbeat"),
        handed.answers(evidence={"booking": "B-1"}),
        handed.answers(evidence={"booking": "B-1"}),
        handed.answers(evidence={"booking": "B-2"}),
        handed.answers("park", reason="too late"),
    )
    assert (done.settled, done.duplicates, done.refused) == (1, 1, 2)
    assert await desk.journal() == [(COMPLETED, {"booking": "B-1"})]
    ended = await desk.connection.fetch(
        "select detail ->> 'ended_as' as e from ledger.rejected_write"
    )
    assert [row["e"] for row in ended] == ["completed", "completed"]


# Forged outcomes.


async def test_an_answer_that_names_what_was_never_handed_out_is_rejected_and_recorded(
    desk: Desk,
) -> None:
    first, second = await desk.hand_out(2)
    (unpublished,) = await desk.hand_out(published=False)
    forged = [
        Handed(first.item, first.fence, second.position),
        Handed(first.item, second.fence + 1000, 1),
        Handed(first.item, first.fence, 3),
        Handed(first.item, first.fence, 2**31 - 1),
        Handed(first.item, unpublished.fence, 1),
    ]
    done = await desk.take(*(one.answers() for one in forged))
    assert (done.settled, done.refused) == (0, 5)
    assert [rejected.error.problems[0].field for rejected in done.rejected] == [
        "item",
        "fence",
        "fence",
        "fence",
        "item",
    ]
    assert await desk.refused() == [
        (reason, "completed")
        for reason in ("mismatch", "unknown", "unknown", "unknown", "mismatch")
    ]
    assert await desk.states() == [State.CLAIMED, State.RUNNING]


async def test_an_answer_to_what_workers_settle_is_rejected(desk: Desk) -> None:
    (handed,) = await desk.hand_out(held=False)
    begun, waiting = await desk.hand_out(2, published=False, held=False)
    for one in (handed, begun):
        await start_runs(
            desk.connection, [one.fence], [1], [1], worker_no=desk.actor_no, lease_seconds=60
        )
    done = await desk.take(handed.answers(), begun.answers(), waiting.answers())
    assert (done.settled, len(done.rejected)) == (0, 3)
    assert await desk.refused() == [("wrong_settler", "completed")] * 3
    assert await desk.states() == [State.CLAIMED, State.RUNNING]


# Leases.


@pytest.mark.parametrize("verdict", ["heartbeat", "completed"])
async def test_g9_any_answer_extends_the_lease_of_its_claim(desk: Desk, verdict: str) -> None:
    answered, waiting = await desk.hand_out(2)
    await desk.connection.execute(
        "update ledger.run set lease_until = ledger.machine_now() + interval '1 second'"
    )
    await desk.take(answered.answers(verdict))
    assert 500 < await desk.lease_seconds_left() <= 600
    assert await desk.state_of(waiting) is State.RUNNING


@pytest.mark.parametrize("published", [True, False])
async def test_g9_nothing_extends_a_run_beyond_its_hard_end(desk: Desk, *, published: bool) -> None:
    await desk.put_policy(run_seconds=300.0)
    first, second = await desk.hand_out(2, published=published)
    if published:
        assert 0 < await desk.lease_seconds_left() <= 300
    for answer in (first.answers("heartbeat"), second.answers()):
        await desk.take(answer)
        assert 0 < await desk.lease_seconds_left() <= 300


async def test_g5_what_was_not_answered_in_its_lease_goes_back_and_only_that(desk: Desk) -> None:
    answered, silent, other = await desk.hand_out(3)
    await desk.take(answered.answers())
    await desk.pass_machine_seconds(3600)
    await desk.reap()
    assert await desk.state_of(answered) is State.COMPLETED
    assert [await desk.state_of(one) for one in (silent, other)] == [State.RETRYABLE_FAILURE] * 2
    told = [detail for event, detail in await desk.journal() if event == TransitionEvent.TIMED_OUT]
    assert [detail["beside"] for detail in told] == [1, 1], "each is answered for itself"
    await desk.check_balance()
