"""Numbers as people type them: with separators of thousands or without."""

import re
from typing import Annotated, Final

from pydantic import BeforeValidator

from dueledger.ledger.errors import InvalidInput, Problem

_SEPARATOR: Final = "[,'’ \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}]"
_GROUPED: Final = re.compile(rf"\d{{1,3}}({_SEPARATOR}\d{{3}})+(\.\d+)?")


def ungrouped(typed: str) -> str:
    """Return a number as it was typed, without separators of thousands."""
    text = typed.strip()
    return re.sub(_SEPARATOR, "", text) if _GROUPED.fullmatch(text) else text


TypedNumber = Annotated[float | None, BeforeValidator(ungrouped)]
"""A number of a form."""


def typed_pattern(*numbers: int) -> str:
    """Return what a field accepts in which one of these numbers is typed, as HTML has it."""
    return "|".join(f"{number:,}".replace(",", f"{_SEPARATOR}?") for number in numbers)


def require_typed(typed: str | None, number: int, message: str) -> None:
    """Raise InvalidInput with the message unless this number was typed."""
    if ungrouped(typed or "") != str(number):
        problem = Problem("/typed", "", "it is not the number of items", f"{number:,}")
        raise InvalidInput(message, [problem])
