"""Dueledger: was it due, was it claimed, did it happen, and if not, why.

The public names for domain teams. They resolve on first use (PEP 562), so no command pays for them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dueledger.emission import Emitted, NewItem, emit, emit_sync
    from dueledger.ledger.store.connection import Connection
    from dueledger.workers.embedded import worker
    from dueledger.workers.handlers import Handlers
    from dueledger.workers.item import DueItem
    from dueledger.workers.verdicts import Completed, NotDue, Park, Retry, Snooze, Verdict

__version__: Final = "0.1.0"

__all__ = [
    "Completed",
    "Connection",
    "DueItem",
    "Emitted",
    "Handlers",
    "NewItem",
    "NotDue",
    "Park",
    "Retry",
    "Snooze",
    "Verdict",
    "__version__",
    "emit",
    "emit_sync",
    "worker",
]

_NOT_VERDICTS: Final = {
    "Connection": "dueledger.ledger.store.connection",
    "DueItem": "dueledger.workers.item",
    "Emitted": "dueledger.emission",
    "Handlers": "dueledger.workers.handlers",
    "NewItem": "dueledger.emission",
    "emit": "dueledger.emission",
    "emit_sync": "dueledger.emission",
    "worker": "dueledger.workers.embedded",
}


def __getattr__(name: str) -> object:
    """Import the module that has a public name, and keep the name here."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(_NOT_VERDICTS.get(name, "dueledger.workers.verdicts"))
    found: object = getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Return the public names too, resolved or not."""
    return sorted({*globals(), *__all__})
