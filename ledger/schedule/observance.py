"""How a definition uses a calendar: the days that it rolls, and errors if they are not known.

`CalendarRule` is the field of the document. `Observance` is the argument of the pure expansion: it
has the calendar itself, so the expansion needs no store of named calendars.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic import model_validator as validates
from pydantic_core import PydanticCustomError

from dueledger.ledger.errors import Problem, UnknownCalendar
from dueledger.ledger.schedule.calendars import Calendar, ListedDays, Roll, Weekday, Weekend
from dueledger.ledger.schedule.expressions import CalendarDate, field_error

NO_CALENDARS: Final[Mapping[str, Calendar]] = {}
_INLINE: Final = "{weekend: [sat, sun], holidays: [2026-12-25], roll: following}"
_SHOWN_MAX: Final = 5

CalendarName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9._-]+$", strict=True),
]


def _none_by_name(fields: dict[str, Any]) -> ListedDays | None:
    return None if fields.get("name") else ()


@dataclass(frozen=True, slots=True)
class Observance:
    """A calendar, and what happens on a day that is not a business day."""

    calendar: Calendar
    roll: Roll


class CalendarRule(BaseModel):
    """Which calendar is used: by `name`, or with its days inline; and the `roll` of other days."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: CalendarName | None = None
    weekend: Weekend | None = Field(
        default=None, description="required without `name`; [] if every day is worked"
    )
    holidays: ListedDays | None = Field(default_factory=_none_by_name)
    workdays: ListedDays | None = Field(
        default_factory=_none_by_name, description="days of the weekend that are business days"
    )
    first_day: CalendarDate | None = Field(
        default=None, description="the first day for which the list is complete; none: every day"
    )
    last_day: CalendarDate | None = Field(
        default=None, description="the last day for which the list is complete; none: every day"
    )
    roll: Roll | None = Field(
        default=None, description="required, except for `business`, whose days are business days"
    )

    @validates(mode="after")
    def _one_of_both(self) -> Self:
        inline = ("weekend", "holidays", "workdays", "first_day", "last_day")
        given = [field for field in inline if getattr(self, field) is not None]
        if self.name is not None:
            if given:
                raise field_error(
                    given[0], "is given together with a name", "`name` and `roll` alone, or inline"
                )
            return self
        if self.weekend is None:
            raise field_error(
                "weekend", "is missing: are weekends business days?", "[sat, sun], or []"
            )
        try:
            self.calendar()
        except ValidationError as error:
            raise _first_of(error) from None
        return self

    def calendar(self, calendars: Mapping[str, Calendar] = NO_CALENDARS) -> Calendar:
        """Return the calendar. Raises UnknownCalendar if `calendars` does not have its name."""
        if self.name is None:
            return Calendar(
                weekend=self.weekend or (),
                holidays=self.holidays or (),
                workdays=self.workdays or (),
                first_day=self.first_day,
                last_day=self.last_day,
            )
        if self.name not in calendars:
            accepted = f"inline: {_INLINE}"
            if known := nearest_first(self.name, calendars):
                accepted = f"{' or '.join(known)}, or {accepted}"
            reason = "unknown calendar, or its document cannot be read"
            problem = Problem("calendar.name", repr(self.name), reason, accepted)
            raise UnknownCalendar("A calendar cannot be used:", [problem], calendar=self.name)
        return calendars[self.name]


def nearest_first(name: str, known: Iterable[str]) -> list[str]:
    """Return a few of the known names, those like `name` first."""
    names = sorted(known)
    near = get_close_matches(name, names, n=_SHOWN_MAX)
    return [*near, *(each for each in names if each not in near)][:_SHOWN_MAX]


def weekdays_rule() -> CalendarRule:
    """Return the default calendar of `business`: Monday to Friday."""
    return CalendarRule(weekend=(Weekday.SAT, Weekday.SUN))


def roll_days_max(observance: Observance | None) -> timedelta:
    """Return how far a day is rolled at most."""
    if observance is None or observance.roll is Roll.SKIP:
        return timedelta()
    return timedelta(days=observance.calendar.closed_days_max)


def _first_of(error: ValidationError) -> PydanticCustomError:
    details = error.errors(include_url=False)[0]
    context: dict[str, Any] = details.get("ctx") or {}
    return field_error(str(context["field"]), str(context["reason"]), str(context["accepted"]))
