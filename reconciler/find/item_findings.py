"""Findings about one item: a sentence, and both sides of the evidence."""

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Final
from uuid import UUID

from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.identity import item_id
from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store import Record
from dueledger.reconciler.compare.comparison import DuplicatePair, FlowRules
from dueledger.reconciler.compared_items import ActualItem, ExpectedItem
from dueledger.reconciler.expect.item_terms import instant_of
from dueledger.reconciler.find.findings import EvidenceFields, Finding, FindingSubject, span
from dueledger.reconciler.sources import EvidenceReader

SHOWN_MAX: Final = 200
"""Characters of a text that a finding has; its item has all of them."""


def missing(expected: ExpectedItem, source: str, terms: str | None) -> Finding:
    """Return the finding that `source` expects an item that the ledger does not have."""
    effective = date.fromordinal(expected.day)
    due_at = instant_of(expected.due_microseconds)
    identity = UUID(bytes=expected.id)
    owed = "came too late to be owed" if expected.is_missed else "is owed"
    return Finding(
        FindingType.MISSING,
        FindingSubject(
            expected.tenant,
            expected.kind,
            str(identity),
            identity,
            expected.business_key,
            effective,
            due_at,
        ),
        f"{source} says that {expected.kind} {owed} for {expected.business_key}, effective "
        f"{effective} and due {due_at:%Y-%m-%d %H:%M} UTC, but the ledger has no such item.",
        expected={
            "source": source,
            "cycle": expected.cycle,
            "due_at": due_at.isoformat(),
            "event": expected.reference,
        },
        actual={"item": None},
        terms=terms,
    )


def wrong_terms(
    type_: FindingType,
    item: ActualItem,
    flow: FlowRules,
    owed: Mapping[str, object],
    actual: Mapping[str, object],
) -> Finding:
    """Return the finding that an item differs from its source in these fields."""
    names = ", ".join(sorted(owed))
    return Finding(
        type_,
        _subject(item, flow),
        f"{_what(item, flow)} differs from what its source says in: {names}.",
        expected={name: _shown(value) for name, value in sorted(owed.items())},
        actual={name: _shown(value) for name, value in sorted(actual.items())},
    )


def misnamed(item: ActualItem, flow: FlowRules) -> Finding:
    """Return the finding that the row of an item is not the one that its id was computed of."""
    own = item_id(flow.tenant, flow.kind, item.business_key, item.cycle, item.effective_date)
    return Finding(
        FindingType.TAMPERED,
        _subject(item, flow),
        f"{_what(item, flow)} has an id that its row does not give: its tenant, kind, business "
        "key, cycle or effective date is not what was emitted.",
        expected={"item": str(own)},
        actual=_facts(item),
    )


def misplaced(item: ActualItem, flow: FlowRules, places: Mapping[str, int]) -> Finding:
    """Return the finding that an item has no state, or several."""
    has = [name.replace("_", " ") for name, count in places.items() for _ in range(count)]
    what = f"has {len(has)} states: it is {' and '.join(has)}" if has else "has no state"
    return Finding(
        FindingType.UNBALANCED,
        _subject(item, flow),
        f"{_what(item, flow)} {what}.",
        expected={"states": 1},
        actual=dict(places),
    )


def unexcused(item: ActualItem, flow: FlowRules) -> Finding:
    """Return the finding that an item ended without being completed for no reason that counts."""
    event = TransitionEvent(item.event or 0).label.replace("_", " ")
    reason = f"for “{item.ended_for}”" if item.ended_for else "for no reason"
    by = f"a {item.ended_by}" if item.ended_by else "nobody who could"
    return Finding(
        FindingType.UNEXCUSED,
        _subject(item, flow),
        f"{_what(item, flow)} was {event} {reason} by {by}: no event, rule or person ended it.",
        expected={"completed": True},
        actual={"ended_as": event, "by": item.ended_by, "reason": item.ended_for},
    )


def withdrawn(item: ActualItem, flow: FlowRules, places: Mapping[str, int]) -> Finding:
    """Return the finding that an event or the domain ended what an item is for, and it is open."""
    state = next((name for name, count in places.items() if count), None)
    return Finding(
        FindingType.WITHDRAWN,
        _subject(item, flow),
        f"{_what(item, flow)} is not owed any more, as its source says, and is {state}.",
        expected={"open": False},
        actual={"open": True, "state": state},
    )


def premature(item: ActualItem, flow: FlowRules) -> Finding:
    """Return the finding that an item was completed before it was due or emitted."""
    ended_at = item.ended_at or item.due_at
    what = "emitted" if ended_at < item.emitted_at else "due"
    not_before = max(item.due_at, item.emitted_at)
    return Finding(
        FindingType.PREMATURE,
        _subject(item, flow),
        f"{_what(item, flow)} was completed {ended_at:%Y-%m-%d %H:%M:%S} UTC, before it was "
        f"{what}.",
        expected={"not_before": not_before.isoformat()},
        actual={"completed_at": ended_at.isoformat()},
    )


UNRECORDED: Final = "unrecorded"
REPEATED: Final = "repeated"
_CONTRADICTIONS: Final = {
    "no_run": "but in no run: no worker had it",
    "not_held": "but that run did not have it",
    "worker": "but the run is of another worker",
    "attempt": "but at an attempt that its run did not have, or that no run had",
    "time": "but the run began later, or was over",
    "event": "but nothing of the kind happens in a run",
    "emission": "but it was emitted later",
    UNRECORDED: "and it has ended in that run, but no transition says how",
    REPEATED: "and it has ended in that run once, but more than one transition says how",
}


def contradicted(row: Record, flow: FlowRules) -> Finding:
    """Return the finding that a transition of an item is not as its run has it."""
    identity = UUID(bytes=row["id"])
    event = _event_of(row["event"])
    by = row["actor"] or "nobody"
    in_run = f" in run {row['run_no']}" if row["run_no"] is not None else ""
    return Finding(
        FindingType.OUTCOME_CONFLICT,
        FindingSubject(
            flow.tenant,
            flow.kind,
            str(identity),
            identity,
            row["business_key"],
            row["effective_date"],
            row["due_at"],
        ),
        f"{flow.kind} of {row['business_key']}, effective {row['effective_date']}, was {event} by "
        f"{by}{in_run} {row['at']:%Y-%m-%d %H:%M:%S} UTC, {_CONTRADICTIONS[row['fault']]}.",
        expected={"as_in_its_run": True},
        actual={
            "event": event,
            "run": row["run_no"],
            "by": by,
            "at": row["at"].isoformat(),
            "fault": row["fault"],
        },
    )


def _event_of(number: int | None) -> str:
    """Return what an event makes of an item, in words; a number that none has as it is."""
    if number is None:
        return "had by a worker"
    known = number in TransitionEvent.__members__.values()
    return TransitionEvent(number).label.replace("_", " ") if known else f"of event {number}"


def recorded_in_future(item: ActualItem, flow: FlowRules, now: datetime) -> Finding:
    """Return the finding that an item was emitted or ended later than now, as its rows say."""
    if item.emitted_at > now:
        what, at = "emitted", item.emitted_at
    else:
        what, at = "ended", item.ended_at or now
    return Finding(
        FindingType.TAMPERED,
        _subject(item, flow),
        f"{_what(item, flow)} was {what} {at:%Y-%m-%d %H:%M} UTC, its row says, "
        "which is still to come.",
        expected={f"{what}_later_than_now": False},
        actual={**_facts(item), f"{what}_at": at.isoformat()},
    )


def unexpected(item: ActualItem, flow: FlowRules) -> Finding:
    """Return the finding that no source expects an item."""
    return Finding(
        FindingType.UNEXPECTED,
        _subject(item, flow),
        f"{_what(item, flow)} is in the ledger, but no definition, event or population "
        "accounts for it.",
        expected={"item": None},
        actual=_facts(item),
    )


def duplicate(pair: DuplicatePair, flow: FlowRules) -> Finding:
    """Return the finding that one business occurrence has two items."""
    kept, extra = pair
    return Finding(
        FindingType.DUPLICATE,
        _subject(extra, flow),
        f"{_what(extra, flow)} is in the ledger as cycle {extra.cycle!r}, beside an item for "
        f"the same occurrence as cycle {kept.cycle!r}.",
        expected={"items": 1, "item": str(UUID(bytes=kept.id)), "cycle": kept.cycle},
        actual={**_facts(extra), "items": 2},
    )


def overdue(item: ActualItem, flow: FlowRules, described: Record, waited: timedelta) -> Finding:
    """Return the finding that an open item is past its grace, with its state."""
    state = State(described["state"]).label if described["state"] else None
    match described["state"]:
        case State.MANUAL_REVIEW:
            state_text = f"it is parked: {described['reason']}"
        case State.RETRYABLE_FAILURE:
            state_text = f"it waits for attempt {described['attempt'] + 1}"
        case State.SCHEDULED:
            state_text = "it waits to be claimed"
        case _:
            state_text = "it is handed out, or has no state"
    late = (waited - flow.grace).total_seconds()
    return Finding(
        FindingType.OVERDUE,
        _subject(item, flow),
        f"{_what(item, flow)} was due {item.due_at:%Y-%m-%d %H:%M} UTC and its grace ended "
        f"{span(late)} ago; {state_text}.",
        expected={"ended_by": (item.due_at + flow.grace).isoformat()},
        actual={"state": state, "attempt": described["attempt"], "reason": described["reason"]},
    )


def late(item: ActualItem, flow: FlowRules) -> Finding:
    """Return the finding that an item was completed after it was promised."""
    promised = item.complete_by or item.due_at + flow.grace
    ended_at = item.ended_at or promised
    after = (ended_at - promised).total_seconds()
    return Finding(
        FindingType.LATE,
        _subject(item, flow),
        f"{_what(item, flow)} should have been completed by {promised:%Y-%m-%d %H:%M:%S} UTC "
        f"and was completed {span(after)} later.",
        expected={"complete_by": promised.isoformat()},
        actual={"completed_at": ended_at.isoformat()},
    )


def effect_missing(item: ActualItem, flow: FlowRules, evidence: EvidenceReader) -> Finding:
    """Return the finding that there is no evidence for a completed item."""
    ended_at = item.ended_at or item.due_at
    return Finding(
        FindingType.EFFECT_MISSING,
        _subject(item, flow),
        f"{_what(item, flow)} was completed {ended_at:%Y-%m-%d %H:%M} UTC, but "
        f"{evidence.name} has no evidence of it.",
        expected={"evidence": evidence.name, "cycle": item.cycle},
        actual={"completed_at": ended_at.isoformat(), "reference": None},
    )


def _subject(item: ActualItem, flow: FlowRules) -> FindingSubject:
    identity = UUID(bytes=item.id)
    return FindingSubject(
        flow.tenant,
        flow.kind,
        str(identity),
        identity,
        item.business_key,
        item.effective_date,
        item.due_at,
    )


def _shown(value: object) -> str | float | None:
    if isinstance(value, datetime):
        return value.isoformat()
    return value if value is None or isinstance(value, float | int) else str(value)[:SHOWN_MAX]


def _what(item: ActualItem, flow: FlowRules) -> str:
    return f"{flow.kind} of {item.business_key}, effective {item.effective_date},"


def _facts(item: ActualItem) -> EvidenceFields:
    return {
        "item": str(UUID(bytes=item.id)),
        "cycle": item.cycle,
        "due_at": item.due_at.isoformat(),
        "emitted_at": item.emitted_at.isoformat(),
        "definition": item.definition_no,
        "event": item.event_no,
    }
