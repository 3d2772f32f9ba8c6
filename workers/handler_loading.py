"""Load handlers by name: for `dueledger work`, and for the process that isolates suspects."""

import importlib
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from dueledger.ledger.errors import InvalidInput, Problem
from dueledger.workers.handlers import Handlers


def load_handlers(places: Sequence[str]) -> Handlers:
    """Import each ``module:name`` and return one registry of all their handlers.

    Another process can load them again, so their suspects run isolated.
    """
    handlers = Handlers(places=places)
    for place in places:
        try:
            handlers.include(_load(place))
        except ValueError as error:
            raise _refused(place, str(error)) from None
    return handlers


def _load(place: str) -> Handlers:
    module_name, _, name = place.partition(":")
    if not module_name or not name:
        raise _refused(place, "it must be written module:name")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` has it: a project's own modules are found
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and module_name.startswith(error.name or " "):
            raise _refused(place, f"there is no module {error.name} on the path") from error
        raise _refused(
            place, f"{type(error).__name__}: {error}, at {_failed_line(error)}"
        ) from error
    found: object = getattr(module, name, None)
    if not isinstance(found, Handlers):
        raise _refused(place, f"{module_name} has no Handlers called {name}")
    return found


def _failed_line(error: BaseException) -> str:
    """Return the line at which a module failed: the last that ran, or that does not parse."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}"
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{last.filename}:{last.lineno}: {last.line}"


def _refused(place: str, reason: str) -> InvalidInput:
    problem = Problem("handlers", place, reason, "app.renewals:handlers")
    return InvalidInput("The handlers cannot be used:", [problem])
