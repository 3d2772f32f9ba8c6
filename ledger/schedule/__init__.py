"""When things fall due: expressions over local time, resolved to instants. No IO, no clock.

A further kind of `when` is one module with one frozen model, added to the union in `when.py`.
"""

from ledger.schedule.after_completion import AfterCompletion
from ledger.schedule.at import At
from ledger.schedule.business import Business
from ledger.schedule.calendars import Calendar, Roll, Weekday
from ledger.schedule.cron import Cron
from ledger.schedule.every import Every
from ledger.schedule.observance import NO_CALENDARS, CalendarRule, Observance
from ledger.schedule.relative import Relative
from ledger.schedule.resolution import (
    Decision,
    Fold,
    Gap,
    Occurrence,
    Skipped,
    SkipReason,
    Window,
    resolve,
)
from ledger.schedule.rrule import Rrule
from ledger.schedule.when import (
    CHAINED,
    DATED,
    RECURRING,
    Recurring,
    When,
    due_for,
    expand,
)
from ledger.schedule.zones import load_zone, tzdata_version, zone_names

__all__ = [
    "CHAINED",
    "DATED",
    "NO_CALENDARS",
    "RECURRING",
    "AfterCompletion",
    "At",
    "Business",
    "Calendar",
    "CalendarRule",
    "Cron",
    "Decision",
    "Every",
    "Fold",
    "Gap",
    "Observance",
    "Occurrence",
    "Recurring",
    "Relative",
    "Roll",
    "Rrule",
    "SkipReason",
    "Skipped",
    "Weekday",
    "When",
    "Window",
    "due_for",
    "expand",
    "load_zone",
    "resolve",
    "tzdata_version",
    "zone_names",
]
