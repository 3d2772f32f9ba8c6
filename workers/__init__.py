"""What a domain team writes: handlers of due items, and the verdicts they answer."""

from workers.handlers import Handlers
from workers.item import DueItem
from workers.settings import WorkerSettings
from workers.verdicts import Completed, NotDue, Park, Retry, Snooze, Verdict
from workers.worker import run_worker

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
