"""The difference that a newer tz database makes: which pending items it moves, ends or adds.

The newer database is the pinned one of this process. The definitions are expanded with it and
compared with the pending items. Items that were ever handed out do not change.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from dueledger.ledger.definitions.model import Definition
from dueledger.ledger.errors import BeyondCalendar, DueledgerError
from dueledger.ledger.materialise.schedule_calendars import CalendarPeriods, read_calendar_periods
from dueledger.ledger.materialise.version_change import NEWER_VERSION
from dueledger.ledger.materialise.version_expansion import TZ_SHIFT_MAX
from dueledger.ledger.rules.calendar_change import known_until
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.rules.schedule_drafts import (
    draft_occurrences,
    expand_schedule,
    issue_draft,
    skip_reason_of,
    split_issue,
)
from dueledger.ledger.schedule import (
    AfterCompletion,
    Gap,
    Occurrence,
    Relative,
    SkipReason,
    cycle_of,
    due_for,
    tzdata_version,
)
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.definitions import (
    DefinitionVersion,
    list_materialised_ahead,
    read_versions,
)
from dueledger.ledger.store.tz_changes import (
    ItemOfOtherTzdata,
    OccurrenceIssue,
    TzStep,
    TzStepKind,
    find_issues,
    list_items_of_other_tzdata,
)

NEWER_TZDATA: Final = "tzdata"
"""The reason recorded when a newer tz database revises or supersedes an item."""

_PAGE_ITEMS: Final = 5_000
_PAGE_VERSIONS: Final = 1_000
_VERSIONS_KEPT: Final = 10_000
_SLICE: Final = timedelta(days=1)

_PlacedVersion = tuple[DefinitionVersion, CalendarPeriods | str]


@dataclass(frozen=True, slots=True)
class TzDifference:
    """Some of the steps of one version. `failure`: why they are not known for some of its items.

    Those items do not change.
    """

    version: DefinitionVersion
    steps: Sequence[TzStep] = ()
    failure: str | None = None


@dataclass(slots=True)
class _Placed:
    """Occurrences near some items, for each calendar that may have placed them.

    `is_whole`: the calendars know all of these days.
    """

    due: defaultdict[str, list[Occurrence]] = field(
        default_factory=lambda: defaultdict[str, list[Occurrence]](list)
    )
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    is_whole: bool = True


class _VersionCache:
    """Caches the versions read last, with the calendars that placed their items."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._kept: dict[int, _PlacedVersion] = {}

    async def read(self, numbers: Collection[int]) -> list[_PlacedVersion]:
        """Read versions by number, in the order asked."""
        missing = [number for number in numbers if number not in self._kept]
        if len(self._kept) + len(missing) > _VERSIONS_KEPT:
            self._kept.clear()
            missing = list(numbers)
        if missing:
            versions = await read_versions(self._connection, missing)
            periods = await read_calendar_periods(self._connection, versions)
            self._kept |= {one.definition_no: (one, periods[one.definition_no]) for one in versions}
        return [self._kept[number] for number in numbers]


async def find_differences(
    connection: Connection, from_at: datetime | None = None, emitted_until: datetime | None = None
) -> AsyncIterator[TzDifference]:
    """Compare pending items, and occurrences up to each watermark, with this tz database.

    Reads all pending items by page, and yields the steps of each version in a page. Items due
    before `from_at` are left out, and so are those emitted after `emitted_until`.
    """
    now = await read_now(connection)
    begins = now if from_at is None else max(now, from_at)
    versions = _VersionCache(connection)
    after: int | None = 0
    while after is not None:
        items, after = await list_items_of_other_tzdata(
            connection, tzdata_version(), from_at, emitted_until, after, limit=_PAGE_ITEMS
        )
        by_definition: defaultdict[int, list[ItemOfOtherTzdata]] = defaultdict(list)
        for item in items:
            by_definition[item.definition_no].append(item)
        for version, periods in await versions.read(by_definition):
            yield _find_moved(version, periods, by_definition[version.definition_no])
    number, numbers = 0, [0]
    while numbers:
        numbers = await list_materialised_ahead(connection, number, limit=_PAGE_VERSIONS)
        for version, periods in await versions.read(numbers):
            number = version.definition_no
            async for found in _find_added(connection, version, periods, begins):
                yield found


def _find_moved(
    version: DefinitionVersion, periods: CalendarPeriods | str, items: Sequence[ItemOfOtherTzdata]
) -> TzDifference:
    if isinstance(periods, str):
        return TzDifference(version, failure=periods)
    when = periods[0][1].when
    if isinstance(when, AfterCompletion):
        return TzDifference(version)
    try:
        placed = None if isinstance(when, Relative) else _place(periods, items)
    except DueledgerError as error:
        return TzDifference(version, failure=str(error))
    steps: list[TzStep] = []
    failure: str | None = None
    for item in items:
        cycle = split_issue(item.cycle)[0]
        smear = timedelta(seconds=item.smear_seconds or 0)
        times = list(_place_dated(periods, item)) if placed is None else placed.due[cycle]
        # A calendar moves by whole days, a tz database by hours: the nearest is by its calendar.
        found = min(times, key=lambda each: abs(each.due_at + smear - item.due_at), default=None)
        if found is not None:
            if found.due_at + smear != item.due_at:
                step, decision = _step(item, TzStepKind.MOVED), found.decision.value
                steps.append(replace(step, due_at=found.due_at + smear, decision=decision))
        elif placed is None or not placed.is_whole:
            failure = f"its calendar does not cover {item.cycle}"
        elif reason := placed.skipped.get(cycle):
            steps.append(replace(_step(item, TzStepKind.SKIPPED), skip_reason=reason))
        else:
            steps.append(_step(item, TzStepKind.WITHDRAWN))
    return TzDifference(version, steps, failure)


def _step(item: ItemOfOtherTzdata, step: TzStepKind) -> TzStep:
    what = item.id, step, item.cycle, item.zone
    return TzStep(item.due_at, *what, due_at=None, tzdata_before=item.tzdata)


def _place(periods: CalendarPeriods, items: Sequence[ItemOfOtherTzdata]) -> _Placed:
    placed = _Placed()
    begins = min(item.due_at for item in items) - TZ_SHIFT_MAX
    ends = max(item.due_at for item in items) + TZ_SHIFT_MAX
    for start, end in _slices(begins, ends):
        reached = start
        for _, definition in periods:
            until = known_until(definition, start, end)
            reached = max(reached, until)
            window = expand_schedule(definition, start, until)
            for each in window.occurrences:
                placed.due[cycle_of(each.nominal, each.decision)].append(each)
            for skip in window.skipped:
                placed.skipped[cycle_of(skip.nominal, skip.decision)] = skip_reason_of(skip)
        placed.is_whole &= reached == end
    return placed


def _place_dated(periods: CalendarPeriods, item: ItemOfOtherTzdata) -> Iterator[Occurrence]:
    """Yield when an event rule's item is due now, by each version of its calendar."""
    for _, definition in periods:
        if isinstance(definition.when, Relative):
            with suppress(BeyondCalendar):
                yield due_for(definition.when, item.effective_date, definition.observance())


async def _find_added(
    connection: Connection,
    version: DefinitionVersion,
    periods: CalendarPeriods | str,
    begins: datetime,
) -> AsyncIterator[TzDifference]:
    """Find occurrences that a schedule owes before its watermark and that have no item."""
    if version.event_type is not None or version.materialised_until is None:
        return
    ends = min(version.materialised_until, version.superseded_at or version.materialised_until)
    begins = max(begins, version.effective_from)
    if begins >= ends:
        return
    if isinstance(periods, str):
        yield TzDifference(version, failure=periods)
        return
    bounds = [begins, *(min(max(from_at, begins), ends) for from_at, _ in periods[1:]), ends]
    for (_, definition), (first, last) in zip(periods, pairwise(bounds), strict=True):
        for start, end in _slices(first, last):
            try:
                until = known_until(definition, start, end)
                drafts = draft_occurrences(definition, start, until).drafts
            except DueledgerError as error:
                yield TzDifference(version, failure=str(error))
                return
            owed = await _find_missing_issues(connection, version, definition, drafts)
            yield TzDifference(version, [_added(draft) for draft in owed])


async def _find_missing_issues(
    connection: Connection,
    version: DefinitionVersion,
    definition: Definition,
    drafts: Sequence[ItemDraft],
) -> list[ItemDraft]:
    """Return the next issue of each occurrence without an item: the first, if there is none."""
    owed: list[ItemDraft] = []
    left, number = list(drafts), 1
    while left:
        ids = [issue_draft(draft, number).id for draft in left]
        known = await find_issues(connection, ids)
        ended: list[ItemDraft] = []
        for draft, identity in zip(left, ids, strict=True):
            issue = known.get(identity.bytes)
            if issue is None:
                owed.append(issue_draft(draft, number))
            elif _ended_by_older_rules(issue, definition) or (
                issue.definition_no != version.definition_no and _is_elsewhere(issue, draft)
            ):
                ended.append(draft)
        left, number = ended, number + 1
    return owed


def _is_elsewhere(issue: OccurrenceIssue, draft: ItemDraft) -> bool:
    """Return whether an older version's issue has the nominal time at another instant.

    In the same zone, another tz database may have moved the same occurrence.
    """
    moved = issue.occurs_at is not None and issue.occurs_at != draft.occurs_at
    return moved and (issue.zone != draft.zone or issue.tzdata == draft.tzdata)


def _ended_by_older_rules(issue: OccurrenceIssue, definition: Definition) -> bool:
    """Return whether an issue was ended by an older version or by another tz database.

    A gap counts if this version skips gaps of the same zone too: an occurrence that an older
    version skipped under other terms stays skipped. A merge counts in the same zone.
    """
    if issue.event == TransitionEvent.SUPERSEDED and issue.reason == NEWER_VERSION:
        return True
    if issue.tzdata == tzdata_version():
        return False
    if issue.event == TransitionEvent.SUPERSEDED:
        return issue.reason == NEWER_TZDATA
    when = definition.when
    if issue.event != TransitionEvent.SKIPPED or getattr(when, "timezone", None) != issue.zone:
        return False
    skips_gaps = getattr(when, "gap", None) is Gap.SKIP
    return issue.reason == SkipReason.MERGED or (issue.reason == SkipReason.GAP and skips_gaps)


def _added(draft: ItemDraft) -> TzStep:
    what = draft.id, TzStepKind.ADDED, draft.cycle, draft.zone or "UTC"
    return TzStep(draft.due_at, *what, draft.due_at, draft.decision, draft=draft)


def _slices(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    while start < end:
        until = min(start + _SLICE, end)
        yield start, until
        start = until
