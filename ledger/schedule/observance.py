"""How a definition observes a calendar: the days it rolls, and when that cannot be known.

`CalendarRule` is the field of the document, `Observance` what the pure expansion is given: the
calendar itself, whoever keeps those that have names.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic import model_validator as validates
from pydantic_core import PydanticCustomError

from ledger.errors import Problem, UnknownCalendar
from ledger.schedule.calendars import Beyond, Calendar, ListedDays, Roll, Weekday, Weekend
from ledger.schedule.expressions import CalendarDate, misfit
from ledger.schedule.local_rule import Ruling
from ledger.schedule.resolution import (
    Decision,
    Occurrence,
    Skipped,
    SkipReason,
    Window,
    collapse,
    resolve,
)

NO_CALENDARS: Final[Mapping[str, Calendar]] = {}
_INLINE: Final = "{weekend: [sat, sun], holidays: [2026-12-25], roll: following}"
_INSTANT: Final = timedelta(microseconds=1)
_SHOWN_MAX: Final = 5

CalendarName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9._-]+$", strict=True),
]


def _none_by_name(fields: dict[str, Any]) -> ListedDays | None:
    return None if fields.get("name") else ()


@dataclass(frozen=True, slots=True)
class Observance:
    """A calendar and what to do on a day that is no business day."""

    calendar: Calendar
    roll: Roll


class CalendarRule(BaseModel):
    """Which calendar counts: `name`, or its days written out; and what `roll` does to others."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: CalendarName | None = None
    weekend: Weekend | None = Field(
        default=None, description="required without `name`; [] where every day is worked"
    )
    holidays: ListedDays | None = Field(default_factory=_none_by_name)
    workdays: ListedDays | None = Field(
        default_factory=_none_by_name, description="days of the weekend that count all the same"
    )
    first_day: CalendarDate | None = Field(
        default=None, description="the first day for which the list is complete; none: every day"
    )
    last_day: CalendarDate | None = Field(
        default=None, description="the last day for which the list is complete; none: every day"
    )
    roll: Roll | None = Field(
        default=None, description="required, but for `business`, whose days are business days"
    )

    @validates(mode="after")
    def _one_of_both(self) -> Self:
        inline = ("weekend", "holidays", "workdays", "first_day", "last_day")
        given = [field for field in inline if getattr(self, field) is not None]
        if self.name is not None:
            if given:
                raise misfit(given[0], "stands beside a name", "`name` and `roll` alone, or inline")
            return self
        if self.weekend is None:
            raise misfit(
                "weekend", "without it nobody knows whether weekends count", "[sat, sun], or []"
            )
        try:
            self.calendar()
        except ValidationError as error:
            raise _first_of(error) from None
        return self

    def calendar(self, calendars: Mapping[str, Calendar] = NO_CALENDARS) -> Calendar:
        """Return the calendar that counts; UnknownCalendar where its name is not among these."""
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
            problem = Problem("calendar.name", repr(self.name), "no such calendar", accepted)
            raise UnknownCalendar("A calendar is not known:", [problem], calendar=self.name)
        return calendars[self.name]


def nearest_first(name: str, known: Iterable[str]) -> list[str]:
    """Return a few of the names that are known, those like `name` before the others."""
    names = sorted(known)
    near = get_close_matches(name, names, n=_SHOWN_MAX)
    return [*near, *(each for each in names if each not in near)][:_SHOWN_MAX]


def weekdays_rule() -> CalendarRule:
    """Return what `business` means where no calendar is given: Monday to Friday."""
    return CalendarRule(weekend=(Weekday.SAT, Weekday.SUN))


def observed_window(
    nominals: Iterable[datetime],
    ruling: Ruling,
    observance: Observance | None,
    bounds: tuple[datetime, datetime],
) -> Window:
    """Resolve nominal times, each on the day that the calendar gives it.

    Give nominal times from SCAN_MARGIN and `roll_days_max` before to as much after, so that windows
    compose. Raises BeyondCalendar where an answer depends on days that the calendar does not know.
    """
    doubtful: list[tuple[datetime, Beyond]] = []
    found = collapse(resolve_observed(nominals, ruling, observance, doubtful), bounds)
    if observance is not None:
        for nominal, side in doubtful:
            if _may_fall_into(found, nominal, side, (ruling, observance), bounds):
                raise observance.calendar.unknown(nominal.date(), side)
    return found


def roll_days_max(observance: Observance | None) -> timedelta:
    """Return how far a day is rolled at most."""
    if observance is None or observance.roll is Roll.SKIP:
        return timedelta()
    return timedelta(days=observance.calendar.closed_days_max)


def resolve_observed(
    nominals: Iterable[datetime],
    ruling: Ruling,
    observance: Observance | None,
    doubtful: list[tuple[datetime, Beyond]],
) -> Iterator[Occurrence | Skipped]:
    """Resolve nominal times one by one; `doubtful` takes those that unknown days decide."""
    zone, last = ruling.zone, ruling.last
    for nominal in nominals:
        asked = nominal.date()
        day = asked if observance is None else observance.calendar.roll(asked, observance.roll)
        if isinstance(day, Beyond):
            doubtful.append((nominal, day))
            continue
        own = resolve(nominal, zone, ruling.gap, ruling.fold)
        if last is not None:
            own = tuple(each for each in own if _instant(each) <= last)
        if day != asked:
            yield from _moved(nominal, day, own, ruling)
        elif observance is not None and not observance.calendar.is_business_day(asked):
            yield from map(_left_out, own)
        else:
            yield from own


def _moved(
    nominal: datetime, day: date, own: tuple[Occurrence | Skipped, ...], ruling: Ruling
) -> Iterator[Occurrence | Skipped]:
    """Resolve a nominal time on another day, as far as it counts at all on its own."""
    if not own:
        return
    there = resolve(datetime.combine(day, nominal.time()), ruling.zone, ruling.gap, ruling.fold)
    for found in there:
        if isinstance(found, Occurrence):
            exact = found.decision is Decision.EXACT
            decision = Decision.ROLLED if exact else found.decision
            yield found._replace(nominal=nominal, decision=decision)
        else:
            yield replace(found, nominal=nominal)


def _left_out(found: Occurrence | Skipped) -> Skipped:
    if isinstance(found, Skipped):
        return found
    return Skipped(found.due_at, found.nominal, SkipReason.CALENDAR, found.decision)


def _instant(found: Occurrence | Skipped) -> datetime:
    return found.due_at if isinstance(found, Occurrence) else found.at


def _may_fall_into(
    found: Window,
    nominal: datetime,
    side: Beyond,
    rules: tuple[Ruling, Observance],
    bounds: tuple[datetime, datetime],
) -> bool:
    """Tell whether a nominal time that days unknown decide may fall into `bounds`.

    It may land on an unknown day, or on the outermost day known. There it changes nothing where
    another nominal time has that instant already.
    """
    ruling, observance = rules
    calendar, roll = observance.calendar, observance.roll
    start, end = bounds
    if roll is Roll.SKIP:
        own = resolve(nominal, ruling.zone, ruling.gap, ruling.fold)
        return any(start <= _instant(each) < end for each in own)
    first, last = (each.astimezone(ruling.zone).date() for each in (start, end - _INSTANT))
    outside = calendar.edge(side, nominal.date())
    if (last >= outside) if side is Beyond.AFTER else (first <= outside):
        return True
    landing = calendar.outermost(side)
    if landing is None or not _may_land(nominal.date(), landing, side, roll):
        return False
    there = resolve(datetime.combine(landing, nominal.time()), ruling.zone, ruling.gap, ruling.fold)
    taken = {each.due_at for each in found.occurrences}
    return any(
        start <= each.due_at < end and each.due_at not in taken
        for each in there
        if isinstance(each, Occurrence)
    )


def _may_land(day: date, landing: date, side: Beyond, roll: Roll) -> bool:
    match roll:
        case Roll.FOLLOWING:
            return side is Beyond.BEFORE
        case Roll.PRECEDING:
            return side is Beyond.AFTER
        case Roll.MODIFIED_FOLLOWING:
            return (day.year, day.month) == (landing.year, landing.month)
        case _:
            return True


def _first_of(error: ValidationError) -> PydanticCustomError:
    details = error.errors(include_url=False)[0]
    context: dict[str, Any] = details.get("ctx") or {}
    return misfit(str(context["field"]), str(context["reason"]), str(context["accepted"]))
