"""What a domain team writes: handlers of due items, and the verdicts they answer."""

from workers.handlers import Handlers
from workers.item import DueItem
from workers.running import run_worker
from workers.settings import WorkerSettings
from workers.verdicts import Completed, NotDue, Park, Retry, Snooze, Verdict

__all__ = [
    "Completed",
    "DueItem",
    "Handlers",
    "NotDue",
    "Park",
    "Retry",
    "Snooze",
    "Verdict",
    "WorkerSettings",
    "run_worker",
]
