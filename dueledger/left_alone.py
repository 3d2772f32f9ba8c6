"""Open items that an operation leaves alone, and why."""

from collections import Counter
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple

from dueledger.ledger.item_verbs import MOVED, VERB_STATES, OperationVerb, refusal
from dueledger.ledger.states import State
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.operations import (
    COUNT_EXAMINED_MAX,
    COUNTED_MAX,
    STATES,
    ItemFilter,
    OperationPreview,
    preview_operation,
)

WAITS: Final = {
    OperationVerb.TRIGGER: "it is available already, or waits for its key",
    OperationVerb.SNOOZE: "it waits for its key",
}
"""Why a verb leaves an item alone in a state to which it is applied."""
_WAITS_AS_LONG: Final = "it waits for its key, or as long anyway"
_STATE_OF: Final = {state.label: state for state in State}


class LeftAlone(NamedTuple):
    """How many open items a verb leaves alone, by the reason. `is_capped`: there may be more."""

    counts: Counter[str]
    is_capped: bool


class PreviewLimits(NamedTuple):
    """How many open items a preview examines, and how many that match it counts."""

    examined_max: int
    counted_max: int


FULL: Final = PreviewLimits(examined_max=COUNT_EXAMINED_MAX, counted_max=COUNTED_MAX)
"""As an operation counts, in some tenths of a second."""


async def preview_open_items(
    connection: Connection, wanted: ItemFilter, limits: PreviewLimits = FULL
) -> OperationPreview:
    """Count the open items of a filter's flows and due times, in whatever state they are."""
    return await preview_operation(
        connection,
        OperationVerb.CANCEL,
        replace(wanted, state=None, error=None),
        **limits._asdict(),
    )


async def preview_moved(
    connection: Connection,
    verb: OperationVerb,
    wanted: ItemFilter,
    of_all: OperationPreview,
    *,
    limits: PreviewLimits = FULL,
    until: datetime | None = None,
) -> OperationPreview:
    """Count the items that a verb moves now, which may be just those of `preview_open_items`."""
    is_whole = not of_all.capped or of_all.items == limits.counted_max
    is_of_all = wanted.state is None and wanted.error is None and verb not in WAITS
    if is_whole and is_of_all and of_all.states <= VERB_STATES[verb]:
        return of_all
    return await preview_operation(connection, verb, wanted, until=until, **limits._asdict())


def count_left_alone(
    verb: OperationVerb,
    wanted: ItemFilter,
    found: OperationPreview,
    of_all: OperationPreview,
    until: datetime | None = None,
) -> LeftAlone:
    """Count the open items of the filter's flows and due times that the verb leaves alone.

    `found` are those that it moves, `of_all` those of `preview_open_items`.
    """
    counts: Counter[str] = Counter()
    if found is of_all:
        return LeftAlone(counts, is_capped=False)
    is_capped = of_all.capped or found.capped
    matched = Counter[str]()
    for group in found.groups:
        matched[group.state] += group.items
    open_items = Counter[str]()
    for group in of_all.groups:
        open_items[group.state] += group.items
    for label, items in open_items.items():
        state = _STATE_OF[label]
        why = refusal(verb, state)
        if why is None and wanted.state not in {None, state}:
            why = "it is in another state"
        if why is not None:
            counts[why] += items
        elif not is_capped and items > matched[label]:
            why = _why(verb, state, wanted, until)
            counts[why] += items - matched[label]
    return LeftAlone(counts, is_capped)


def _why(verb: OperationVerb, state: State, wanted: ItemFilter, until: datetime | None) -> str:
    """Return why an item is left alone, in a state to which the verb is applied."""
    if state not in STATES:
        return "it is handed out: an operation on an error leaves that alone"
    if wanted.error:
        return "its last error is another one"
    return _WAITS_AS_LONG if until is not None else WAITS.get(verb, MOVED)
