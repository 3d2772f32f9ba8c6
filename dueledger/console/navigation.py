"""The pages that the navigation lists, and the scope without which each is not shown."""

from typing import Final, NamedTuple

from dueledger.ledger.store.api_keys import Scope


class NavigationEntry(NamedTuple):
    """A page by its path below the console, its name and its scope."""

    path: str
    name: str
    scope: Scope
    is_of_all: bool = False
    """Whether it is of the whole ledger: for keys of all tenants alone."""


NAVIGATION: Final = (
    NavigationEntry("/", "Now", Scope.READ),
    NavigationEntry("/items", "Items", Scope.READ),
    NavigationEntry("/schedules", "Schedules", Scope.READ),
    NavigationEntry("/flows", "Flows", Scope.READ),
    NavigationEntry("/reviews", "Reviews", Scope.READ),
    NavigationEntry("/reconciliation", "Reconciliation", Scope.AUDIT),
    NavigationEntry("/audit", "Audit", Scope.AUDIT),
    NavigationEntry("/system", "System", Scope.READ, is_of_all=True),
)
