"""Columns of the journal of which an edit changes nothing that is owed: each by name, and why."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from .column_editor import NOBODY, Edited
from .documents import NOW

_KAFKA: Final = "no records are read here: test_kafka_check.py finds an edit beside a broker"
_LATER: Final = "what waits longer is OVERDUE when its item is late"
_TRACE: Final = "a trace for people: no item, time or state follows from it"
_INDEX: Final = (
    "by which the intake finds events: keys are read again from bodies, so an item that the intake"
    " makes wrong by it is found"
)
_LISTED: Final = "by which lists of open items find it: no item, time or state follows from it"
_SPEED: Final = "how fast items are claimed, not what is owed: what waits too long is OVERDUE"
WITHOUT_MEANING: Final = {
    "actor.seen_at": _TRACE,
    "actor.tenants": "for whom it may act from now on: what it did has its own rows",
    "claim.allocator_no": _TRACE,
    "claim.base_offset": _KAFKA,
    "claim.available_since": _SPEED,
    "claim.batch_max": "in how large runs suspects are started",
    "claim.flow_no": "which flow's items in flight are counted, which only bounds them",
    "claim.lag_flow_no": _SPEED,
    "claim.lease_seconds": _LATER,
    "claim.partition": _KAFKA,
    "claim.published_at": "without it the mark was lost in a crash; offsets say what is published",
    "claim.queue_seconds": _LATER,
    "claim.flow_nos": "by which lists of a tenant find claims",
    "claim.run_seconds": _LATER,
    "claim.token": _KAFKA,
    "claim.starts": "how often an item was started bounds how often it is again",
    "claim.topic": _KAFKA,
    "claim.topic_actor_no": "who may settle it: its run has who did",
    "due_item.actor_no": _TRACE,
    "due_item.traceparent": _TRACE,
    "due_item.tzdata": "which tz database placed it: the time itself is compared",
    "event.actor_no": _TRACE,
    "event.business_key": _INDEX,
    "event.matched": "counted at receipt, for people",
    "event.subject": _TRACE,
    "event.traceparent": _TRACE,
    **dict.fromkeys(
        (
            "event_other_key.business_key",
            "event_other_key.event_no",
            "event_other_key.occurred_at",
            "event_other_key.tenant",
        ),
        _INDEX,
    ),
    "expedited.due_at": _LISTED,
    "expedited.flow_no": _LISTED,
    "expedited.reason": _TRACE,
    **dict.fromkeys(
        (
            "flow.circuit",
            "flow.circuit_at",
            "flow.circuit_calls_min",
            "flow.circuit_failure_ratio",
            "flow.circuit_rest_seconds",
            "flow.circuit_run_no",
            "flow.circuit_window_seconds",
            "flow.concurrency_max",
            "flow.lag_target_seconds",
            "flow.rate_per_second",
            "flow.retry_share",
            "flow.tokens",
            "flow.tokens_at",
            "flow.weight",
            "flow.window_items",
        ),
        _SPEED,
    ),
    "flow.pause_reason": _TRACE,
    "flow.paused_by": "who decided it is in its pause, which is compared",
    "held_key.held_at": _TRACE,
    "materialised.failed_at": "when a failure, which is a finding, was last seen",
    "materialised.tzdata": "which tz database placed the items: their times are compared with it",
    "missed_range.occurrences": "a count for people: the range decides",
    "pause.pause_no": _TRACE,
    "pause.reason": _TRACE,
    "pending.batch_max": "in how large runs suspects are started",
    "pending.state": "whether it is claimed as a first attempt or as a retry",
    "pending.starts": "how often an item was started bounds how often it is again",
    "retired_key.id": "its item is gone, and nothing else has the id; it refuses an emission",
    "retired_key.retired_at": _TRACE,
    "review.parked_at": _TRACE,
    "review.reason": _TRACE,
    "review.run_no": _TRACE,
    "review.actor_no": _TRACE,
    "review.starts": "a redriven item is started anew",
    "run.extended_at": _TRACE,
    "run.flow_no": "which flow's items in flight are counted, which only bounds them",
    "run.isolated_in": _TRACE,
    "run.lease_seconds": _LATER,
    "run.overran": "who is blamed when a run is reaped",
    "run.run_until": _LATER,
    "run.withdrawn": "excuses endings by request at the very start of the run, and no others",
    "withdrawal.event": "what it ends is judged as any ending is",
    "withdrawal.reason": _TRACE,
    "withdrawal.replacement": _TRACE,
}
"""Columns of which an edit changes nothing that is owed, and why."""
PROCESSES: Final = frozenset(
    {"allocator", "intake", "materialiser", "reconciler", "relay", "worker"}
)
EMITTED: Final = frozenset({"Letter", "Notice", "Other", "Payment", "Premium"})
_SEALED: Final = frozenset({"person", "service", "api", "key", "oidc"})
"""Kinds of actors whose rows are sealed."""
_ATTEMPTS: Final = frozenset({3, 6, 7, 8, 9})
"""Events that end an attempt and not its item."""
_DECISIONS: Final = frozenset({9, 10, 15, 16})
"""Events outside of runs that end no item."""
Row = Mapping[str, Any]


def _is_closed(row: Row, value: Any) -> bool:  # noqa: ANN401, ARG001 - any edit of it
    return row["closed_at"] is not None


def _is_open(row: Row, value: Any) -> bool:  # noqa: ANN401, ARG001 - any edit of it
    return row["closed_at"] is None


def _is_earlier(column: str) -> Callable[[Row, Any], bool]:
    return lambda row, value: value is not None and _at(value) < _at(row[column])


def _at(value: str) -> datetime:
    return datetime.fromisoformat(value)


def _is_within_a_day_of_its_key(row: Row, value: Any) -> bool:  # noqa: ANN401 - any edit of it
    """As another writer wakes an item that waited for its key, by its own clock."""
    if row["serial"] is None or value == "infinity":
        return False
    return _at(value) <= max(_at(row["serial_due_at"]), NOW) + timedelta(days=1)


def _is_emitted(row: Row, value: Any) -> bool:  # noqa: ANN401, ARG001 - any edit of it
    made_by_none = row["definition_no"] is None and row["event_no"] is None
    return made_by_none or row["decision"] == "triggered"


def _is_somebody(row: Row, value: Any) -> bool:  # noqa: ANN401, ARG001 - any edit of it
    return value != NOBODY


_RECORDER: Final = (
    "of an attempt that failed, or an ending that a rule excuses: who recorded it; of a decision,"
    " another who could have taken it: nothing else names who did"
)
_HISTORY: Final = "of a claim that is over: what its runs had is held against the journal"
_UNSAID: Final = "of an item that a service emitted or a person triggered: no source says it"
IN_SOME_ROWS: Final[dict[str, tuple[Callable[[Row, Any], bool], str]]] = {
    "actor.actor_no": (
        lambda row, _: row["kind"] in PROCESSES,
        "of a process: where a row of it needs its actor, that is found",
    ),
    "actor.kind": (
        lambda row, value: row["kind"] in PROCESSES and value in PROCESSES,
        "of a process: what needs its kind is found where it does",
    ),
    "actor.name": (lambda row, _: row["kind"] in PROCESSES, "of a process: a trace for people"),
    **dict.fromkeys(
        (
            "claim.attempt",
            "claim.closed_at",
            "claim.effective_date",
            "claim.size",
            "claim.started",
        ),
        (_is_closed, _HISTORY),
    ),
    **dict.fromkeys(
        ("claim.claimed_at", "claim.fence"),
        (
            lambda row, _: row["started"] == 0,
            "nothing of it was started: no run names it, and its records are not read here",
        ),
    ),
    **dict.fromkeys(
        (
            "due_item.complete_by",
            "due_item.decision",
            "due_item.definition_no",
            "due_item.labels",
            "due_item.nominal",
            "due_item.partition_key",
            "due_item.payload",
            "due_item.start_by",
            "due_item.zone",
        ),
        (_is_emitted, _UNSAID),
    ),
    "claim.deadline": (
        lambda row, value: (
            row["closed_at"] is not None or _at(value) < _at(row["deadline"]) + timedelta(hours=1)
        ),
        "of a claim that is over; or sooner, or as a policy that was put since may have it",
    ),
    "due_item.emitted_at": (
        lambda _, value: _at(value) <= NOW,
        "in the past, and before what the journal has of it: nothing else says when",
    ),
    **dict.fromkeys(
        ("due_item.overlap", "due_item.serial"),
        (
            lambda row, _: _at(row["due_at"]) <= NOW,
            "of an item that ended no order follows; where it waits, pending is compared with it",
        ),
    ),
    "expedited.expedited_at": (
        lambda _, value: _at(value) <= NOW,
        "in the past, and after the emission of its item: for people",
    ),
    "flow.lane": (
        lambda row, _: row["kind"] in EMITTED,
        "of items that services emitted: no source says their lane",
    ),
    "flow.paused_at": (
        lambda row, value: None not in (row["paused_at"], value),
        "since when, for people: whether it is paused is compared",
    ),
    "materialised.materialised_until": (
        _is_earlier("materialised_until"),
        "set back: it is materialised again, and each item exists already",
    ),
    "missed_range.from_at": (
        _is_earlier("from_at"),
        "to before its version was in force: nothing was owed there",
    ),
    "missed_range.recorded_at": (
        lambda row, value: not _is_earlier("until_at")(row, value),
        "the earlier of both ends counts",
    ),
    "missed_range.until_at": (
        lambda row, value: not _is_earlier("until_at")(row, value),
        "the earlier of both ends counts, and between them nothing occurs",
    ),
    "pause.paused_at": (_is_earlier("paused_at"), "since when, for people: the flows are compared"),
    "pause.paused_until": (
        lambda row, value: value is None or _at(value) > _at(row["paused_at"]),
        "an end to come: until then the flows are compared, and afterwards they are not paused",
    ),
    "pending.attempt": (
        lambda row, value: value < row["attempt"],
        "fewer than it had, which it may: a person redrives it from none, and it is tried again",
    ),
    "pending.available_at": (
        lambda row, value: row["starts"] > 0 or _is_within_a_day_of_its_key(row, value),
        _LATER,
    ),
    "run.closed_at": (
        lambda row, value: row["closed_at"] is not None and value is not None,
        "later than its last ending: for people",
    ),
    "run.ended": (_is_closed, "of a run that is over: the journal has how its items ended"),
    "run.from_position": (
        lambda row, value: row["closed_at"] is not None and value < row["from_position"],
        "before the first position there is no item",
    ),
    "run.lease_until": (
        lambda row, value: _is_closed(row, value) or _is_earlier("lease_until")(row, value),
        "of a run that is over; or it lapses sooner, and the run is reaped",
    ),
    "run.run_no": (_is_open, "of a run without endings: it cannot be settled and lapses"),
    "run.started_at": (
        lambda row, value: _is_open(row, value) or _is_earlier("started_at")(row, value),
        "no ending of it is before: for people",
    ),
    "run.to_position": (
        lambda row, value: row["closed_at"] is not None and value > row["to_position"],
        "beyond the last position of its claim there is no item",
    ),
    "run.worker_no": (
        lambda row, value: _is_open(row, value) and value != NOBODY,
        "of an open run nothing else names the worker: another cannot settle it, and it lapses",
    ),
    "transition.actor_no": (
        _is_somebody,
        _RECORDER,
    ),
    "transition.at": (
        lambda row, value: row["run_no"] is None and _is_earlier("at")(row, value),
        "outside of a run, since its emission: for people",
    ),
    "transition.event": (
        lambda row, value: any({row["event"], value} <= each for each in (_ATTEMPTS, _DECISIONS)),
        "how an attempt ended, or what was decided after it: where its item is, is compared",
    ),
    "transition.detail": (
        lambda row, value: row["event"] not in {12, 13} and bool(row["run_no"] or value),
        "what a handler said, or a person's reason: nothing else has it",
    ),
    "withdrawal.actor_no": (
        _is_somebody,
        "anybody registered may ask: what it ends is judged as any ending is",
    ),
    "withdrawal.item_no": (
        _is_somebody,
        "to another item of the date: what it ends is judged as any ending is",
    ),
    "withdrawal.requested_at": (
        _is_earlier("requested_at"),
        "since the emission of its item: for people",
    ),
}
"""Columns of which some edits change nothing: of which rows and to which values, and why."""


def is_without_meaning(column: str, edited: Edited) -> bool:
    """Return whether an edit of a column is listed as changing nothing."""
    if column in WITHOUT_MEANING:
        return True
    return column in IN_SOME_ROWS and IN_SOME_ROWS[column][0](edited.columns, edited.value)


def _always(row: Row) -> bool:  # noqa: ARG001 - any row
    return True


REMOVED_IN_SOME_ROWS: Final[dict[str, tuple[Callable[[Row], bool], str]]] = {
    "actor": (
        lambda row: row["kind"] not in _SEALED,
        "of a process: where a row needs it, that is found",
    ),
    "event_key": (_always, "of the first time that is known: keys are forgotten some at a time"),
    "event_other_key": (_always, _INDEX),
    "retired_key": (_always, "its item is gone; without it the id may be emitted again"),
    "transition": (
        lambda row: row["run_no"] is None and row["event"] in _DECISIONS,
        "what was decided between two attempts: where its item is, is compared",
    ),
    "withdrawal": (_always, "a request that is gone: its item is worked"),
}
"""Rows of which a removal changes nothing that is owed, and why."""


def is_removed_without_meaning(removed: Edited) -> bool:
    """Return whether the removal of a row is listed as changing nothing."""
    return removed.table in REMOVED_IN_SOME_ROWS and REMOVED_IN_SOME_ROWS[removed.table][0](
        removed.columns
    )
