"""The pages that the navigation lists, and the scope without which each is not shown."""

from typing import Final, NamedTuple

from dueledger.ledger.store.api_keys import Scope


class NavigationEntry(NamedTuple):
    """A page by its path below the console, its name and its scope."""

    path: str
    name: str
    scope: Scope


NAVIGATION: Final = (
    NavigationEntry("/", "Now", Scope.READ),
    NavigationEntry("/items", "Items", Scope.READ),
    NavigationEntry("/schedules", "Schedules", Scope.READ),
)
