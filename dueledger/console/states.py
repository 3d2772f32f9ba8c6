"""How states and statuses are shown: by an icon, a word and a colour, never by colour alone."""

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

STATUS_BADGES: Final[Mapping[str, Badge]] = {
    word: Badge(icon, word.replace("_", " ").capitalize(), tone)
    for icon, tone, words in (
        ("clock", "quiet", ("waiting", "proposed", "none", "ended", "idle")),
        ("play", "active", ("running", "circuit_half_open", "firing")),
        ("arrow", "active", ("not_started", "joining", "draining")),
        ("check", "good", ("done", "live", "ok", "ready", "approved", "executed")),
        ("check", "good", ("complete", "complete_with_explained", "repaired", "explained")),
        ("slash", "quiet", ("aborted", "accepted", "refused", "carried_forward")),
        ("slash", "quiet", ("false_positive", "information")),
        ("pause", "warn", ("paused",)),
        ("warn", "warn", ("silent", "warn", "warning", "ticket", "held")),
        ("warn", "bad", ("gone", "fail", "open", "circuit_open", "error", "critical")),
        ("warn", "bad", ("not_complete",)),
        ("clock", "warn", ("rate_limit", "concurrency_limit", "window_full", "workers_busy")),
        ("clock", "warn", ("waits_for_key", "waits_for_retry", "silent_consumer")),
        ("person", "warn", ("in_review",)),
        ("warn", "bad", ("read_only", "no_allocator", "allocator_silent", "no_direct_worker")),
        ("warn", "bad", ("direct_worker_silent", "no_direct_handler", "kafka_down")),
        ("warn", "bad", ("claims_fail", "topic_unavailable", "no_worker", "worker_silent")),
        ("warn", "bad", ("no_handler", "partition_stalled")),
    )
    for word in words
} | {"page": Badge("warn", "Urgent", "bad")}
"""Of operations, processes, checks, findings, repairs, reports, flows and alerts."""
