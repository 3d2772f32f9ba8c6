"""What hinders the items of flows, as a page says it: with a link where a page has the remedy."""

from typing import Final, NamedTuple

from markupsafe import Markup

from dueledger.console.cells import code_of
from dueledger.console.view import View
from dueledger.hindrance_texts import TEXTS, Hindrance


class _Sentence(NamedTuple):
    """A sentence, and what follows it as a link to a page."""

    text: str
    link: str
    path: str


_SENTENCES: Final = {
    Hindrance.PAUSED: _Sentence("Paused.", "All pauses, by whom and why", "/flows#pauses"),
    Hindrance.PARKED: _Sentence("They wait for a person.", "Reviews by reason", "/reviews"),
    Hindrance.RATE: _Sentence(
        "More items are due than the rate limits of these flows allow.", "Limits", "/flows"
    ),
    Hindrance.CONCURRENCY: _Sentence(
        "As many items are in flight as these flows may have.", "Limits", "/flows"
    ),
    Hindrance.WINDOW: _Sentence(
        "As many items are handed out as these flows may have.", "Limits", "/flows"
    ),
    Hindrance.ALLOCATOR_SILENT: _Sentence(
        "Their allocator is stopped, or hangs.", "Processes", "/system"
    ),
    Hindrance.DIRECT_WORKER_SILENT: _Sentence(
        "Their direct worker is stopped, or hangs.", "Processes", "/system"
    ),
    Hindrance.WORKER_SILENT: _Sentence(
        "Their worker is stopped, or hangs.", "Processes", "/system"
    ),
    Hindrance.CLAIMS_FAIL: _Sentence(
        "The attempts to claim them fail.", "Processes, with the error", "/system"
    ),
}
"""Instead of those that name a command. No page starts a process: such commands stay."""

_STATUSES: Final = {
    Hindrance.NOT_CLAIMED: "ready",
    Hindrance.CIRCUIT_PROBING: "circuit_half_open",
    Hindrance.RATE: "rate_limit",
    Hindrance.CONCURRENCY: "concurrency_limit",
    Hindrance.WINDOW: "window_full",
    Hindrance.NO_CREDIT: "workers_busy",
    Hindrance.BEHIND: "waits_for_key",
    Hindrance.RETRY: "waits_for_retry",
    Hindrance.PARKED: "in_review",
}
"""Words that are not named like the hindrance."""


def status_word(code: Hindrance) -> str:
    """Return the word for what hinders a flow, as its badge has it."""
    return _STATUSES.get(code, code.lower())


def flow_sentence(view: View, code: Hindrance) -> str | None:
    """Return what hinders flows, or what their items wait for; None for hindrances of items.

    It is HTML if it has a link, and otherwise text with code in backticks.
    """
    found = _SENTENCES.get(code)
    if found is None or not view.has_page(found.path.partition("#")[0]):
        return TEXTS[code].of_flow
    link = Markup('<a href="{}">{}</a>').format(view.url(found.path), found.link)
    return Markup(code_of(found.text)) + " " + link  # noqa: S704 - it is escaped there
