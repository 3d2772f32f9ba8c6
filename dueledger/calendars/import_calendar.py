"""Put a calendar into the ledger: its changes, the definitions concerned, the next version."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from dueledger.calendars.diff import CalendarDifference, compare
from dueledger.calendars.source_calendar import SourceCalendar
from dueledger.ledger.definitions.calendar_document import CalendarDocument
from dueledger.ledger.errors import InvalidInput
from dueledger.ledger.store import Connection
from dueledger.ledger.store.calendar_cache import parse_stored
from dueledger.ledger.store.calendars import (
    CalendarDefinition,
    CalendarRow,
    count_items_on_days,
    find_calendar_version,
    list_calendar_definitions,
    put_calendar,
)
from dueledger.ledger.store.clock import read_now

DEFINITIONS_MAX: Final = 1_000
ITEMS_MAX: Final = 10_000
_DAYS_MAX: Final = 2_000
_AROUND: Final = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class AffectedDefinition:
    """A definition that names the calendar, and the number of its future items on changed days."""

    definition: CalendarDefinition
    items_on_changed_days: int


@dataclass(frozen=True, slots=True)
class CalendarImport:
    """The result. `version` is the newest version, or the next one if `applied` is False.

    `counted_all` is False if changed days may have more items than were counted.
    """

    tenant: str
    name: str
    version: int
    changed: bool
    applied: bool
    document: CalendarDocument
    difference: CalendarDifference | None
    concerned: tuple[AffectedDefinition, ...]
    counted_all: bool


async def import_calendar(
    connection: Connection,
    found: SourceCalendar,
    *,
    tenant: str,
    name: str,
    actor_no: int | None,
    counts_items: bool = True,
) -> CalendarImport:
    """Put a calendar's next version if it differs from the newest. Without an actor, only compare.

    Without `counts_items`, which reads all items of the days, those on changed days are not known.
    Existing items do not change. The version is used for occurrences not materialised yet.
    """
    async with connection.transaction():
        row = await find_calendar_version(connection, tenant, name)
        old = None if row is None else _known_document(row)
        changed = old is None or old.normalised() != found.document.normalised()
        difference = None if old is None else compare(old, found.document)
        version = (0 if row is None else row.version) + changed
        definitions = await list_calendar_definitions(
            connection, tenant, name, limit=DEFINITIONS_MAX
        )
        items_on_changed_days = {}
        if difference is not None and difference.changed_days and counts_items:
            items_on_changed_days = await _count_items(
                connection, definitions, difference.changed_days
            )
        if changed and actor_no is not None:
            put = await put_calendar(
                connection,
                found.document.normalised(),
                tenant=tenant,
                name=name,
                valid_to=found.document.last_day,
                source=found.source,
                actor_no=actor_no,
            )
            version, changed = put.version, put.changed
    return CalendarImport(
        tenant,
        name,
        version,
        changed,
        changed and actor_no is not None,
        found.document,
        difference,
        tuple(
            AffectedDefinition(each, items_on_changed_days.get(each.definition_no, 0))
            for each in definitions
        ),
        counts_items
        and sum(items_on_changed_days.values()) < ITEMS_MAX
        and len(definitions) < DEFINITIONS_MAX,
    )


def changes_document(difference: CalendarDifference) -> dict[str, object]:
    """Return the changes between two versions as a document."""
    (first, last), (new_first, new_last) = difference.range
    return {
        "added": [{"day": one.day, "name": one.name} for one in difference.added],
        "removed": [{"day": one.day, "name": one.name} for one in difference.removed],
        "workdays_added": difference.workdays_added,
        "workdays_removed": difference.workdays_removed,
        "renamed": difference.renamed,
        "weekend": difference.weekend,
        "range": {"from": [first, last], "to": [new_first, new_last]},
        "changed_days": difference.changed_days,
    }


def _known_document(row: CalendarRow) -> CalendarDocument | None:
    """Return what the import is compared with; None if the stored version cannot be read."""
    try:
        return parse_stored(row)
    except InvalidInput:
        return None


async def _count_items(
    connection: Connection, definitions: Sequence[CalendarDefinition], turned: Sequence[date]
) -> dict[int, int]:
    today = (await read_now(connection)).date()
    days = [day for day in turned if day >= today - _AROUND][:_DAYS_MAX]
    if not definitions or not days:
        return {}
    between = _midnight(days[0] - _AROUND), _midnight(days[-1] + _AROUND)
    numbers = [each.definition_no for each in definitions]
    return await count_items_on_days(connection, numbers, days, between, ITEMS_MAX)


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
