"""How states are shown: by an icon, a word and a colour each, never by colour alone."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from dueledger.ledger.states import State


class Badge(NamedTuple):
    """An icon of the sprite, the words, and a tone of the style sheet."""

    icon: str
    words: str
    tone: str


_LOOKS: Final = {
    State.SCHEDULED: ("clock", "quiet"),
    State.CLAIMED: ("arrow", "active"),
    State.RUNNING: ("play", "active"),
    State.RETRYABLE_FAILURE: ("retry", "warn"),
    State.MANUAL_REVIEW: ("person", "warn"),
    State.COMPLETED: ("check", "good"),
    State.CANCELLED: ("slash", "quiet"),
    State.SUPERSEDED: ("swap", "quiet"),
    State.SKIPPED: ("skip", "quiet"),
    State.WRITTEN_OFF: ("pen", "quiet"),
}
_WORDS: Final = {
    State.RETRYABLE_FAILURE: "Retrying",
    State.MANUAL_REVIEW: "In review",
    State.WRITTEN_OFF: "Written off",
}
STATE_BADGES: Final[Mapping[str, Badge]] = {
    state.label: Badge(icon, _WORDS.get(state, state.label), tone)
    for state, (icon, tone) in _LOOKS.items()
}
"""By the name that people are shown."""
