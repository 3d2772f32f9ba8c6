"""A newer tz database: which items to come it moves, shown first, then applied as one change.

The database that decides is the pinned one of this process. What it moves is found from the
definitions, by the code that places items; what was ever handed out stays as it is.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final
from uuid import UUID

from ledger.calendar_change import known_until
from ledger.drafts import ItemDraft
from ledger.errors import BeyondCalendar, DueledgerError
from ledger.materialise.schedule_calendars import Phases, read_phases
from ledger.schedule import AfterCompletion, Relative, due_for, tzdata_version
from ledger.scheduled import Scheduled, draft_occurrences, split_cycle
from ledger.store import Connection
from ledger.store.clock import read_now
from ledger.store.definitions import (
    DefinitionVersion,
    hold_versions,
    list_expanded_ahead,
    read_versions,
)
from ledger.store.findings import find_known_ids
from ledger.store.items import ZonedItem, emit_items, list_zoned_waiting, move_items

_PAGE_ITEMS: Final = 5_000
_PAGE_VERSIONS: Final = 1_000
_VERSIONS_KEPT: Final = 10_000
_SHIFT_MAX: Final = timedelta(days=2)
_SLICE: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Moved:
    """An item that a newer database places elsewhere, or, where `due_at` is None, nowhere.

    Then `skip_reason` says why its definition skips it, if it does.
    """

    id: UUID
    cycle: str
    zone: str
    was: datetime
    was_tzdata: str
    due_at: datetime | None
    decision: str | None
    skip_reason: str | None = None


@dataclass(slots=True)
class ZoneChange:
    """What a newer database changes of one version: what moves, and what is owed besides.

    `failure`: why that cannot be told of all that waits; what cannot be told stays.
    """

    version: DefinitionVersion
    moved: list[Moved] = field(default_factory=list[Moved])
    added: list[ItemDraft] = field(default_factory=list[ItemDraft])
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class _Placed:
    due_at: datetime
    decision: str


@dataclass(slots=True)
class _Rounds:
    """Where each round falls due now, before its smear, by every calendar it may be placed by."""

    placed: defaultdict[str, list[_Placed]] = field(
        default_factory=lambda: defaultdict[str, list[_Placed]](list)
    )
    skipped: dict[str, str] = field(default_factory=dict[str, str])

    def add(self, scheduled: Scheduled) -> None:
        """Take up what is owed in a slice of time by one calendar."""
        for draft in scheduled.drafts:
            at = draft.due_at - timedelta(seconds=draft.smear_seconds or 0)
            self.placed[draft.cycle].append(_Placed(at, draft.decision or ""))
        for skip in scheduled.skipped:
            self.skipped[skip.draft.cycle] = skip.reason


class _Versions:
    """Versions and the calendars that placed their items: the last that were read are kept."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._kept: dict[int, tuple[DefinitionVersion, Phases | str]] = {}

    async def read(self, numbers: Collection[int]) -> list[tuple[DefinitionVersion, Phases | str]]:
        """Read versions by number, in the order asked."""
        missing = [number for number in numbers if number not in self._kept]
        if len(self._kept) + len(missing) > _VERSIONS_KEPT:
            self._kept.clear()
            missing = list(numbers)
        if missing:
            versions = await read_versions(self._connection, missing)
            phases = await read_phases(self._connection, versions)
            self._kept |= {
                each.definition_no: (each, phases[each.definition_no]) for each in versions
            }
        return [self._kept[number] for number in numbers]


async def find_zone_changes(connection: Connection) -> list[ZoneChange]:
    """Compare what waits, and the rounds up to each watermark, with this process's tz database.

    Reads all that waits, a page at a time. A version that cannot be expanded has a `failure`.
    """
    now = await read_now(connection)
    versions = _Versions(connection)
    changes: dict[int, ZoneChange] = {}
    after: int | None = 0
    while after is not None:
        items, after = await list_zoned_waiting(
            connection, tzdata_version(), after, limit=_PAGE_ITEMS
        )
        by_definition: defaultdict[int, list[ZonedItem]] = defaultdict(list)
        for item in items:
            by_definition[item.definition_no].append(item)
        for version, phases in await versions.read(by_definition):
            number = version.definition_no
            change = changes.setdefault(number, ZoneChange(version))
            _find_moved(change, phases, by_definition[number])
    for change in changes.values():
        change.moved.sort(key=lambda each: each.was)
    number, numbers = 0, [0]
    while numbers:
        numbers = await list_expanded_ahead(connection, number, limit=_PAGE_VERSIONS)
        for version, phases in await versions.read(numbers):
            number = version.definition_no
            change = changes.setdefault(number, ZoneChange(version))
            await _find_added(connection, change, phases, now)
    return [each for each in changes.values() if each.moved or each.added or each.failure]


async def apply_zone_change(connection: Connection, change: ZoneChange, *, actor_no: int) -> int:
    """Apply what was found of one version, in one transaction; return how many items changed.

    Idempotent. What has been handed out meanwhile stays as it is. Nothing is done where another
    version was defined meanwhile: then the change has to be found anew.
    """
    version = change.version
    applied = 0
    async with connection.transaction():
        await hold_versions(connection, version.tenant, version.name)
        if await _ends_at(connection, version) != version.superseded_at:
            return 0  # another version was defined meanwhile: what was found is not what is owed
        for first in range(0, len(change.moved), _PAGE_ITEMS):
            part = change.moved[first : first + _PAGE_ITEMS]
            applied += await move_items(
                connection,
                [each.id for each in part],
                [each.due_at for each in part],
                [each.decision for each in part],
                [each.skip_reason for each in part],
                definition_no=version.definition_no,
                tzdata=tzdata_version(),
                actor_no=actor_no,
            )
        for first in range(0, len(change.added), _PAGE_ITEMS):
            emitted = await emit_items(
                connection,
                change.added[first : first + _PAGE_ITEMS],
                actor_no=actor_no,
                definition_no=version.definition_no,
            )
            applied += sum(each.created for each in emitted)
    return applied


async def _ends_at(connection: Connection, version: DefinitionVersion) -> datetime | None:
    (found,) = await read_versions(connection, [version.definition_no])
    return found.superseded_at


def _find_moved(change: ZoneChange, phases: Phases | str, items: Sequence[ZonedItem]) -> None:
    if isinstance(phases, str):
        change.failure = phases
        return
    if isinstance(phases[0][1].when, AfterCompletion):
        return
    try:
        dated = isinstance(phases[0][1].when, Relative)
        rounds, whole = (_Rounds(), False) if dated else _place(phases, items)
    except DueledgerError as error:
        change.failure = str(error)
        return
    for item in items:
        cycle = split_cycle(item.cycle)[0]
        smear = timedelta(seconds=item.smear_seconds or 0)
        placed = _place_dated(phases, item) if dated else rounds.placed.get(cycle, ())
        # A calendar moves by whole days, a tz database by hours: the nearest is by its calendar.
        found = min(placed, key=lambda each: abs(each.due_at + smear - item.due_at), default=None)
        if found is None and not whole:
            change.failure = f"its calendar does not tell of {item.cycle}"
        elif found is None:
            change.moved.append(_moved(item, None, None, rounds.skipped.get(cycle)))
        elif found.due_at + smear != item.due_at:
            change.moved.append(_moved(item, found.due_at + smear, found.decision))


def _moved(
    item: ZonedItem, due_at: datetime | None, decision: str | None, skip_reason: str | None = None
) -> Moved:
    was = item.due_at, item.tzdata
    return Moved(item.id, item.cycle, item.zone, *was, due_at, decision, skip_reason)


def _place(phases: Phases, items: Sequence[ZonedItem]) -> tuple[_Rounds, bool]:
    """Say where rounds near these items fall due now, and whether every day there is known."""
    rounds, whole = _Rounds(), True
    begins = min(item.due_at for item in items) - _SHIFT_MAX
    ends = max(item.due_at for item in items) + _SHIFT_MAX
    for start, end in _slices(begins, ends):
        reached = start
        for _, definition in phases:
            until = known_until(definition, start, end)
            reached = max(reached, until)
            if start < until:
                rounds.add(draft_occurrences(definition, start, until))
        whole = whole and reached == end
    return rounds, whole


def _place_dated(phases: Phases, item: ZonedItem) -> Iterator[_Placed]:
    """Say where an event's item falls due now, by every calendar that there was."""
    for _, definition in phases:
        if isinstance(definition.when, Relative):
            with suppress(BeyondCalendar):
                found = due_for(definition.when, item.effective_date, definition.observance())
                yield _Placed(found.due_at, found.decision.value)


async def _find_added(
    connection: Connection, change: ZoneChange, phases: Phases | str, now: datetime
) -> None:
    """Find rounds that a schedule owes before its watermark, and that no item stands for."""
    version = change.version
    if version.event_type is not None or version.materialised_until is None:
        return
    ends = min(version.materialised_until, version.superseded_at or version.materialised_until)
    begins = max(now, version.effective_from)
    if begins >= ends:
        return
    if isinstance(phases, str):
        change.failure = phases
        return
    bounds = [begins, *(min(max(from_at, begins), ends) for from_at, _ in phases[1:]), ends]
    for (_, definition), (first, last) in zip(phases, pairwise(bounds), strict=True):
        for start, end in _slices(first, last):
            try:
                until = known_until(definition, start, end)
                drafts = draft_occurrences(definition, start, until).drafts
            except DueledgerError as error:
                change.failure = str(error)
                return
            known = await find_known_ids(connection, [draft.id for draft in drafts])
            change.added += [draft for draft in drafts if draft.id.bytes not in known]


def _slices(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    while start < end:
        until = min(start + _SLICE, end)
        yield start, until
        start = until
