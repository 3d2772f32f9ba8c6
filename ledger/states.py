"""The states of a due item and the only permitted transitions between them.

Declared once: tests compare the lookup tables, constraints and literals in ``sql/`` and the diagram
in ``docs/states.md`` with this module, refused transitions included.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class State(IntEnum):
    """The state of an item. The numbers are stored; the names are shown to people."""

    SCHEDULED = 1
    CLAIMED = 2
    RUNNING = 3
    RETRYABLE_FAILURE = 4
    MANUAL_REVIEW = 5
    COMPLETED = 6
    CANCELLED = 7
    SUPERSEDED = 8
    SKIPPED = 9
    WRITTEN_OFF = 10

    @property
    def label(self) -> str:
        """Return the name shown to people, as in ``ManualReview``."""
        return self.name.title().replace("_", "")


class TransitionEvent(IntEnum):
    """What moves an item from one state to the next. The numbers are stored."""

    EMITTED = 1
    CLAIMED = 2
    RELEASED = 3
    STARTED = 4
    COMPLETED = 5
    FAILED = 6
    TIMED_OUT = 7
    SNOOZED = 8
    PARKED = 9
    REDRIVEN = 10
    CANCELLED = 11
    SUPERSEDED = 12
    SKIPPED = 13
    WRITTEN_OFF = 14
    REVISED = 15
    RECOVERED = 16

    @property
    def label(self) -> str:
        """Return the event's name in lower case, as in ``timed_out``."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Transition:
    """One permitted move. ``before`` is None if the event makes the item."""

    event: TransitionEvent
    before: State | None
    after: State


TERMINAL_STATES: Final = frozenset(
    {State.COMPLETED, State.CANCELLED, State.SUPERSEDED, State.SKIPPED, State.WRITTEN_OFF}
)

TERMINAL_EVENTS: Final = frozenset(
    {
        TransitionEvent.COMPLETED,
        TransitionEvent.CANCELLED,
        TransitionEvent.SUPERSEDED,
        TransitionEvent.SKIPPED,
        TransitionEvent.WRITTEN_OFF,
    }
)

_MOVES: Final[dict[TransitionEvent, tuple[tuple[State | None, ...], State]]] = {
    TransitionEvent.EMITTED: ((None,), State.SCHEDULED),
    TransitionEvent.CLAIMED: ((State.SCHEDULED, State.RETRYABLE_FAILURE), State.CLAIMED),
    TransitionEvent.RELEASED: ((State.CLAIMED, State.RUNNING), State.SCHEDULED),
    TransitionEvent.STARTED: ((State.CLAIMED,), State.RUNNING),
    # A repair completes what waits or is parked, where its effect is seen outside the ledger.
    TransitionEvent.COMPLETED: (
        (
            State.RUNNING,
            State.CLAIMED,
            State.SCHEDULED,
            State.RETRYABLE_FAILURE,
            State.MANUAL_REVIEW,
        ),
        State.COMPLETED,
    ),
    TransitionEvent.FAILED: ((State.RUNNING,), State.RETRYABLE_FAILURE),
    TransitionEvent.TIMED_OUT: ((State.RUNNING,), State.RETRYABLE_FAILURE),
    TransitionEvent.SNOOZED: (
        (State.RUNNING, State.SCHEDULED, State.RETRYABLE_FAILURE),
        State.SCHEDULED,
    ),
    TransitionEvent.PARKED: (
        (State.RUNNING, State.CLAIMED, State.RETRYABLE_FAILURE),
        State.MANUAL_REVIEW,
    ),
    TransitionEvent.REDRIVEN: ((State.MANUAL_REVIEW,), State.SCHEDULED),
    TransitionEvent.CANCELLED: (
        (
            State.SCHEDULED,
            State.RETRYABLE_FAILURE,
            State.MANUAL_REVIEW,
            State.CLAIMED,
            State.RUNNING,
        ),
        State.CANCELLED,
    ),
    TransitionEvent.SUPERSEDED: (
        (
            State.SCHEDULED,
            State.RETRYABLE_FAILURE,
            State.MANUAL_REVIEW,
            State.CLAIMED,
            State.RUNNING,
        ),
        State.SUPERSEDED,
    ),
    TransitionEvent.SKIPPED: ((None, State.SCHEDULED), State.SKIPPED),
    TransitionEvent.WRITTEN_OFF: ((State.MANUAL_REVIEW,), State.WRITTEN_OFF),
    TransitionEvent.REVISED: ((State.SCHEDULED,), State.SCHEDULED),
    # Upkeep recovers lost items. There should never be any.
    TransitionEvent.RECOVERED: ((None,), State.SCHEDULED),
}

TRANSITIONS: Final[tuple[Transition, ...]] = tuple(
    Transition(event, before, after)
    for event, (befores, after) in _MOVES.items()
    for before in befores
)
