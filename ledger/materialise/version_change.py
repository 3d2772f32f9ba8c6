"""Replacement of older versions by a newer one, one window at a time, in one transaction.

An occurrence of both has the same identity: its item stays, with the newer terms. Items that only
older versions have are superseded. Items that were ever handed out do not change. An occurrence
gets a new issue if it was withdrawn and is expected again (a version was taken back, or another
definition has its business key now), if older terms skipped it, or if an item that cannot change
has its nominal time at another instant (the zone is another one): an ended item never changes. An
occurrence that is an item of another definition is rejected, because this one would lose it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from dueledger.ledger.errors import InvalidItem, Problem, shown_value
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.rules.schedule_drafts import issue_draft
from dueledger.ledger.store import Connection
from dueledger.ledger.store.items import (
    RevisionResult,
    emit_items,
    find_known_ids,
    revise_items,
    skip_items,
)
from dueledger.ledger.store.schedule_keys import find_shared_occurrences

NEWER_VERSION: Final = "version"
"""The reason recorded when a newer version revises or supersedes an item."""


@dataclass(frozen=True, slots=True)
class OwedOccurrence:
    """An occurrence of a version: an item, or a skip with its reason.

    An existing item of the occurrence is revised only if an older version made it and it is due at
    `since` or later.
    """

    definition_no: int
    draft: ItemDraft
    since: datetime
    skip_reason: str | None = None


@dataclass(frozen=True, slots=True)
class EmittedOccurrence:
    """The item of an occurrence. `revised`: it existed before, with other terms."""

    draft: ItemDraft
    created: bool
    revised: bool = False


async def emit_or_revise(
    connection: Connection,
    owed: Sequence[OwedOccurrence],
    *,
    actor_no: int,
    reason: str = NEWER_VERSION,
) -> list[EmittedOccurrence]:
    """Emit occurrences, or revise their pending items; return them in input order.

    All are items, or all are skips. If no issue is this occurrence, it gets a new one. Of an
    occurrence that is skipped again, the last issue counts. Repeating it changes nothing. Raises
    InvalidItem if an occurrence is an item of another definition.
    """
    issued: dict[int, EmittedOccurrence] = {}
    left, issue = list(range(len(owed))), 1
    while left:
        drafts = [issue_draft(owed[place].draft, issue) for place in left]
        occurrences = [owed[place] for place in left]
        created = await _emit(connection, drafts, occurrences, actor_no)
        for place, draft, new in zip(left, drafts, created, strict=True):
            issued[place] = EmittedOccurrence(draft, new)
        existing = [place for place, new in zip(left, created, strict=True) if not new]
        ended = set(await _find_withdrawn(connection, owed, issued, existing))
        own = [place for place in existing if place not in ended]
        results = await _revise(connection, owed, issued, own, actor_no=actor_no, reason=reason)
        issue += 1
        skipped = [place for place in own if results[place] is RevisionResult.SKIPPED]
        ended.update(place for place in own if results[place] is RevisionResult.NEXT)
        left = sorted([*ended, *await _find_existing_issues(connection, owed, skipped, issue)])
    return [issued[place] for place in range(len(owed))]


async def _emit(
    connection: Connection,
    drafts: list[ItemDraft],
    occurrences: list[OwedOccurrence],
    actor_no: int,
) -> list[bool]:
    definition_nos = [each.definition_no for each in occurrences]
    reasons = [each.skip_reason for each in occurrences if each.skip_reason is not None]
    if reasons:
        results = await skip_items(
            connection, drafts, reasons, actor_no=actor_no, definition_nos=definition_nos
        )
    else:
        results = await emit_items(
            connection, drafts, actor_no=actor_no, definition_nos=definition_nos
        )
    return [result.created for result in results]


async def _find_withdrawn(
    connection: Connection,
    owed: Sequence[OwedOccurrence],
    issued: Mapping[int, EmittedOccurrence],
    places: Sequence[int],
) -> list[int]:
    """Return the indexes whose issue another definition superseded; raise for other shared ones."""
    if not places:
        return []
    drafts = [issued[place].draft for place in places]
    shared = await find_shared_occurrences(
        connection,
        [draft.id for draft in drafts],
        [draft.effective_date for draft in drafts],
        [owed[place].definition_no for place in places],
    )
    for each in shared:
        if not each.superseded:
            draft = drafts[each.index]
            reason = f"with this key, occurrence {draft.cycle} is an item of {each.name} already"
            key = Problem(
                "business_key", shown_value(draft.business_key), reason, "a key of its own"
            )
            raise InvalidItem(f"{draft.definition_name} would lose an occurrence:", [key])
    return [places[each.index] for each in shared]


async def _find_existing_issues(
    connection: Connection, owed: Sequence[OwedOccurrence], places: Sequence[int], issue: int
) -> list[int]:
    """Return the indexes whose issue exists, so that the issue before it has ended."""
    if not places:
        return []
    ids = [issue_draft(owed[place].draft, issue).id for place in places]
    known = await find_known_ids(connection, ids)
    return [place for place, identity in zip(places, ids, strict=True) if identity.bytes in known]


async def _revise(
    connection: Connection,
    owed: Sequence[OwedOccurrence],
    issued: dict[int, EmittedOccurrence],
    places: list[int],
    *,
    actor_no: int,
    reason: str,
) -> dict[int, RevisionResult | None]:
    """Revise existing items; return the result for each index."""
    results = await revise_items(
        connection,
        [issued[place].draft for place in places],
        definition_nos=[owed[place].definition_no for place in places],
        since=[owed[place].since for place in places],
        reason=reason,
        actor_no=actor_no,
        skip_reasons=[owed[place].skip_reason for place in places],
    )
    for place, result in zip(places, results, strict=True):
        if result is RevisionResult.REVISED:
            issued[place] = replace(issued[place], revised=True)
    return dict(zip(places, results, strict=True))
