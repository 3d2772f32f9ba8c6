"""How states are shown: by an icon, a word and a colour each, never by colour alone."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from dueledger.ledger.states import State
from dueledger.ledger.store.definitions import VersionState


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
_OF_VERSIONS: Final = {
    VersionState.IN_FORCE: Badge("check", "In force", "good"),
    VersionState.PENDING: Badge("clock", "Pending", "active"),
    VersionState.REJECTED: Badge("warn", "Rejected", "bad"),
    VersionState.ENDED: Badge("slash", "Ended", "quiet"),
    VersionState.SUPERSEDED: Badge("swap", State.SUPERSEDED.label, "quiet"),
}
STATE_BADGES: Final[Mapping[str, Badge]] = {
    **{
        state.label: Badge(icon, _WORDS.get(state, state.label), tone)
        for state, (icon, tone) in _LOOKS.items()
    },
    **{state.value: badge for state, badge in _OF_VERSIONS.items()},
}
"""Of items by the name that people are shown, of versions of definitions by their state."""
