"""Fields that several routes have."""

import re
from datetime import UTC, datetime
from typing import Annotated, Final

from fastapi import Path, Query
from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field, Strict

from dueledger.ledger.states import State

_DATED: Final = re.compile(r"\d{4}-\d\d-\d\d(?![^T ])", re.ASCII)

PRINTABLE = r"^[^\x00-\x1f\x7f]*$"

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")]
Lane = Annotated[str, Field(max_length=100, pattern=PRINTABLE)]
Key = Annotated[str, Field(min_length=1, max_length=512, pattern=PRINTABLE)]
Reason = Annotated[str, Field(min_length=1, max_length=1_000, pattern=PRINTABLE)]
StateName = Annotated[str, Field(json_schema_extra={"enum": [state.label for state in State]})]
Number = Annotated[float, Strict()]
Whole = Annotated[int, Strict()]
"""Of a body: neither a text nor true, which would count as 1."""
TenantPath = Annotated[Name, Path(description="tenant that owes its items")]
KindPath = Annotated[Name, Path(description="kind of the items")]
Text = Query(max_length=512, pattern=PRINTABLE)
"""A parameter that filters."""


def written(value: object) -> object:
    """Return a date or time that is written as one.

    Raises ValueError for a number, also as a text: it would be read as seconds since 1970.
    """
    if not isinstance(value, str) or not _DATED.match(value):
        message = "it must be a text in the form of ISO 8601"
        raise ValueError(message)
    return value


_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_END: Final = datetime(2200, 1, 1, tzinfo=UTC)


def _within_bounds(instant: datetime) -> datetime:
    if not _EARLIEST <= instant < _END:
        message = "it must lie within the years 1970 to 2199"
        raise ValueError(message)
    return instant


Instant = Annotated[AwareDatetime, BeforeValidator(written), AfterValidator(_within_bounds)]
"""A time with an offset, within the years that items may have."""
