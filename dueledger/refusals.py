"""Why a person's decision about findings, repairs, operations and processes is refused, in words.

REST, the command line and the console have them; those of items are `ledger.item_verbs`.
"""

from typing import Final

from dueledger.ledger.finding_types import Resolution

_OF_REPAIRS: Final = {
    "finished": "it was executed or refused",
    "closed": "its finding is not open any more",
    "own": "you proposed it: somebody else approves it",
    "approved": "it is approved already",
    "unknown": "there is no such repair",
}
"""By the result of `approve_repairs`, in the order in which that statement asks."""

_OF_APPROVALS: Final = {
    "ended": "it has ended",
    "unasked": "it needs no second person",
    "approved": "it is approved already",
    "own": "you asked for it: somebody else approves it",
    "unknown": "there is no such operation",
}
"""By the result of `approve_operation`, in the order in which that statement asks."""

_OF_DRAINS: Final = {
    "ended": "it has stopped; what runs in its place has another name",
    "gone": "it is gone: it was killed, or lost its connection",
    "unable": "it takes no such request; SIGTERM drains it",
    "unknown": "there is no such process",
}
"""By the result of `request_drain`."""


def operation_refusal(action: str, status: str) -> str | None:
    """Return why an operation of a status is not changed by `pause`, `resume` or `abort`."""
    match action, status:
        case _, "done" | "aborted":
            return "it has ended"
        case "pause", "paused":
            return "it is paused already"
        case "resume", "waiting" | "running":
            return "it is not paused"
        case _:
            return None


def approval_refusal(result: str) -> str | None:
    """Return why an operation is not approved, by the result of `approve_operation`."""
    return _OF_APPROVALS.get(result)


def drain_refusal(result: str) -> str | None:
    """Return why a process is not asked to drain, by the result of `request_drain`."""
    return _OF_DRAINS.get(result)


def repair_refusal(result: str) -> str | None:
    """Return why a repair is not approved, by its result; None if it is."""
    return _OF_REPAIRS.get(result)


def finding_refusal(result: str) -> str | None:
    """Return why a finding is not resolved, by its result; None if it is."""
    match result:
        case "done":
            return None
        case "unknown":
            return "there is no such finding"
        case "own":
            return "you proposed its repair: somebody else resolves it, or approves the repair"
        case _:
            return f"it is {Resolution(result).replace('_', ' ')} already"
