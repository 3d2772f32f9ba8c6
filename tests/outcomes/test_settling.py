"""Reported outcomes on a real ledger: each verdict, any order, and all errors."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from operator import itemgetter

import pytest

from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store import connect
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.claims import mark_published
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.items import item_timeline
from dueledger.ledger.store.reported_outcomes import OutcomeRefusal
from dueledger.ledger.store.runs import start_runs
from dueledger.workers.outcomes import record as recording
from dueledger.workers.outcomes import settle
from dueledger.workers.outcomes.decide import OutcomeReport
from dueledger.workers.outcomes.parse import parse_outcome
from tests.claim_ids import claim_ids

from .conftest import WorkTopic, record

Eventually = Callable[[Callable[[], Awaitable[object]]], Awaitable[object]]

COMPLETED, FAILED = TransitionEvent.COMPLETED, TransitionEvent.FAILED
SNOOZED, PARKED = TransitionEvent.SNOOZED, TransitionEvent.PARKED
CANCELLED = TransitionEvent.CANCELLED
WRITERS = "select count(distinct xmin::text) from ledger.transition"


async def test_g2_each_verdict_ends_in_a_recorded_state(topic: WorkTopic) -> None:
    completed, retried, snoozed, parked, undue, waiting = await topic.emit_and_claim(6)
    until = (await read_now(topic.connection) + timedelta(hours=2)).isoformat()
    done = await topic.take(
        waiting.outcome("heartbeat"),
        completed.outcome(evidence={"booking": "B-1"}),
        retried.outcome(
            "retry", after="PT10M", reason="the provider is down", evidence={"code": 1}
        ),
        snoozed.outcome("snooze", after=until),
        parked.outcome("park", reason="two policies"),
        undue.outcome("not_due", reason="paid already"),
    )
    assert (done.settled, done.heartbeats, done.refused, done.rejected) == (5, 1, 0, [])
    assert [await topic.state_of(handed) for handed in (completed, retried, snoozed)] == [
        State.COMPLETED,
        State.RETRYABLE_FAILURE,
        State.SCHEDULED,
    ]
    assert [await topic.state_of(handed) for handed in (parked, undue, waiting)] == [
        State.MANUAL_REVIEW,
        State.CANCELLED,
        State.RUNNING,
    ]
    assert sorted(await topic.journal(), key=itemgetter(0)) == [
        (COMPLETED, {"booking": "B-1"}),
        (FAILED, {"reason": "the provider is down", "evidence": {"code": 1}}),
        (SNOOZED, None),
        (PARKED, {"reason": "two policies"}),
        (CANCELLED, {"reason": "not due: paid already"}),
    ]
    waits = await topic.connection.fetch(
        "select round(extract(epoch from available_at - ledger.now()) / 60)::int as minutes"
        " from ledger.pending order by 1"
    )
    assert [row["minutes"] for row in waits] == [10, 120]
    await topic.check_balance()


async def test_evidence_keeps_every_digit(topic: WorkTopic) -> None:
    (handed,) = await topic.emit_and_claim()
    outcome = handed.outcome(evidence={"booking": 0})
    assert outcome.value is not None
    exact = b'{"booking":12345678901234567890,"s":1.10}'
    await topic.take(record(outcome.value.replace(b'{"booking":0}', exact)))
    kept = await topic.connection.fetchval("select detail::text from ledger.transition")
    assert kept == '{"s": 1.10, "booking": 12345678901234567890}'


async def test_g7_outcomes_in_any_order_doubled_and_in_any_batches_complete_each_item_once(
    topic: WorkTopic,
) -> None:
    handed = [item for _ in range(4) for item in await topic.emit_and_claim(40)]
    records = [one.outcome(evidence={"key": str(one.item)}) for one in handed for _ in range(2)]
    shuffled = random.Random(1)  # noqa: S311 - reproducible, no secret
    shuffled.shuffle(records)
    counts = {"settled": 0, "duplicates": 0, "refused": 0}
    while records:
        size = shuffled.choice((1, 7, 60))
        done = (await topic.take(*records[:size])).counts()
        records = records[size:]
        counts = {name: counts[name] + done[name] for name in counts}
    assert counts == {"settled": 160, "duplicates": 160, "refused": 0}
    journal = await topic.journal()
    assert [event for event, _ in journal] == [COMPLETED] * 160
    assert {detail["key"] for _, detail in journal} == {str(one.item) for one in handed}
    await topic.check_balance()


async def test_processes_that_settle_the_same_run_at_once_wait_for_each_other(
    topic: WorkTopic,
) -> None:
    handed = await topic.emit_and_claim(60)
    records = [one.outcome() for one in handed]
    passes = await asyncio.gather(*(topic.take(*records[: 20 * part]) for part in (1, 2, 3)))
    assert sum(done.settled for done in passes) == 60
    assert sum(done.duplicates for done in passes) == 60
    assert await topic.states() == [State.COMPLETED]


async def test_a_poll_of_many_runs_is_one_transaction(topic: WorkTopic) -> None:
    handed = [item for _ in range(12) for item in await topic.emit_and_claim(3)]
    assert (await topic.take(*(one.outcome() for one in handed))).settled == 36
    assert await topic.connection.fetchval(WRITERS) == 1


async def test_what_is_too_much_for_one_transaction_becomes_several(
    topic: WorkTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settle, "SLOTS_MAX", 12)
    monkeypatch.setattr(recording, "BYTES_MAX", 200)
    handed = [item for _ in range(4) for item in await topic.emit_and_claim(5)]
    done = await topic.take(*(one.outcome(evidence={"text": "x" * 40}) for one in handed))
    assert done.settled == 20
    assert await topic.connection.fetchval(WRITERS) > 4


async def test_an_outcome_that_the_ledger_refuses_is_rejected_alone(
    topic: WorkTopic,
) -> None:
    await topic.connection.execute(
        "alter table ledger.transition add constraint unwanted check (detail ->> 'poison' is null)"
    )
    handed = await topic.emit_and_claim(9)
    done = await topic.take(
        *(one.outcome(evidence={"poison": 1} if one.position == 4 else {}) for one in handed)
    )
    assert (done.settled, len(done.rejected)) == (8, 1)
    assert "unwanted" in str(done.rejected[0].error)
    assert await topic.state_of(handed[3]) is State.RUNNING


async def test_a_retry_that_names_no_time_waits_as_its_kind_says(topic: WorkTopic) -> None:
    await topic.put_policy(backoff_seconds=3000.0)
    handed = await topic.emit_and_claim(20)
    await topic.take(*(one.outcome("retry") for one in handed))
    waits = await topic.connection.fetch(
        "select extract(epoch from available_at - ledger.now())::float8 as seconds"
        " from ledger.pending"
    )
    seconds = [row["seconds"] for row in waits]
    assert len(set(seconds)) == 20
    assert 0 < max(seconds) <= 3000


# Outcomes that are early, late, or repeated.


async def test_an_outcome_that_comes_before_the_acknowledgement_starts_its_claim(
    topic: WorkTopic,
) -> None:
    first, second = await topic.emit_and_claim(2, published=False)
    done = await topic.take(second.outcome())
    assert (done.settled, done.rejected) == (1, [])
    assert await topic.state_of(second) is State.COMPLETED
    assert await topic.state_of(first) is State.RUNNING
    claims = await claim_ids(topic.connection, [first.fence])
    await mark_published(topic.connection, claims, [70])
    assert await topic.connection.fetchval("select count(*) from ledger.run") == 1
    timeline = await item_timeline(topic.connection, second.item)
    assert [row["event"] for row in timeline] == ["emitted", "claimed", "started", "completed"]
    assert timeline[1]["kafka_offset"] == 71
    await topic.take(first.outcome())
    assert await topic.states() == [State.COMPLETED]


async def test_an_outcome_during_the_mark_opens_no_second_run(
    topic: WorkTopic, database: str, eventually: Eventually
) -> None:
    (handed,) = await topic.emit_and_claim(published=False)
    marking = await connect(database, application_name="marking")
    transaction = marking.transaction()
    await transaction.start()
    await mark_published(marking, await claim_ids(marking, [handed.fence]), [0])
    answering = asyncio.create_task(topic.take(handed.outcome()))

    async def blocked() -> object:
        return await topic.connection.fetchval(
            "select count(*) from pg_locks where not granted and locktype = 'transactionid'"
        )

    await eventually(blocked)
    await transaction.commit()
    await marking.close()
    assert (await answering).settled == 1
    assert await topic.connection.fetchval("select count(*) from ledger.run") == 1
    assert await topic.state_of(handed) is State.COMPLETED


async def test_g4_an_outcome_under_an_older_fence_changes_nothing_and_is_recorded(
    topic: WorkTopic,
) -> None:
    before, reported = await topic.emit_and_claim(2)
    await topic.take(reported.outcome())
    await topic.pass_machine_seconds(3600)
    await topic.reap()
    assert await topic.state_of(before) is State.RETRYABLE_FAILURE
    await topic.connection.execute("update ledger.pending set available_at = ledger.now()")
    (after,) = await topic.claim()
    assert after.fence > before.fence
    done = await topic.take(
        before.outcome(evidence={"booking": "B-1"}), before.outcome("heartbeat")
    )
    assert (done.settled, done.heartbeats, done.refused, done.rejected) == (0, 0, 2, [])
    assert await topic.refused() == [("stale", "completed"), ("stale", "heartbeat")]
    assert (
        await topic.connection.fetchval(
            "select detail #>> '{reported,booking}' from ledger.rejected_write order by 1 limit 1"
        )
        == "B-1"
    )
    assert await topic.state_of(after) is State.RUNNING
    assert (await topic.take(after.outcome())).settled == 1


async def test_g4_an_outcome_of_a_claim_that_was_released_unpublished_is_stale(
    topic: WorkTopic,
) -> None:
    (handed,) = await topic.emit_and_claim(published=False)
    await topic.pass_machine_seconds(3600)
    await topic.reap()
    assert await topic.state_of(handed) is State.SCHEDULED
    assert (await topic.take(handed.outcome())).refused == 1
    assert await topic.refused() == [("stale", "completed")]
    assert await topic.state_of(handed) is State.SCHEDULED


async def test_g8_an_item_that_ended_stays_as_it_ended(topic: WorkTopic) -> None:
    await topic.put_policy(attempt_max=1)
    completed, parked, capped = await topic.emit_and_claim(3)
    await topic.take(
        completed.outcome(evidence={"booking": "B-1", "fee": 1.0}),
        parked.outcome("park", reason="two policies"),
        capped.outcome("retry", reason="no answer"),
    )
    assert await topic.state_of(capped) is State.MANUAL_REVIEW
    journal = await topic.journal()
    again = await topic.take(
        completed.outcome(evidence={"fee": 1, "booking": "B-1"}),
        completed.outcome("heartbeat"),
        parked.outcome("park", reason="still two"),
        capped.outcome("retry", reason="no answer"),
    )
    assert (again.duplicates, again.settled, again.refused) == (4, 0, 0)
    other = await topic.take(
        completed.outcome(evidence={"booking": "B-2"}),
        completed.outcome("retry"),
        parked.outcome(),
        capped.outcome("retry", reason="another"),
    )
    assert (other.duplicates, other.settled, other.refused) == (0, 0, 4)
    assert await topic.refused() == [
        ("conflict", "completed"),
        ("conflict", "retry"),
        ("conflict", "completed"),
        ("conflict", "retry"),
    ]
    assert await topic.journal() == journal


async def test_the_journal_names_the_key_that_reported_and_the_topic_where_none_did(
    topic: WorkTopic,
) -> None:
    key_no = await register_actor(topic.connection, "key:billing", ActorKind.KEY)
    await topic.put_policy(attempt_max=1)
    handed = await topic.emit_and_claim(5)
    reasoned = {"reason": "test"}
    first: dict[str, dict[str, str]] = dict.fromkeys(("not_due", "retry", "park"), reasoned)
    first["completed"] = {}
    again: dict[str, dict[str, str]] = {name: {} for name in first}
    rounds: list[tuple[dict[str, dict[str, str]], OutcomeRefusal | None]] = [
        (first, None),
        (again, OutcomeRefusal.CONFLICT),
    ]
    for verdicts, expected in rounds:
        records = [
            each.outcome(verdict if verdicts is first else "release", **members)
            for each, (verdict, members) in zip(handed, verdicts.items(), strict=False)
        ]
        reports = [
            OutcomeReport(parse_outcome(each.headers, each.value), "key:billing", key_no=key_no)
            for each in records
        ]
        decisions = await settle.settle_reports(topic.connection, reports, key_no, by_key=True)
        assert decisions is not None
        assert {decisions.reasons.get(place) for place in range(4)} == {expected}
    await topic.take(handed[4].outcome())
    names = await topic.connection.fetch(
        "select a.name from ledger.transition t join ledger.actor a using (actor_no)"
    )
    counts = Counter(row["name"] for row in names)
    assert (counts.pop("key:billing"), list(counts.values())) == (4, [1])
    for table in ("review", "rejected_write"):
        named = await topic.connection.fetch(f"select actor_no from ledger.{table}")  # noqa: S608 - names of the test
        assert {row["actor_no"] for row in named} == {key_no}


async def test_of_two_outcomes_of_one_poll_the_first_is_right(topic: WorkTopic) -> None:
    (handed,) = await topic.emit_and_claim()
    done = await topic.take(
        handed.outcome("heartbeat"),
        handed.outcome(evidence={"booking": "B-1"}),
        handed.outcome(evidence={"booking": "B-1"}),
        handed.outcome(evidence={"booking": "B-2"}),
        handed.outcome("park", reason="too late"),
    )
    assert (done.settled, done.duplicates, done.refused) == (1, 1, 2)
    assert await topic.journal() == [(COMPLETED, {"booking": "B-1"})]
    ended = await topic.connection.fetch(
        "select detail ->> 'ended_as' as e from ledger.rejected_write"
    )
    assert [row["e"] for row in ended] == ["completed", "completed"]


# Forged outcomes.


async def test_an_outcome_of_an_item_that_was_never_claimed_is_rejected_and_recorded(
    topic: WorkTopic,
) -> None:
    first, second = await topic.emit_and_claim(2)
    (unpublished,) = await topic.emit_and_claim(published=False)
    forged = [
        replace(first, position=second.position),
        replace(first, fence=second.fence + 1000),
        replace(first, position=3),
        replace(first, position=2**31 - 1),
        replace(unpublished, item=first.item),
    ]
    done = await topic.take(*(one.outcome() for one in forged))
    assert (done.settled, done.refused) == (0, 5)
    assert [rejected.error.problems[0].field for rejected in done.rejected] == [
        "item",
        "token",
        "position",
        "position",
        "item",
    ]
    assert await topic.refused() == [
        (reason, "completed")
        for reason in ("mismatch", "mismatch", "unknown", "unknown", "mismatch")
    ]
    assert await topic.states() == [State.CLAIMED, State.RUNNING]


async def test_g4_an_outcome_without_the_token_of_its_claim_is_rejected_and_recorded(
    topic: WorkTopic,
) -> None:
    (begun,) = await topic.emit_and_claim()
    (unmarked,) = await topic.emit_and_claim(published=False)
    forged = [
        consumed
        for handed in (begun, unmarked)
        for consumed in (
            handed.outcome(token=None),
            handed.outcome(token=""),
            handed.outcome(token=handed.token[:-16] + "0" * 16),
            handed.outcome(token="0" * 16 + handed.token[16:]),
            handed.outcome("heartbeat", token="f" * 32),
        )
    ]
    guessed = [begun.outcome(token=begun.token[:-16] + f"{guess:016x}") for guess in range(120)]

    done = await topic.take(*forged, *guessed)

    assert (done.settled, done.heartbeats, done.refused) == (0, 0, 130)
    assert {rejected.error.problems[0].field for rejected in done.rejected} == {"token"}
    assert len(done.rejected) == 130
    assert {reason for reason, _ in await topic.refused()} == {"mismatch"}
    assert await topic.states() == [State.CLAIMED, State.RUNNING]
    done = await topic.take(begun.outcome(), unmarked.outcome())
    assert (done.settled, done.rejected) == (2, [])
    await topic.check_balance()


async def test_an_outcome_of_a_claim_that_workers_settle_is_rejected(topic: WorkTopic) -> None:
    (handed,) = await topic.emit_and_claim(by_topic=False)
    begun, waiting = await topic.emit_and_claim(2, published=False, by_topic=False)
    for one in (handed, begun):
        await start_runs(
            topic.connection,
            await claim_ids(topic.connection, [one.fence]),
            [1],
            [1],
            worker_no=topic.actor_no,
            lease_seconds=60,
        )
    done = await topic.take(handed.outcome(), begun.outcome(), waiting.outcome())
    assert (done.settled, len(done.rejected)) == (0, 3)
    assert await topic.refused() == [("wrong_settler", "completed")] * 3
    assert await topic.states() == [State.CLAIMED, State.RUNNING]


# Leases.


@pytest.mark.parametrize("verdict", ["heartbeat", "completed"])
async def test_g9_any_outcome_extends_the_lease_of_its_claim(
    topic: WorkTopic, verdict: str
) -> None:
    reported, waiting = await topic.emit_and_claim(2)
    await topic.connection.execute(
        "update ledger.run set lease_until = ledger.machine_now() + interval '1 second'"
    )
    await topic.take(reported.outcome(verdict))
    assert 500 < await topic.lease_seconds_left() <= 600
    assert await topic.state_of(waiting) is State.RUNNING


@pytest.mark.parametrize("published", [True, False])
async def test_g9_nothing_extends_a_run_beyond_its_hard_end(
    topic: WorkTopic, *, published: bool
) -> None:
    await topic.put_policy(run_seconds=300.0)
    first, second = await topic.emit_and_claim(2, published=published)
    if published:
        assert 0 < await topic.lease_seconds_left() <= 300
    for outcome in (first.outcome("heartbeat"), second.outcome()):
        await topic.take(outcome)
        assert 0 < await topic.lease_seconds_left() <= 300
    await topic.pass_machine_seconds(301)
    await topic.reap()
    assert [
        detail["reason"]
        for event, detail in await topic.journal()
        if event == TransitionEvent.TIMED_OUT
    ] == ["overran"]


async def test_g5_only_items_without_an_outcome_are_released_when_the_lease_ends(
    topic: WorkTopic,
) -> None:
    reported, silent, other = await topic.emit_and_claim(3)
    await topic.take(reported.outcome())
    await topic.pass_machine_seconds(3600)
    await topic.reap()
    assert await topic.state_of(reported) is State.COMPLETED
    assert [await topic.state_of(one) for one in (silent, other)] == [State.RETRYABLE_FAILURE] * 2
    details = [
        detail for event, detail in await topic.journal() if event == TransitionEvent.TIMED_OUT
    ]
    assert [detail["beside"] for detail in details] == [1, 1], "each is reported for itself"
    await topic.check_balance()
