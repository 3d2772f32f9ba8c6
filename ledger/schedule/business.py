"""`when: {business: …}`: a business day of each month.

`last`, `first` and `nth` count the business days of the month. `day_of_month` is a date that a
roll moves to a business day; a month without that date has no occurrence.
"""

from calendar import monthrange
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Annotated, Final, Self, cast

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from dueledger.ledger.schedule.calendars import Calendar, Roll
from dueledger.ledger.schedule.expansion import expand_window
from dueledger.ledger.schedule.expressions import LocalTime, TimeOfDay, ZoneName, value_error
from dueledger.ledger.schedule.local_rule import LocalRule, ResolutionPolicy, check_bounds
from dueledger.ledger.schedule.local_times import LocalTimesOfDay, midnight_of, times_between
from dueledger.ledger.schedule.observance import Observance
from dueledger.ledger.schedule.resolution import (
    Fold,
    Gap,
    ScheduleWindow,
    collapse,
    naive_bounds,
    resolve_all,
)
from dueledger.ledger.schedule.zones import load_zone

_DAYS_MAX: Final = 31
_ROLLS: Final = tuple(roll.value for roll in Roll if roll is not Roll.SKIP)
_ACCEPTED: Final = "last, first, {nth: 3}, or {day_of_month: 31, roll: modified_following}"
_INSTANT: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class BusinessDay:
    """A day of a month: the `nth` business day (negative: from the end), or a rolled date."""

    nth: int | None = None
    day_of_month: int | None = None
    roll: Roll | None = None


def parse_business(raw: object) -> BusinessDay:
    """Read `last`, `first`, ``{nth: n}`` or ``{day_of_month: n, roll: …}``."""
    if isinstance(raw, BusinessDay):
        return raw
    if raw in ("last", "first"):
        return BusinessDay(nth=-1 if raw == "last" else 1)
    if not isinstance(raw, Mapping):
        raise value_error("not a business day", _ACCEPTED)
    fields = dict(cast("Mapping[str, object]", raw))
    if set(fields) == {"nth"}:
        return BusinessDay(nth=_number(fields["nth"], "nth", -_DAYS_MAX))
    if "day_of_month" not in fields or set(fields) - {"day_of_month", "roll"}:
        raise value_error("not a business day", _ACCEPTED)
    roll = fields.get("roll")
    if roll is not None and roll not in _ROLLS:
        raise value_error("unknown roll", "roll: " + ", ".join(_ROLLS))
    day = _number(fields["day_of_month"], "day_of_month", 1)
    return BusinessDay(day_of_month=day, roll=None if roll is None else Roll(str(roll)))


def _number(raw: object, field: str, low: int) -> int:
    if not isinstance(raw, int) or isinstance(raw, bool) or not low <= raw <= _DAYS_MAX or not raw:
        counted = "1 to 31" + (", or -31 to -1 from the end of the month" if low < 0 else "")
        raise value_error(f"{field} is outside its range", counted)
    return raw


def business_text(day: BusinessDay) -> str | dict[str, int | str]:
    """Return the one spelling of a business day."""
    if day.nth is not None:
        return {1: "first", -1: "last"}.get(day.nth) or {"nth": day.nth}
    fields: dict[str, int | str] = {"day_of_month": day.day_of_month or 0}
    return fields if day.roll is None else fields | {"roll": day.roll.value}


_SCHEMA: Final = {
    "oneOf": [
        {"enum": ["last", "first"]},
        {
            "type": "object",
            "properties": {"nth": {"type": "integer", "minimum": -31, "maximum": 31}},
            "required": ["nth"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {
                "day_of_month": {"type": "integer", "minimum": 1, "maximum": 31},
                "roll": {"enum": list(_ROLLS)},
            },
            "required": ["day_of_month"],
            "additionalProperties": False,
        },
    ]
}
BusinessDayField = Annotated[
    BusinessDay,
    BeforeValidator(parse_business),
    PlainSerializer(business_text),
    WithJsonSchema(_SCHEMA),
]


class Business(LocalRule):
    """Once a month, at a local time of a business day."""

    business: BusinessDayField
    at: TimeOfDay
    timezone: ZoneName
    start: LocalTime | None = None
    end: LocalTime | None = Field(default=None, description="exclusive")
    gap: Gap = Field(default=Gap.SHIFT_FORWARD)
    fold: Fold = Field(default=Fold.FIRST)

    @model_validator(mode="after")
    def _ends_after_start(self) -> Self:
        check_bounds(self.start, self.end)
        return self

    @property
    def ruling(self) -> ResolutionPolicy:
        """Return how its local times are resolved to instants."""
        return ResolutionPolicy(load_zone(self.timezone), self.gap, self.fold)

    def observed(self, start: datetime, end: datetime, observance: Observance) -> ScheduleWindow:
        """Return the occurrences in [start, end). Raises BeyondCalendar if they are not known.

        The rule's own roll overrides the calendar's.
        """
        calendar, ruling = observance.calendar, self.ruling
        if self.business.nth is None:
            rolled = Observance(calendar, self.business.roll or observance.roll)
            return expand_window(self, ruling, rolled, (start, end))
        low, high = naive_bounds(start, end)
        shown = (start.astimezone(ruling.zone), (end - _INSTANT).astimezone(ruling.zone))
        known = (shown[0].date(), shown[1].date())
        counted = list(self._counted(low, high, calendar, known))
        return collapse(resolve_all(counted, *ruling.policy), (start, end))

    def estimate(self, start: datetime, end: datetime) -> float:
        """Return about how many occurrences are in [start, end)."""
        return (end - start).days / 30.4 + 1 / 30

    def _within(self, nominal: datetime, low: datetime, high: datetime) -> bool:
        if (self.start is not None and nominal < self.start) or (
            self.end is not None and nominal >= self.end
        ):
            return False
        return low <= nominal < high

    def days(self, first: date, last: date) -> Iterator[date]:
        """Yield the dates of `day_of_month` from `first` to `last`, before any roll."""
        number = self.business.day_of_month or 0
        for month in _months(first, last):
            if number <= monthrange(month.year, month.month)[1]:
                day = month.replace(day=number)
                if first <= day <= last:
                    yield day

    def times_on(self, day: date) -> LocalTimesOfDay:
        """Return its time on a day, if that is between its own start and end."""
        of_day = datetime.combine(day, self.at) - midnight_of(day)
        return times_between((of_day,), day, self.start, self.end)

    def _counted(
        self, low: datetime, high: datetime, calendar: Calendar, known: tuple[date, date]
    ) -> Iterator[datetime]:
        """Yield the nth business day of each month; months in `known` must be in the calendar."""
        nth = self.business.nth or 0
        for month in _months(low.date(), high.date()):
            length = monthrange(month.year, month.month)[1]
            days = [month.replace(day=day) for day in range(1, length + 1)]
            outside = next(
                ((day, side) for day in days if (side := calendar.outside(day)) is not None), None
            )
            if outside is not None:
                if known[0] <= days[-1] and days[0] <= known[1] and self._may_count(days):
                    raise calendar.unknown(*outside)
                continue
            open_days = [day for day in days if calendar.is_business_day(day)]
            if abs(nth) <= len(open_days):
                nominal = datetime.combine(open_days[nth - 1 if nth > 0 else nth], self.at)
                if self._within(nominal, low, high):
                    yield nominal

    def _may_count(self, days: list[date]) -> bool:
        first, last = (datetime.combine(day, self.at) for day in (days[0], days[-1]))
        return not (
            (self.start is not None and last < self.start)
            or (self.end is not None and first >= self.end)
        )


def _months(first: date, last: date) -> Iterator[date]:
    month = first.replace(day=1)
    while month <= last:
        yield month
        month = date(month.year + month.month // 12, month.month % 12 + 1, 1)
