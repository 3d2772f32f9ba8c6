"""Business days: which days they are, for which dates this is known, and how others are rolled.

A calendar covers the days from its first to its last. A day outside is neither a business day nor
a holiday: it is unknown.
"""

from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from enum import Enum, StrEnum
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Final, Self, assert_never

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from dueledger.ledger.errors import BeyondCalendar, Problem
from dueledger.ledger.schedule.expressions import CalendarDate, field_error

DAYS_LISTED_MAX: Final = 5_000
CLOSED_DAYS_MAX: Final = 366
_DAY: Final = timedelta(days=1)


class Weekday(StrEnum):
    """A day of the week, in the order of ISO 8601."""

    MON = "mon"
    TUE = "tue"
    WED = "wed"
    THU = "thu"
    FRI = "fri"
    SAT = "sat"
    SUN = "sun"


WEEK: Final = tuple(Weekday)


class Roll(StrEnum):
    """What happens to an occurrence on a day that is not a business day."""

    FOLLOWING = "following"
    PRECEDING = "preceding"
    MODIFIED_FOLLOWING = "modified_following"  # preceding, if following is in another month
    NEAREST = "nearest"  # following, if both are equally near
    SKIP = "skip"  # no occurrence; recorded as skipped


class Beyond(Enum):
    """On which side of the days that a calendar covers an answer would be."""

    BEFORE = "before"
    AFTER = "after"


def _in_week_order(days: tuple[Weekday, ...]) -> tuple[Weekday, ...]:
    return tuple(day for day in WEEK if day in days)


def _in_date_order(days: tuple[date, ...]) -> tuple[date, ...]:
    return tuple(sorted(set(days)))


Weekend = Annotated[tuple[Weekday, ...], AfterValidator(_in_week_order)]
ListedDays = Annotated[
    tuple[CalendarDate, ...], Field(max_length=DAYS_LISTED_MAX), AfterValidator(_in_date_order)
]


class Calendar(BaseModel):
    """Business days: those outside the weekend and the holidays, and the listed workdays.

    `first_day` and `last_day` are the first and the last day that it covers; None: no bound on
    that side.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = "inline"
    weekend: Weekend
    holidays: ListedDays = ()
    workdays: ListedDays = ()
    first_day: CalendarDate | None = None
    last_day: CalendarDate | None = None

    @model_validator(mode="after")
    def _can_be_asked(self) -> Self:
        if len(self.weekend) == len(WEEK):
            raise field_error(
                "weekend", "has every day of the week", "at most six days, such as [sat, sun]"
            )
        first, last = self.first_day, self.last_day
        if first is not None and last is not None and last < first:
            raise field_error(
                "last_day", "is before the first day", "a last day not before `first_day`"
            )
        if both := self._closed & self._worked:
            reason = f"{min(both).isoformat()} is also a holiday"
            raise field_error("workdays", reason, "each day in one of the two lists")
        for field, days in (("holidays", self.holidays), ("workdays", self.workdays)):
            if outside := next((day for day in days if self.outside(day) is not None), None):
                reason = f"{outside.isoformat()} is outside first_day to last_day"
                raise field_error(field, reason, "days that the calendar covers")
        if self.closed_days_max > CLOSED_DAYS_MAX:
            reason = f"there is no business day for more than {CLOSED_DAYS_MAX} days in a row"
            raise field_error("holidays", reason, "single closed days")
        return self

    @cached_property
    def _closed(self) -> frozenset[date]:
        return frozenset(self.holidays)

    @cached_property
    def _worked(self) -> frozenset[date]:
        return frozenset(self.workdays)

    @cached_property
    def _weekend(self) -> frozenset[int]:
        return frozenset(WEEK.index(day) for day in self.weekend)

    @cached_property
    def closed_days_max(self) -> int:
        """Return how many days in a row are closed at most (or a few more)."""
        longest = run = 0
        for earlier, later in pairwise((date.min, *self.holidays)):
            between = (later - earlier).days - 1
            joined = between <= len(WEEK) and not any(
                self._open(earlier + n * _DAY) for n in range(1, between + 1)
            )
            run = run + between + 1 if joined else 1
            longest = max(longest, run)
        return longest + 2 * len(self.weekend)

    def outside(self, day: date) -> Beyond | None:
        """Return on which side of the covered days `day` is; None if it is covered."""
        if self.first_day is not None and day < self.first_day:
            return Beyond.BEFORE
        if self.last_day is not None and day > self.last_day:
            return Beyond.AFTER
        return None

    def is_business_day(self, day: date) -> bool:
        """Return whether `day` is a business day. Raises BeyondCalendar if it is not covered."""
        side = self.outside(day)
        if side is not None:
            raise self.unknown(day, side)
        return self._open(day)

    def roll(self, day: date, roll: Roll) -> date | Beyond:
        """Return the business day to which `day` is rolled; `day` itself if open or skipped.

        Returns Beyond if the answer depends on days that the calendar does not cover.
        """
        return next(self.roll_all((day,), roll))[1]

    def roll_all(self, days: Iterable[date], roll: Roll) -> Iterator[tuple[date, date | Beyond]]:
        """Yield each of the days, given in order, with the day that it is rolled to; see `roll`.

        Days of one run of closed days have the same two neighbours, which are searched for once.
        """
        before: date | Beyond = Beyond.BEFORE
        after: date | Beyond = Beyond.AFTER
        run_end = date.min  # up to where `before` and `after` hold, exclusive
        for day in days:
            side = self.outside(day)
            if side is not None:
                yield day, side
            elif roll is Roll.SKIP or self._open(day):
                yield day, day
            else:
                if day >= run_end:
                    before, after = self._next(day, -_DAY), self._next(day, _DAY)
                    run_end = after if isinstance(after, date) else self.last_day or date.max
                yield day, self._between(day, before, after, roll)

    def _between(
        self, day: date, before: date | Beyond, after: date | Beyond, roll: Roll
    ) -> date | Beyond:
        """Return the day to which a closed day between two business days is rolled."""
        match roll:
            case Roll.FOLLOWING:
                return after
            case Roll.PRECEDING:
                return before
            case Roll.MODIFIED_FOLLOWING:
                return (
                    after if _month(self.first_unknown_day(after, day)) == _month(day) else before
                )
            case Roll.NEAREST:
                ahead = self.first_unknown_day(after, day) - day
                back = day - self.first_unknown_day(before, day)
                return after if ahead <= back else before
            case Roll.SKIP:
                return day
            case _:
                assert_never(roll)

    def source_days(self, first: date, last: date) -> tuple[date, date]:
        """Return the first and the last day that may be rolled into `first` to `last`.

        No roll passes a business day, so these go to the next business day on either side at most,
        within the covered days.
        """
        while self.outside(first - _DAY) is None and not self._open(first - _DAY):
            first -= _DAY
        while self.outside(last + _DAY) is None and not self._open(last + _DAY):
            last += _DAY
        return first, last

    def first_unknown_day(self, found: date | Beyond, day: date) -> date:
        """Return `found`, or the first day that is not covered on that side."""
        match found:
            case Beyond.BEFORE:
                return (self.first_day or day) - _DAY
            case Beyond.AFTER:
                return (self.last_day or day) + _DAY
            case _:
                return found

    def last_known_business_day(self, side: Beyond) -> date | None:
        """Return the business day nearest to the end of coverage on one side, None if none."""
        known = self.first_day if side is Beyond.BEFORE else self.last_day
        if known is None:
            return None
        if self._open(known):
            return known
        found = self._next(known, _DAY if side is Beyond.BEFORE else -_DAY)
        return None if isinstance(found, Beyond) else found

    def unknown(self, day: date, side: Beyond) -> BeyondCalendar:
        """Return the error for a day that is not covered."""
        if side is Beyond.AFTER:
            reason = f"calendar {self.name} ends on {self.last_day}"
            accepted = "a shorter window, or a calendar that covers more"
        else:
            reason = f"calendar {self.name} begins on {self.first_day}"
            accepted = "`start: …` in `when` from that day, or a calendar that begins earlier"
        problem = Problem("calendar", day.isoformat(), reason, accepted)
        return BeyondCalendar("The calendar does not cover a day that is needed.", [problem])

    def _open(self, day: date) -> bool:
        if day.weekday() in self._weekend:
            return day in self._worked
        return day not in self._closed

    def _next(self, day: date, step: timedelta) -> date | Beyond:
        while True:
            try:
                day += step
            except OverflowError:
                return Beyond.AFTER if step > timedelta() else Beyond.BEFORE
            side = self.outside(day)
            if side is not None:
                return side
            if self._open(day):
                return day


def _month(day: date) -> tuple[int, int]:
    return day.year, day.month
