"""What people decide about items: the verbs, the states they are applied to, and why not to others.

Declared once: tests compare the table `ledger.operation_state` and what each statement refuses with
this module. REST, the command line and the console refuse with its words.
"""

from enum import StrEnum
from typing import Final

from dueledger.ledger.states import TERMINAL_STATES, State


class OperationVerb(StrEnum):
    """What is done to each item, the most helpful verb of a state first.

    `cancel` means items in flight, too, unless a filter asks how items came into their state.
    """

    TRIGGER = "trigger"
    PARK = "park"
    REDRIVE = "redrive"
    WRITE_OFF = "write_off"
    SNOOZE = "snooze"
    CANCEL = "cancel"


VERB_STATES: Final = {
    OperationVerb.TRIGGER: frozenset({State.SCHEDULED, State.RETRYABLE_FAILURE}),
    OperationVerb.PARK: frozenset({State.RETRYABLE_FAILURE}),
    OperationVerb.REDRIVE: frozenset({State.MANUAL_REVIEW}),
    OperationVerb.WRITE_OFF: frozenset({State.MANUAL_REVIEW}),
    OperationVerb.SNOOZE: frozenset({State.SCHEDULED, State.RETRYABLE_FAILURE}),
    OperationVerb.CANCEL: frozenset(set(State) - TERMINAL_STATES),
}
"""The states of items to which each verb is applied."""
UNKNOWN: Final = "there is no such item"
MOVED: Final = "it has just moved on to another state; try again"
_WAITS_FOR_KEY: Final = "it waits for its key: another item of the key has to end first"
_WAITS_AS_LONG: Final = "it is not handed out before that anyway"
_WAITS: Final = frozenset({OperationVerb.TRIGGER, OperationVerb.SNOOZE})
_IS: Final = {
    State.SCHEDULED: "it waits to be started",
    State.CLAIMED: "it is handed out",
    State.RUNNING: "it is running",
    State.RETRYABLE_FAILURE: "it waits for a retry",
    State.MANUAL_REVIEW: "it is parked",
    State.COMPLETED: "it has ended: it was completed",
    State.CANCELLED: "it has ended: it was cancelled",
    State.SUPERSEDED: "it has ended: another item took its place",
    State.SKIPPED: "it has ended: it was skipped",
    State.WRITTEN_OFF: "it has ended: it was written off",
}
_IS_FOR: Final = {
    OperationVerb.TRIGGER: "only an item that waits can be started now",
    OperationVerb.PARK: "only an item that waits for a retry can be parked",
    OperationVerb.REDRIVE: "only a parked item can be redriven",
    OperationVerb.WRITE_OFF: "only a parked item can be written off",
    OperationVerb.SNOOZE: "only an item that waits can be snoozed",
    OperationVerb.CANCEL: "only an item that has not ended can be cancelled",
}


def refusal(
    verb: OperationVerb, state: State, *, waits_for_key: bool = False, waits_as_long: bool = False
) -> str | None:
    """Return why a verb is not applied to an item of a state; None if it is.

    `waits_for_key`: another item of its key is before it, so that its time does not decide.
    `waits_as_long`: it is not handed out before the time until which it is snoozed.
    """
    if state in VERB_STATES[verb]:
        if waits_for_key and verb in _WAITS:
            return _WAITS_FOR_KEY
        return _WAITS_AS_LONG if waits_as_long and verb is OperationVerb.SNOOZE else None
    return _IS[state] if state in TERMINAL_STATES else f"{_IS[state]}; {_IS_FOR[verb]}"
