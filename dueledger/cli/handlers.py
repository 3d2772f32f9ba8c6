"""Finds the handlers that `dueledger work` is given by name."""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from ledger.errors import InvalidInput, Problem
from workers import Handlers


def load_handlers(places: Sequence[str]) -> Handlers:
    """Import each ``module:name`` and return one registry of all their handlers."""
    handlers = Handlers()
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
    except ModuleNotFoundError as error:
        raise _refused(place, f"there is no module {error.name} on the path") from error
    found: object = getattr(module, name, None)
    if not isinstance(found, Handlers):
        raise _refused(place, f"{module_name} has no Handlers called {name}")
    return found


def _refused(place: str, reason: str) -> InvalidInput:
    problem = Problem("handlers", place, reason, "app.renewals:handlers")
    return InvalidInput("The handlers cannot be used:", [problem])
