"""What the version and the event that an item names make of it: the terms that it should have."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from typing import Final

from dueledger.ledger.errors import InvalidInput, WindowTooLarge
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.rules.event_issues import first_cycle
from dueledger.ledger.rules.schedule_drafts import issue_draft, split_issue
from dueledger.ledger.store import Connection, Record, reconciled_rows
from dueledger.reconciler.compared_items import ExpectedItem
from dueledger.reconciler.expect.events import draft_effects
from dueledger.reconciler.expect.item_terms import instant_of
from dueledger.reconciler.expect.schedules import drafts_moved_before_change, schedule_drafts
from dueledger.reconciler.expect.versions import DefinitionSpan
from dueledger.reconciler.read_ahead import run_beside

_ZONES_APART_MAX: Final = timedelta(hours=26)
"""No two zones have one local time further apart."""

Named = Sequence[tuple[ExpectedItem, Record]]
"""Items: as some source expects each, and its row of ``list_item_terms``."""


async def list_named_drafts(
    connection: Connection, versions: Mapping[int, DefinitionSpan], items: Named
) -> dict[int, list[ItemDraft]]:
    """Return, by item number, what the version and the event that its row names make of it.

    More than one where the calendar of the version changed; none where they owe no such item.
    """
    found: defaultdict[int, list[ItemDraft]] = defaultdict(list)
    scheduled: list[tuple[int, DefinitionSpan, ExpectedItem]] = []
    by_event: defaultdict[int, list[tuple[ExpectedItem, Record]]] = defaultdict(list)
    for expected, row in items:
        version = versions.get(row["definition_no"])
        if version is None or version.key != (expected.tenant, expected.kind):
            continue
        if row["event_no"] is not None:
            by_event[row["event_no"]].append((expected, row))
            continue
        scheduled.append((row["item_no"], version, expected))
    found |= await run_beside(
        lambda: {number: _scheduled_drafts(version, each) for number, version, each in scheduled}
    )
    events = await reconciled_rows.list_numbered_events(connection, sorted(by_event))
    for event in events:
        for expected, row in by_event[event["event_no"]]:
            version = versions[row["definition_no"]]
            found[row["item_no"]] += _implied_drafts(version, event, expected)
    return found


def _scheduled_drafts(version: DefinitionSpan, expected: ExpectedItem) -> list[ItemDraft]:
    own = [
        each.due_microseconds
        for each in (expected, *map(ExpectedItem._make, expected.later))
        if each.definition_no == version.definition_no
    ]
    if own:
        return [draft for due in own for draft in _drafts_at(version, expected, due, timedelta())]
    # Where only the zone changed, the occurrence is due at another time: two days of a schedule
    # of each second take a second to expand, so it is looked for at the same time first.
    due = expected.due_microseconds
    apart = (_ZONES_APART_MAX,) if version.periods else (timedelta(), _ZONES_APART_MAX)
    for around in apart:
        if found := list(_drafts_at(version, expected, due, around)):
            return found
    return []


def _drafts_at(
    version: DefinitionSpan, expected: ExpectedItem, due_microseconds: int, around: timedelta
) -> Iterator[ItemDraft]:
    """Yield what a version makes of an item's occurrence that is due about then."""
    cycle, issue = split_issue(expected.cycle)
    start = instant_of(due_microseconds) - (version.definition.smear or timedelta()) - around
    end = instant_of(due_microseconds + 1) + around
    moved = (drafts_moved_before_change(version, period) for period in version.periods)
    try:
        for draft, _ in chain(schedule_drafts(version, start, end), *moved):
            if draft.cycle == cycle and draft.business_key == expected.business_key:
                yield issue_draft(draft, issue)
    except (InvalidInput, WindowTooLarge):
        return  # the version is a finding of its own


def _implied_drafts(
    version: DefinitionSpan, event: Record, expected: ExpectedItem
) -> Iterator[ItemDraft]:
    cycle = first_cycle(expected.cycle)
    definitions = {
        id(definition): definition
        for definition in (
            version.definition_at(event["received_at"]),
            *(period.definition for period in version.periods),
        )
    }
    for definition in definitions.values():
        for effect in draft_effects(version.definition_no, definition, event, Counter()):
            draft = effect.draft
            if draft is not None and (draft.business_key, draft.cycle) == (
                expected.business_key,
                cycle,
            ):
                yield replace(draft, cycle=expected.cycle)
