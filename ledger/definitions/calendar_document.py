"""A calendar as the ledger keeps it: its days, the dates that it covers, and its holidays' names.

`last_day` is required: a list of holidays without an end would be taken as complete for years that
it says nothing about.
"""

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic import model_validator as validates

from dueledger.ledger.error_counts import too_many_errors
from dueledger.ledger.errors import InvalidInput, Problem
from dueledger.ledger.schedule import Calendar
from dueledger.ledger.schedule.calendars import DAYS_LISTED_MAX, ListedDays, Weekend
from dueledger.ledger.schedule.expressions import CalendarDate, field_error

NAME_CHARS_MAX: Final = 200

DayName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=NAME_CHARS_MAX, pattern=r"^[^\x00]+$"),
]
"""Postgres has no NUL in a text; other control characters are shown escaped."""


class CalendarDocument(BaseModel):
    """One version of a calendar. `names` has names of holidays; a holiday may have none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    weekend: Weekend
    holidays: ListedDays = ()
    workdays: ListedDays = ()
    first_day: CalendarDate
    last_day: CalendarDate
    names: dict[date, DayName] = Field(default_factory=dict, max_length=DAYS_LISTED_MAX)

    @validates(mode="after")
    def _is_a_calendar(self) -> Self:
        self.calendar("")
        if strange := set(self.names).difference(self.holidays):
            reason = f"{min(strange).isoformat()} is not one of its holidays"
            raise field_error("names", reason, "names of listed holidays only")
        return self

    def calendar(self, name: str) -> Calendar:
        """Return the calendar under `name`, which definitions refer to."""
        return Calendar(
            name=name,
            weekend=self.weekend,
            holidays=self.holidays,
            workdays=self.workdays,
            first_day=self.first_day,
            last_day=self.last_day,
        )

    def normalised(self) -> dict[str, Any]:
        """Return the canonical document. Documents are equal if and only if nothing changed."""
        return self.model_dump(mode="json") | {
            "names": {day.isoformat(): self.names[day] for day in sorted(self.names)}
        }


def parse_calendar(document: Mapping[str, object], *, source: str) -> CalendarDocument:
    """Read a calendar's document. Raises InvalidInput, which names each wrong field."""
    try:
        return CalendarDocument.model_validate(document)
    except ValidationError as error:
        reason = too_many_errors(error)
        problems = [Problem("document", "", reason)] if reason else _problems(error)
        raise InvalidInput(f"{source} is not a valid calendar:", problems) from None


def _problems(error: ValidationError) -> list[Problem]:
    return [
        _problem(found["loc"], found.get("ctx") or {}, found["msg"])
        for found in error.errors(include_url=False, include_input=False)
    ]


def _problem(
    location: tuple[int | str, ...], context: Mapping[str, object], message: str
) -> Problem:
    if "field" in context:
        return Problem(str(context["field"]), "", str(context["reason"]), str(context["accepted"]))
    return Problem(".".join(map(str, location)) or "document", "", message)
