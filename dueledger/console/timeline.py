"""The history of an item as its page shows it: when each step was, and what its evidence says."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

from dueledger.console.listing import Row
from dueledger.ledger.states import State, TransitionEvent
from dueledger.time_spans import fine_span

_FACTS_MAX: Final = 4
"""Fields of evidence that a row has; all are in its detail."""
_FACT_CHARS_MAX: Final = 80
CAUSES: Final = ("error", "message", "reason")
"""Parts of a detail that a row has as its cause."""
_COMPLETED: Final = TransitionEvent.COMPLETED.label


def timeline_of(steps: Sequence[Row], due_at: datetime) -> list[dict[str, Any]]:
    """Return steps with the time since the one before, and the fields of their evidence.

    That of completion also says how long it was after the item was due.
    """
    befores = [None, *steps]
    return [
        {
            **step,
            "offset": None if before is None else f"+{fine_span(step['at'] - before['at'])}",
            "after_due": after_due(step["at"], due_at) if step["event"] == _COMPLETED else None,
            "facts": _facts(step),
        }
        for step, before in zip(steps, befores, strict=False)
    ]


def after_due(at: datetime, due_at: datetime) -> str:
    """Return how long after an item was due a time is, or how long before."""
    is_early = at < due_at
    span = fine_span(due_at - at if is_early else at - due_at)
    return f"{span} {'before' if is_early else 'after'} it was due"


def ended_after_due(item: Row) -> str | None:
    """Return how long after it was due an item was completed; None for others."""
    if item["state"] != State.COMPLETED.label or item["ended_at"] is None:
        return None
    return after_due(item["ended_at"], item["due_at"])


def _facts(step: Row) -> list[tuple[str, str]]:
    """Return the first fields of a step's evidence that are no lists and no mappings."""
    evidence: object = step["detail"]
    if step["event"] != _COMPLETED and isinstance(evidence, Mapping):
        evidence = cast("Mapping[str, object]", evidence).get("evidence")
    if not isinstance(evidence, Mapping):
        return []
    found = [
        (name, str(value)[:_FACT_CHARS_MAX])
        for name, value in cast("Mapping[str, object]", evidence).items()
        if isinstance(value, str | int | float)
        and (name not in CAUSES or step["event"] != _COMPLETED)
    ]
    return found[:_FACTS_MAX]
