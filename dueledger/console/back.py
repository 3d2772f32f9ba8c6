"""Lists that an item or a finding is opened from, as its page and forms name them: to come back."""

import re
from collections.abc import Mapping
from typing import Annotated, Final, NamedTuple

from pydantic import AfterValidator

from dueledger.console.view import View

LISTS: Final[Mapping[str, str]] = {
    "/items": "Items",
    "/reviews": "Reviews",
    "/reviews/parked": "Parked items",
    "/reviews/findings": "Findings that wait for a decision",
    "/reconciliation": "Reconciliation",
    "/reconciliation/findings": "Findings",
    "/reconciliation/repairs": "Pending repairs",
    "/flows": "Flows",
}
"""Paths of the lists below the console, and what each is called."""
CHARS_MAX: Final = 2_000
_ADDRESS: Final = re.compile(r"(?P<path>/[a-z/]+)(\?[!$-\[\]-~]*)?")
"""A path and a query of visible characters of ASCII, without a fragment or a backslash."""


class BackLink(NamedTuple):
    """A list with its filter: its address below the console, and what it is called."""

    address: str
    words: str


def known_list(given: str | None) -> str | None:
    """Return the address of a list, as it is given; None for any other address."""
    found = _ADDRESS.fullmatch(given or "")
    if found is None or len(found[0]) > CHARS_MAX or found["path"] not in LISTS:
        return None
    return found[0]


Back = Annotated[str | None, AfterValidator(known_list)]
"""A parameter or field with the address of a list. Any other address is left out."""


def back_to(view: View) -> str | None:
    """Return the address of the list that is shown, to come back to it; None for other pages."""
    return known_list(view.here().removeprefix(view.url("")))


def back_link(back: Back) -> BackLink | None:
    """Return the link to a list; None without one."""
    return None if back is None else BackLink(back, LISTS[back.partition("?")[0]])
