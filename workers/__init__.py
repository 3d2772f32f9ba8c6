"""What a domain team writes: handlers of due items, and the verdicts they answer."""

from dueledger.workers.handlers import Handlers
from dueledger.workers.item import DueItem
from dueledger.workers.process import run_worker
from dueledger.workers.settings import WorkerSettings
from dueledger.workers.verdicts import Completed, NotDue, Park, Retry, Snooze, Verdict

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
