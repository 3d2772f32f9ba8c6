"""Fields that several routes have."""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Final, Literal

from fastapi import Path, Query
from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field, Strict

from dueledger.ledger.schedule.when import DUE_END, DUE_MIN
from dueledger.ledger.states import State
from dueledger.ledger.store.reviews import NOBODY

_OFFSET_MAX: Final = timedelta(days=1)
_DATED: Final = re.compile(r"\d{4}-\d\d-\d\d(?![^T ])", re.ASCII)

PRINTABLE = r"^[^\x00-\x1f\x7f]*$"
LINES = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$"
"""Printable text with tabs and ends of lines."""

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")]
Lane = Annotated[str, Field(max_length=100, pattern=PRINTABLE)]
Key = Annotated[str, Field(min_length=1, max_length=512, pattern=PRINTABLE)]
Reason = Annotated[str, Field(min_length=1, max_length=1_000, pattern=PRINTABLE)]
StateName = Annotated[str, Field(json_schema_extra={"enum": [state.label for state in State]})]
RedactedFields = Annotated[
    list[str],
    Field(
        description="JSON Pointers of the kind whose values in the payload are replaced by the "
        "text [redacted]; an empty one: all of it"
    ),
]
Number = Annotated[float, Strict()]
Whole = Annotated[int, Strict()]
"""Of a body: neither a text nor true, which would count as 1."""
TenantPath = Annotated[Name, Path(description="tenant that owes its items")]
KindPath = Annotated[Name, Path(description="kind of the items")]
Text = Query(max_length=512, pattern=PRINTABLE)
"""A parameter that filters."""


Taken = Annotated[
    Literal["mine", "nobody"] | None,
    Query(description="only what the caller has taken, or what nobody has"),
]
NewestFirst = Annotated[bool, Query(description="in the other order")]
OldestFirst = NewestFirst


def taken_by(taken: Taken, own_no: int) -> int | None:
    """Return the number of the actor whom a filter means, for lists of what people take."""
    return {"mine": own_no, "nobody": NOBODY, None: None}[taken]


def written(value: object) -> object:
    """Return a date or time that is written as one, or is one.

    Raises ValueError for a number, also as a text: it would be read as seconds since 1970.
    """
    if isinstance(value, date):
        return value
    if not isinstance(value, str) or not _DATED.match(value):
        message = "it must be a text in the form of ISO 8601"
        raise ValueError(message)
    return value


def within_years(given: datetime) -> datetime:
    """Return a time within the years that items may have; one without a zone, in each zone.

    Raises ValueError for another one.
    """
    margin = timedelta(0) if given.tzinfo else _OFFSET_MAX
    instant = given if given.tzinfo else given.replace(tzinfo=UTC)
    if not DUE_MIN + margin <= instant < DUE_END - margin:
        message = "it must lie within the years 1970 to 2199"
        raise ValueError(message)
    return given


Instant = Annotated[AwareDatetime, BeforeValidator(written), AfterValidator(within_years)]
"""A time with an offset, within the years that items may have."""
