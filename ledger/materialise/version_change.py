"""A newer version takes over from the ones before it: in one stretch of time, in one transaction.

What both owe alike has the same identity: its item stays, under the newer terms. What only the
older ones owe ends as Superseded. Neither touches what was ever handed out. A round that was
ended so and is owed again, because a version was taken back or another definition has its business
key now, is issued anew: what has ended never changes. A round that stands as another definition's
is lost to this one, and that is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from dueledger.ledger.errors import InvalidItem, Problem, shown_value
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.rules.schedule_drafts import issue_draft
from dueledger.ledger.store import Connection
from dueledger.ledger.store.findings import find_known_ids
from dueledger.ledger.store.items import RevisionResult, emit_items, revise_items, skip_items
from dueledger.ledger.store.schedule_keys import find_shared_occurrences

NEWER_VERSION: Final = "version"
"""Why an item is revised or superseded when a version takes over."""


@dataclass(frozen=True, slots=True)
class OwedOccurrence:
    """What a version owes of a round: an item, or a record that it is skipped, and why.

    Where an item of the same round stands, no more than what was due at `since` or later is
    touched; None touches nothing, as nothing of another version can stand there.
    """

    definition_no: int
    draft: ItemDraft
    since: datetime | None
    skip_reason: str | None = None


@dataclass(frozen=True, slots=True)
class EmittedOccurrence:
    """The item of a round as it stands now. `revised`: it stood before, under other terms."""

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
    """Emit rounds, or let the newer terms hold for what waits of them; in input order.

    All are items, or all are skipped. A round whose every issue was superseded by a version is
    issued once more; of one that a tz database ended and that was issued again, the last issue
    counts. Repeating it is harmless. Raises InvalidItem where a round stands as an item of another
    definition.
    """
    issued: dict[int, EmittedOccurrence] = {}
    left, issue = list(range(len(owed))), 1
    while left:
        drafts = [issue_draft(owed[place].draft, issue) for place in left]
        rounds = [owed[place] for place in left]
        created = await _emit(connection, drafts, rounds, actor_no)
        for place, draft, new in zip(left, drafts, created, strict=True):
            issued[place] = EmittedOccurrence(draft, new)
        stand = [place for place, new in zip(left, created, strict=True) if not new]
        ended = set(await _find_withdrawn(connection, owed, issued, stand))
        own = [place for place in stand if owed[place].since is not None and place not in ended]
        answers = await _revise(connection, owed, issued, own, actor_no=actor_no, reason=reason)
        issue += 1
        begun = [place for place in own if answers[place] is RevisionResult.BEGUN]
        ended.update(place for place in own if answers[place] is RevisionResult.SUPERSEDED)
        left = sorted([*ended, *await _find_existing_issues(connection, owed, begun, issue)])
    return [issued[place] for place in range(len(owed))]


async def _emit(
    connection: Connection, drafts: list[ItemDraft], rounds: list[OwedOccurrence], actor_no: int
) -> list[bool]:
    definition_nos = [each.definition_no for each in rounds]
    reasons = [each.skip_reason for each in rounds if each.skip_reason is not None]
    if reasons:
        answers = await skip_items(
            connection, drafts, reasons, actor_no=actor_no, definition_nos=definition_nos
        )
    else:
        answers = await emit_items(
            connection, drafts, actor_no=actor_no, definition_nos=definition_nos
        )
    return [answer.created for answer in answers]


async def _find_withdrawn(
    connection: Connection,
    owed: Sequence[OwedOccurrence],
    issued: Mapping[int, EmittedOccurrence],
    places: Sequence[int],
) -> list[int]:
    """Return the places whose issue another definition withdrew; refuse those it has not."""
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
            reason = f"with this key the round {draft.cycle} is an item of {each.name} already"
            key = Problem(
                "business_key", shown_value(draft.business_key), reason, "a key of its own"
            )
            raise InvalidItem(f"{draft.definition_name} lacks a round:", [key])
    return [places[each.index] for each in shared]


async def _find_existing_issues(
    connection: Connection, owed: Sequence[OwedOccurrence], places: Sequence[int], issue: int
) -> list[int]:
    """Return the places of which this issue stands, and so the one before has ended."""
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
    """Revise what stands; return the answer for each place."""
    since = [each for place in places if (each := owed[place].since) is not None]
    answers = await revise_items(
        connection,
        [issued[place].draft for place in places],
        definition_nos=[owed[place].definition_no for place in places],
        since=since,
        reason=reason,
        actor_no=actor_no,
        skip_reasons=[owed[place].skip_reason for place in places],
    )
    for place, answer in zip(places, answers, strict=True):
        if answer is RevisionResult.REVISED:
            issued[place] = replace(issued[place], revised=True)
    return dict(zip(places, answers, strict=True))
