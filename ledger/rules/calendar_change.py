"""Find occurrences lost between two versions of a calendar where one replaces the other. Pure.

A schedule is expanded by the old version up to an instant, and by the new version from it. An
occurrence that the new version rolls to before the instant, and the old one to after it, is in
neither window.
"""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from dueledger.ledger.definitions.model import Definition
from dueledger.ledger.errors import BeyondCalendar
from dueledger.ledger.rules.schedule_drafts import (
    ScheduleDrafts,
    draft_occurrences,
    draft_window,
    expand_schedule,
)
from dueledger.ledger.schedule import (
    RECURRING,
    Business,
    Calendar,
    Observance,
    Occurrence,
    Recurring,
    Roll,
    ScheduleWindow,
    Skipped,
    load_zone,
    resolve,
)
from dueledger.ledger.schedule.calendars import Beyond
from dueledger.ledger.schedule.observance import roll_days_max
from dueledger.ledger.schedule.resolution import SCAN_MARGIN
from dueledger.ledger.schedule.when import DUE_END, DUE_MIN

_MONTH_MAX: Final = timedelta(days=31)
_DAY: Final = timedelta(days=1)


def change_reach(definition: Definition, before: Calendar) -> timedelta:
    """Return how far before and after the change's instant one occurrence can be rolled."""
    observance = definition.observance()
    if observance is None:
        return timedelta()
    rolls = (
        roll_days_max(Observance(each, Roll.NEAREST)) for each in (before, observance.calendar)
    )
    return sum(rolls, start=SCAN_MARGIN + _MONTH_MAX)


def drafts_moved_before(
    definition: Definition, before: Calendar, since: datetime, at: datetime
) -> ScheduleDrafts:
    """Return what is due in [since, at) now that the old calendar had due at `at` or later.

    The schedule was expanded by `before` up to `at`, and by its own calendar from then on. Raises
    BeyondCalendar if its own calendar does not go back so far, WindowTooLarge as `expand` does.
    """
    when, observance = definition.when, definition.observance()
    if observance is None or not isinstance(when, RECURRING):
        return ScheduleDrafts([], [])
    low = max(since, at - change_reach(definition, before))
    if isinstance(when, Business) and when.business.nth is not None:
        found = expand_schedule(definition, low, at).occurrences
        if not found:
            return ScheduleDrafts([], [])
        earlier = expand_schedule(definition.with_calendar({before.name: before}), low, at)
        done = [_month(each) for each in earlier.occurrences]
        late = ScheduleWindow(tuple(each for each in found if _month(each) not in done), ())
    else:
        roll = (when.business.roll if isinstance(when, Business) else None) or observance.roll
        if roll is Roll.SKIP:
            return ScheduleDrafts([], [])
        low = max(low, _nearest_from(before, observance.calendar, at))
        window = expand_schedule(definition, low, at)
        old = Observance(before, roll)
        late = ScheduleWindow(
            tuple(each for each in window.occurrences if _due_by(each, when, old) >= at),
            tuple(each for each in window.skipped if _due_by(each, when, old) >= at),
        )
    return draft_window(definition, late, at)


def calendar_ends(definition: Definition) -> list[datetime]:
    """Return the ends up to which the calendar may allow an expansion, the latest first.

    The last day is uncertain if a later day may roll back to it, and the last month if business
    days are counted.
    """
    observance = definition.observance()
    if observance is None or observance.calendar.last_day is None:
        return []
    zone = load_zone(getattr(definition.when, "timezone", "UTC"))
    beyond = observance.calendar.last_day + _DAY
    last = observance.calendar.last_known_business_day(Beyond.AFTER)
    days = {beyond, beyond.replace(day=1), last or beyond}
    return [
        datetime(day.year, day.month, day.day, tzinfo=zone) for day in sorted(days, reverse=True)
    ]


def known_until(definition: Definition, start: datetime, end: datetime) -> datetime:
    """Return `end`, or the last instant before it up to which the calendar is known."""
    if not isinstance(definition.when, RECURRING):
        return end
    for known in (end, *(known for known in calendar_ends(definition) if start < known < end)):
        with suppress(BeyondCalendar):
            draft_occurrences(definition, start, known)
            return known
    return start


def _nearest_from(before: Calendar, after: Calendar, at: datetime) -> datetime:
    """Return the earliest instant to which `after` rolls what `before` rolls to `at` or later.

    No roll passes a business day, so only the closed days of both calendars count.
    """
    day = (at - SCAN_MARGIN).astimezone(UTC).date()
    if before.last_day is not None:  # unknown then: counts as later
        day = min(day, before.last_day)
    for calendar in (before, after):
        day = calendar.source_days(day, day)[0]
    return datetime(day.year, day.month, day.day, tzinfo=UTC) - _DAY - SCAN_MARGIN


def _due_by(found: Occurrence | Skipped, when: Recurring, before: Observance) -> datetime:
    """Return when `before` has the same occurrence due; DUE_END or DUE_MIN if it is not known."""
    day = before.calendar.roll(found.nominal.date(), before.roll)
    if isinstance(day, Beyond):
        return DUE_END if day is Beyond.AFTER else DUE_MIN
    ruling = when.ruling
    there = resolve(
        datetime.combine(day, found.nominal.time()), ruling.zone, ruling.gap, ruling.fold
    )
    return min((each.due_at for each in there if isinstance(each, Occurrence)), default=DUE_MIN)


def _month(found: Occurrence) -> tuple[int, int]:
    return found.nominal.year, found.nominal.month
