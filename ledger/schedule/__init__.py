"""Schedule expressions: local times, resolved to instants. No IO, no clock.

To add a kind of `when`: see `when.py`.
"""

from dueledger.ledger.schedule.after_completion import AfterCompletion
from dueledger.ledger.schedule.at import At
from dueledger.ledger.schedule.business import Business
from dueledger.ledger.schedule.calendars import Calendar, Roll, Weekday
from dueledger.ledger.schedule.cron import Cron
from dueledger.ledger.schedule.every import Every
from dueledger.ledger.schedule.observance import NO_CALENDARS, CalendarRule, Observance
from dueledger.ledger.schedule.relative import Relative
from dueledger.ledger.schedule.resolution import (
    Decision,
    Fold,
    Gap,
    Occurrence,
    OccurrenceColumns,
    ScheduleWindow,
    Skipped,
    SkipReason,
    cycle_of,
    resolve,
)
from dueledger.ledger.schedule.rrule import Rrule
from dueledger.ledger.schedule.when import (
    CHAINED,
    DATED,
    RECURRING,
    Recurring,
    When,
    due_for,
    expand,
)
from dueledger.ledger.schedule.zones import load_zone, tzdata_version, zone_names

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
    "OccurrenceColumns",
    "Recurring",
    "Relative",
    "Roll",
    "Rrule",
    "ScheduleWindow",
    "SkipReason",
    "Skipped",
    "Weekday",
    "When",
    "cycle_of",
    "due_for",
    "expand",
    "load_zone",
    "resolve",
    "tzdata_version",
    "zone_names",
]
