"""Fields that several routes have."""

from typing import Annotated

from fastapi import Path, Query
from pydantic import Field

from dueledger.ledger.states import State

PRINTABLE = r"^[^\x00-\x1f\x7f]*$"

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")]
Lane = Annotated[str, Field(max_length=100, pattern=PRINTABLE)]
Key = Annotated[str, Field(min_length=1, max_length=512, pattern=PRINTABLE)]
Reason = Annotated[str, Field(min_length=1, max_length=1_000, pattern=PRINTABLE)]
StateName = Annotated[str, Field(json_schema_extra={"enum": [state.label for state in State]})]
TenantPath = Annotated[Name, Path(description="tenant that owes its items")]
KindPath = Annotated[Name, Path(description="kind of the items")]
Text = Query(max_length=512, pattern=PRINTABLE)
"""A parameter that filters."""


def written(value: object) -> object:
    """Return a text. Raises ValueError for a number, which would be read as seconds since 1970."""
    if not isinstance(value, str):
        message = "it must be a text in the form of ISO 8601"
        raise ValueError(message)  # noqa: TRY004 - pydantic turns only a ValueError into a problem
    return value
