"""What falls between two versions of a calendar where one takes over from the other. Pure.

Up to an instant a schedule was expanded by the one, from then on by the next. What the next rolls
to before that instant, and the one before had rolled to after it, neither stretch holds.
"""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from dueledger.ledger.definitions.model import Definition
from dueledger.ledger.errors import BeyondCalendar
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.rules.schedule_drafts import draft_occurrences, draft_window, expand_schedule
from dueledger.ledger.schedule import (
    RECURRING,
    Business,
    Calendar,
    Observance,
    Occurrence,
    Recurring,
    Roll,
    ScheduleWindow,
    load_zone,
    resolve,
)
from dueledger.ledger.schedule.calendars import Beyond
from dueledger.ledger.schedule.expansion import TIMES_MAX
from dueledger.ledger.schedule.observance import roll_days_max
from dueledger.ledger.schedule.resolution import SCAN_MARGIN
from dueledger.ledger.schedule.when import DUE_END, DUE_MIN

_MONTH_MAX: Final = timedelta(days=31)
_DAY: Final = timedelta(days=1)


def change_reach(definition: Definition, before: Calendar) -> timedelta:
    """Return how far from the instant of a change the same occurrence may stand on either side."""
    observance = definition.observance()
    if observance is None:
        return timedelta()
    rolls = (
        roll_days_max(Observance(each, Roll.NEAREST)) for each in (before, observance.calendar)
    )
    return sum(rolls, start=SCAN_MARGIN + _MONTH_MAX)


def drafts_moved_before(
    definition: Definition,
    before: Calendar,
    since: datetime,
    at: datetime,
    *,
    times_max: int = TIMES_MAX,
) -> list[ItemDraft]:
    """Return what a schedule owes in [since, at) that it was to owe at `at` or later before.

    It was expanded by `before` up to `at`, and is by its own calendar from then on. Raises
    BeyondCalendar where its own does not reach back so far, WindowTooLarge as `expand` does.
    """
    when, observance = definition.when, definition.observance()
    if observance is None or not isinstance(when, RECURRING):
        return []
    low = max(since, at - change_reach(definition, before))
    if isinstance(when, Business) and when.business.nth is not None:
        found = expand_schedule(definition, low, at).occurrences
        if not found:
            return []
        earlier = expand_schedule(definition.with_calendar({before.name: before}), low, at)
        done = [_month(each) for each in earlier.occurrences]
        late = [each for each in found if _month(each) not in done]
    else:
        roll = (when.business.roll if isinstance(when, Business) else None) or observance.roll
        if roll is Roll.SKIP:
            return []
        low = max(low, _nearest_from(before, observance.calendar, at))
        found = expand_schedule(definition, low, at, times_max=times_max).occurrences
        late = [each for each in found if _due_by(each, when, Observance(before, roll)) >= at]
    return draft_window(definition, ScheduleWindow(tuple(late), ()), at).drafts if late else []


def calendar_ends(definition: Definition) -> list[datetime]:
    """Return up to where a schedule can be expanded by its calendar, the latest guess first.

    Its last day may be in doubt where a day beyond is rolled back to it, and its last month where
    business days are counted.
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
    """Return `end`, or as far before it as the definition's calendar tells what is owed."""
    if not isinstance(definition.when, RECURRING):
        return end
    for known in (end, *(known for known in calendar_ends(definition) if start < known < end)):
        with suppress(BeyondCalendar):
            draft_occurrences(definition, start, known)
            return known
    return start


def _nearest_from(before: Calendar, after: Calendar, at: datetime) -> datetime:
    """Return the earliest instant to which `after` rolls what `before` rolls to `at` or later.

    No roll passes a business day: it is as far as the closed days of both reach back.
    """
    day = (at - SCAN_MARGIN).astimezone(UTC).date()
    if before.last_day is not None:  # what nobody knew then counts as later
        day = min(day, before.last_day)
    for calendar in (before, after):
        day = calendar.source_days(day, day)[0]
    return datetime(day.year, day.month, day.day, tzinfo=UTC) - _DAY - SCAN_MARGIN


def _due_by(found: Occurrence, when: Recurring, before: Observance) -> datetime:
    """Return when another calendar has the same occurrence; the end of time where it never said."""
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
