"""Decides what is recorded of reported outcomes, given their runs and items. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple, assert_never, final

import orjson

from dueledger.ledger.errors import InvalidOutcome, Problem
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.reported_outcomes import (
    ClaimedItem,
    OutcomeRefusal,
    OutcomeTarget,
    RefusedOutcome,
    TopicRun,
)
from dueledger.ledger.store.runs import Outcome, RunId, Settlement
from dueledger.workers.handlers import HandlerOptions
from dueledger.workers.outcomes.parse import ReportedOutcome, ReportedVerdict
from dueledger.workers.retry import backoff_seconds

_EVENTS: Final = {
    ReportedVerdict.COMPLETED: TransitionEvent.COMPLETED,
    ReportedVerdict.RETRY: TransitionEvent.FAILED,
    ReportedVerdict.SNOOZE: TransitionEvent.SNOOZED,
    ReportedVerdict.PARK: TransitionEvent.PARKED,
    ReportedVerdict.NOT_DUE: TransitionEvent.CANCELLED,
    ReportedVerdict.RELEASE: TransitionEvent.RELEASED,
}
# Faults of the sender go to the reject topic as well; the others are caused by delays.
_WRONG: Final = {
    OutcomeRefusal.UNKNOWN: "no item was handed out at this position",
    OutcomeRefusal.MISMATCH: "another item has that position",
    OutcomeRefusal.WRONG_SETTLER: "another worker has it, and reports its end",
    OutcomeRefusal.WRONG_TOPIC: "its kind accepts outcomes from another topic",
}


class OutcomeReport(NamedTuple):
    """A reported outcome, and where it comes from: a topic, or an API key.

    `outcome_topic` is its topic where a definition names it, None for that of the settings.
    `key_no` is the actor number of the key; such a report is from no topic.
    """

    reported: ReportedOutcome
    origin: str
    outcome_topic: str | None = None
    key_no: int | None = None


class _RecordedEnd(NamedTuple):
    """How an item ended before; `event` is None if its journal is archived."""

    event: TransitionEvent | None
    detail: object


class ReportedEnd(NamedTuple):
    """An item whose outcome is recorded, and how it ended."""

    item: ClaimedItem
    event: TransitionEvent


@final
@dataclass(slots=True)
class _RunOutcomes:
    """The outcomes of one run, one entry for each of its items."""

    outcomes: list[Outcome | None]
    reported: dict[int, ReportedOutcome] = field(default_factory=dict[int, ReportedOutcome])


@final
@dataclass(slots=True)
class OutcomeDecisions:
    """What to write: settlements and lease extensions, by who settles, and refusals.

    They were decided at `now`, the ledger's time; `ends` are the items that ended.
    `settled`, `heartbeats` and `duplicates` count reported outcomes; `slots` counts the entries of
    all runs. `reasons` and `faults` have refused outcomes by their place in the input, `faults`
    those alone whose sender is at fault. `run_nos` has the runs of heartbeats, by place as well;
    `lease_seconds` has, once they are written, what is left of the leases of runs that go on.
    """

    now: datetime
    ends: list[ReportedEnd] = field(default_factory=list[ReportedEnd])
    runs: dict[int, dict[RunId, _RunOutcomes]] = field(
        default_factory=dict[int, dict[RunId, _RunOutcomes]]
    )
    extended: defaultdict[tuple[int, float], set[RunId]] = field(
        default_factory=lambda: defaultdict[tuple[int, float], set[RunId]](set)
    )
    refused: list[RefusedOutcome] = field(default_factory=list[RefusedOutcome])
    reasons: dict[int, OutcomeRefusal] = field(default_factory=dict[int, OutcomeRefusal])
    faults: dict[int, InvalidOutcome] = field(default_factory=dict[int, InvalidOutcome])
    run_nos: dict[int, int] = field(default_factory=dict[int, int])
    lease_seconds: dict[int, float | None] = field(default_factory=dict[int, float | None])
    settled: int = 0
    heartbeats: int = 0
    duplicates: int = 0
    slots: int = 0

    def add_run(self, settler_no: int, run: TopicRun) -> _RunOutcomes:
        """Begin to settle a run."""
        size = run.to_position - run.from_position + 1
        run_outcomes = _RunOutcomes([None] * size)
        self.runs.setdefault(settler_no, {})[run.id] = run_outcomes
        self.slots += size
        return run_outcomes

    def settlements(self, settler_no: int) -> list[Settlement]:
        """Return the settlements of the runs of one who settles."""
        by_run = self.runs[settler_no]
        return [Settlement(run, run_outcomes.outcomes) for run, run_outcomes in by_run.items()]


def decide_outcomes(
    reports: Sequence[OutcomeReport],
    targets: Sequence[OutcomeTarget],
    now: datetime,
    actor_no: int,
) -> OutcomeDecisions:
    """Decide about each reported outcome in its order: of two that end one item, the first counts.

    A refusal is recorded under `actor_no` if its fence is unknown.
    """
    decider = _OutcomeDecider(now, actor_no)
    for place, (report, target) in enumerate(zip(reports, targets, strict=True)):
        decider.decide(place, report, target)
    return decider.decisions


@final
class _OutcomeDecider:
    def __init__(self, now: datetime, actor_no: int) -> None:
        self.decisions = OutcomeDecisions(now)
        self._now = now
        self._actor_no = actor_no

    def decide(self, place: int, report: OutcomeReport, target: OutcomeTarget) -> None:
        """Decide about one reported outcome."""
        reported, decisions = report.reported, self.decisions
        settler_no, item, run = target.settler_no, target.item, target.run
        if item is not None and (reason := _sender_refusal(report, target)):
            self._refuse(place, report, target, reason)
            return
        if settler_no is None or item is None or run is None:
            self._refuse(place, report, target, _refusal_reason(reported, target))
            return
        run_outcomes = decisions.runs.get(settler_no, {}).get(run.id)
        index = reported.position - run.from_position
        ended = _ended(item, run_outcomes.reported.get(index) if run_outcomes else None)
        if ended is not None:
            if reported.verdict is ReportedVerdict.HEARTBEAT or _is_repeated(reported, ended):
                decisions.duplicates += 1
            else:
                self._refuse(place, report, target, OutcomeRefusal.CONFLICT, ended)
        elif not run.open:
            self._refuse(place, report, target, OutcomeRefusal.STALE)
        else:
            decisions.extended[settler_no, run.lease_seconds].add(run.id)
            if reported.verdict is ReportedVerdict.HEARTBEAT:
                decisions.heartbeats += 1
                decisions.run_nos[place] = run.id.run_no
                return
            run_outcomes = run_outcomes or decisions.add_run(settler_no, run)
            run_outcomes.reported[index] = reported
            run_outcomes.outcomes[index] = _outcome(reported, item, self._now)
            decisions.settled += 1
            decisions.ends.append(ReportedEnd(item, _EVENTS[reported.verdict]))

    def _refuse(
        self,
        place: int,
        report: OutcomeReport,
        target: OutcomeTarget,
        reason: OutcomeRefusal,
        ended: _RecordedEnd | None = None,
    ) -> None:
        reported = report.reported
        details: dict[str, object] = {
            "item": str(reported.item),
            "verdict": reported.verdict,
            "origin": report.origin,
        }
        if reported.detail is not None:
            details["reported"] = orjson.Fragment(reported.detail)
        if ended is not None and ended.event is not None:
            details["ended_as"] = ended.event.label
        self.decisions.reasons[place] = reason
        self.decisions.refused.append(
            RefusedOutcome(
                reason,
                self._refused_actor_no(report, target),
                reported.fence,
                reported.position,
                target.run.id.run_no if target.run else None,
                target.item.item_no if target.item else None,
                orjson.dumps(details).decode(),
            )
        )
        if reason in _WRONG:
            self.decisions.faults[place] = _error(reported, target, reason)

    def _refused_actor_no(self, report: OutcomeReport, target: OutcomeTarget) -> int:
        """Return the actor of a refusal: a key itself, the consumers of a topic together."""
        if report.key_no is not None:
            return report.key_no
        return self._actor_no if target.settler_no is None else target.settler_no


def _sender_refusal(report: OutcomeReport, target: OutcomeTarget) -> OutcomeRefusal | None:
    """Return why its sender may not end this item: another one has pulled it, or has its topic."""
    if target.pulled:
        is_own = report.key_no is not None and report.key_no == target.settler_no
        return None if is_own else OutcomeRefusal.WRONG_SETTLER
    if report.key_no is None and report.outcome_topic != target.outcome_topic:
        return OutcomeRefusal.WRONG_TOPIC
    return None


def _refusal_reason(reported: ReportedOutcome, target: OutcomeTarget) -> OutcomeRefusal:
    if target.size is None:
        return OutcomeRefusal.MISMATCH
    if reported.position > target.size:
        return OutcomeRefusal.UNKNOWN
    if target.settler_no is None:
        return OutcomeRefusal.WRONG_SETTLER
    if target.item is None:
        return OutcomeRefusal.MISMATCH
    # Its claim is open only if a worker consumes a topic that is settled by topic, and started it.
    return OutcomeRefusal.WRONG_SETTLER if target.waiting else OutcomeRefusal.STALE


def _error(
    reported: ReportedOutcome, target: OutcomeTarget, reason: OutcomeRefusal
) -> InvalidOutcome:
    fault = _WRONG[reason]
    field_name = "topic" if reason is OutcomeRefusal.WRONG_TOPIC else "position"
    if reason is OutcomeRefusal.MISMATCH:
        field_name = "item"
        if target.size is None:
            field_name, fault = "token", "no claim has this fence and token"
    place = f"fence {reported.fence}, position {reported.position}"
    problem = Problem(field_name, place, fault)
    return InvalidOutcome("The outcome changes nothing.", [problem])


def _ended(item: ClaimedItem, first: ReportedOutcome | None) -> _RecordedEnd | None:
    if item.has_ended:
        return _RecordedEnd(item.ended_as, item.ended_detail or {})
    if first is not None:
        return _RecordedEnd(_EVENTS[first.verdict], _plain(first.detail))
    return None


def _is_repeated(reported: ReportedOutcome, ended: _RecordedEnd) -> bool:
    """Return whether the item ended as reported; a failure at its last attempt was parked.

    Two completions must have the same evidence. Two failures may have different reasons.
    """
    verdict, ended_as = reported.verdict, ended.event
    if ended_as is None:
        return True
    agrees = _plain(reported.detail) == ended.detail
    match verdict:
        case ReportedVerdict.COMPLETED:
            return ended_as is TransitionEvent.COMPLETED and agrees
        case ReportedVerdict.RETRY | ReportedVerdict.SNOOZE:
            capped = ended_as is TransitionEvent.PARKED and agrees
            return ended_as is _EVENTS[verdict] or capped
        case ReportedVerdict.PARK | ReportedVerdict.NOT_DUE | ReportedVerdict.RELEASE:
            return ended_as is _EVENTS[verdict]
        case ReportedVerdict.HEARTBEAT:
            return True
        case _:
            assert_never(verdict)


def _plain(detail: str | None) -> object:
    return {} if detail is None else orjson.loads(detail)


def _outcome(reported: ReportedOutcome, item: ClaimedItem, now: datetime) -> Outcome:
    return Outcome(_EVENTS[reported.verdict], reported.detail, _after_seconds(reported, item, now))


def _after_seconds(reported: ReportedOutcome, item: ClaimedItem, now: datetime) -> float | None:
    match reported.after:
        case timedelta() as wait:
            return wait.total_seconds()
        case datetime() as until:
            return max(0.0, (until - now).total_seconds())
        case None if reported.verdict is ReportedVerdict.RETRY:
            options = HandlerOptions(
                backoff_base_seconds=item.backoff_base_seconds,
                backoff_cap_seconds=item.backoff_cap_seconds,
            )
            return backoff_seconds(item.attempt, options)
        case None:
            return None
