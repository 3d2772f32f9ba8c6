"""Why an item has not happened yet: one sentence, and what to do about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, assert_never

from ledger.states import State

_BY_LABEL = {state.label: state for state in State}


@dataclass(frozen=True, slots=True)
class Explanation:
    """`code` is stable; `remedy` is None where there is nothing to do but wait."""

    code: str
    sentence: str
    remedy: str | None


def explain(item: Mapping[str, Any]) -> Explanation:
    """Explain an item as `ledger.store.items.show_item` shows it."""
    state = _BY_LABEL[item["state"]]
    match state:
        case (
            State.COMPLETED | State.CANCELLED | State.SUPERSEDED | State.SKIPPED | State.WRITTEN_OFF
        ):
            return Explanation(
                "ENDED", f"It ended as {state.label} at {_at(item['ended_at'])}.", None
            )
        case State.MANUAL_REVIEW:
            return Explanation(
                "PARKED",
                f"It waits for a person: {item['review_reason']}.",
                f"`dueledger redrive {item['id']} --reason …`, or `dueledger write-off`.",
            )
        case State.SCHEDULED | State.RETRYABLE_FAILURE:
            return _waiting(item, state)
        case State.CLAIMED:
            return Explanation(
                "NOT_STARTED",
                f"It was handed out to {item['topic']} (claim {item['fence']}, position "
                f"{item['position']}), and no worker has started it.",
                f"See that a worker for {item['kind']} runs: `dueledger work module:handlers`. "
                "When the claim's deadline passes it is handed out again.",
            )
        case State.RUNNING:
            return Explanation(
                "RUNNING",
                f"A worker runs it now (run {item['run_no']}).",
                None,
            )
        case _:
            assert_never(state)


def _waiting(item: Mapping[str, Any], state: State) -> Explanation:
    now, available_at = item["now"], item["available_at"]
    if item["paused_at"] is not None:
        return Explanation(
            "PAUSED",
            f"Its flow is paused since {_at(item['paused_at'])}: "
            f"{item['pause_reason'] or 'no reason given'}.",
            "It goes on once the flow is no longer paused; ask whoever paused it.",
        )
    if state is State.RETRYABLE_FAILURE and available_at > now:
        return Explanation(
            "RETRY",
            f"Attempt {item['attempt']} failed; the next is not before {_at(available_at)}, "
            f"{_span(available_at - now)} from now.",
            None,
        )
    if item["due_at"] > now:
        return Explanation(
            "NOT_DUE",
            f"It is not due before {_at(item['due_at'])}, {_span(item['due_at'] - now)} from now.",
            None,
        )
    if available_at > now:
        return Explanation(
            "SNOOZED",
            f"Its handler put it off until {_at(available_at)}, "
            f"{_span(available_at - now)} from now.",
            None,
        )
    return Explanation(
        "NOT_CLAIMED",
        f"It is due since {_at(item['due_at'])}, and no allocator has claimed it.",
        "See that an allocator runs: `dueledger allocate`.",
    )


def _at(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _span(span: timedelta) -> str:
    seconds = int(span.total_seconds())
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} seconds"
