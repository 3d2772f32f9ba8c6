"""When things fall due: expressions over local time, resolved to instants. No IO, no clock.

A further kind of `when` is one module with one frozen model, added to the union in `when.py`.
"""

from ledger.schedule.cron import Cron
from ledger.schedule.every import Every
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
from ledger.schedule.when import DATED, RECURRING, When, due_for, expand
from ledger.schedule.zones import load_zone, tzdata_version, zone_names

__all__ = [
    "DATED",
    "RECURRING",
    "Cron",
    "Decision",
    "Every",
    "Fold",
    "Gap",
    "Occurrence",
    "Relative",
    "SkipReason",
    "Skipped",
    "When",
    "Window",
    "due_for",
    "expand",
    "load_zone",
    "resolve",
    "tzdata_version",
    "zone_names",
]
