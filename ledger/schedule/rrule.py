"""`when: {rrule: …}`: a recurrence rule of RFC 5545 over local time.

`start` is the lower bound and fills in what the rule leaves open, such as the time of day. It is an
occurrence itself only if it matches the rule. `rdate` adds local times; `exdate` removes times, of
`rdate` too. Neither changes what COUNT and UNTIL mean.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from heapq import merge
from itertools import groupby, islice
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, StrictBool, StrictStr, model_validator

from dueledger.ledger.schedule.expressions import (
    LocalTime,
    ZoneName,
    field_error,
    local_time_text,
)
from dueledger.ledger.schedule.local_rule import LocalRule, ResolutionPolicy, check_bounds
from dueledger.ledger.schedule.local_times import (
    LocalTimesOfDay,
    days_between,
    midnight_of,
    nominals_of,
    times_between,
)
from dueledger.ledger.schedule.recurrence import Recurrence
from dueledger.ledger.schedule.resolution import (
    SCAN_MARGIN,
    Fold,
    Gap,
    Occurrence,
    Skipped,
    resolve_all,
)
from dueledger.ledger.schedule.rrule_text import Frequency, parse_rrule
from dueledger.ledger.schedule.zone_offsets import day_offsets
from dueledger.ledger.schedule.zones import load_zone

DATES_MAX: Final = 1_000
_DENSE_YEARS: Final = 8  # as for cron
_SCAN_END: Final = datetime(2200, 1, 3)  # noqa: DTZ001 -- naive by design; past every due year
_TOGETHER: Final = 64
_FEW: Final = 8  # so few times of a month are cheaper to resolve than its offsets are to find
_SKIPPED_MAX: Final = 5_000  # an hour of seconds, and some years of minutes
_DAYS_OF: Final = {
    Frequency.MINUTELY: 1 / 1440,
    Frequency.HOURLY: 1 / 24,
    Frequency.DAILY: 1.0,
    Frequency.WEEKLY: 7.0,
    Frequency.MONTHLY: 30.4,
    Frequency.YEARLY: 365.25,
}


def _checked(text: str) -> str:
    return parse_rrule(text).text


DateList = Annotated[
    tuple[LocalTime, ...],
    AfterValidator(lambda dates: tuple(sorted(set(dates)))),
    Field(max_length=DATES_MAX),
]


class Rrule(LocalRule):
    """Nominal times by a recurrence rule. COUNT counts occurrences, not times skipped by a gap."""

    rrule: Annotated[StrictStr, AfterValidator(_checked)]
    start: LocalTime
    end: LocalTime | None = Field(default=None, description="exclusive, beside COUNT or UNTIL")
    rdate: DateList = Field(default=(), description="local times beside those of the rule")
    exdate: DateList = Field(default=(), description="local times that are not due")
    timezone: ZoneName
    sparse: StrictBool = Field(
        default=False, description="accept a rule that may not match for eight years"
    )
    gap: Gap = Field(default=Gap.SHIFT_FORWARD)
    fold: Fold = Field(default=Fold.FIRST)

    @model_validator(mode="after")
    def _falls_due(self) -> Self:
        check_bounds(self.start, self.end)
        until = parse_rrule(self.rrule).until
        if until is not None and self._ends_before_start(until):
            raise field_error("rrule", "UNTIL is before `start`", "an UNTIL after the start")
        self._check_rdate()
        if not self.sparse:
            self._check_dense()
        count = parse_rrule(self.rrule).count
        if count is not None and self.end is None:
            # By the estimate, because counting all of them would make the refusal slow.
            most = 2 * self.estimate(self.start.replace(tzinfo=UTC), _SCAN_END.replace(tzinfo=UTC))
            if count > most + 2:
                reason = f"COUNT={count} is too large: there are about {most / 2:.0f} before 2200"
                raise field_error("rrule", reason, "a smaller COUNT, UNTIL or `end:`")
        if count is not None and self.gap is Gap.SKIP:
            _ = self.ruling  # only under this policy the rule may have no occurrence at all
        return self

    def _check_rdate(self) -> None:
        for each in self.rdate:
            if each < self.start or each >= self._end:
                reason = f"{local_time_text(each)} is before `start`, or not before `end`"
                raise field_error("rdate", reason, "a time between them")
        rule = parse_rrule(self.rrule)
        ends_at_instant = rule.count is not None or (rule.until is not None and rule.until.tzinfo)
        if self.rdate and ends_at_instant and self.fold is Fold.BOTH:
            reason = "beside COUNT or an UNTIL with Z, `fold: both` may end between two instants"
            raise field_error("rdate", reason, "`fold: first`, or a local UNTIL")

    def _ends_before_start(self, until: datetime) -> bool:
        if until.tzinfo is None:
            return until < self.start
        return until < self.start.replace(tzinfo=load_zone(self.timezone))

    def _check_dense(self) -> None:
        horizon = self.start.replace(year=self.start.year + _DENSE_YEARS, day=1)
        first = self._first(self.start, horizon)
        until = parse_rrule(self.rrule).until
        if first and until is not None and until.tzinfo is not None and not self.rdate:
            first = first if first.due_at <= until else None
        if first is None:
            raise field_error(
                "rrule",
                f"it has no occurrence within {_DENSE_YEARS} years of `start`, or before its end",
                "days and times that match the rule, or sparse: true if that is intended",
            )

    @cached_property
    def _recurrence(self) -> Recurrence:
        return Recurrence(parse_rrule(self.rrule), self.start)

    @cached_property
    def ruling(self) -> ResolutionPolicy:
        """Return how its local times are resolved, and the instant after which none counts."""
        # Times of `rdate` may be after the last of the rule: then `times_on` ends it.
        return (
            replace(self._ruling_of_rule, last_instant=None) if self.rdate else self._ruling_of_rule
        )

    @cached_property
    def _ruling_of_rule(self) -> ResolutionPolicy:
        rule, last = parse_rrule(self.rrule), None
        if rule.count is not None:
            last = self._last(rule.count)
        elif rule.until is not None and rule.until.tzinfo is not None:
            last = rule.until
        return ResolutionPolicy(load_zone(self.timezone), self.gap, self.fold, last)

    def days(self, first: date, last: date) -> Iterator[date]:
        """Yield its days from `first` to `last`, even those after `ruling.last_instant`."""
        first, last = days_between(first, last, None, self._end)
        days = self._recurrence.days(first, last)
        if not self.rdate:
            return days
        added = (each.date() for each in self.rdate if first <= each.date() <= last)
        return (day for day, _ in groupby(merge(days, added)))

    def times_on(self, day: date) -> LocalTimesOfDay:
        """Return its times on a day, even those after `ruling.last_instant`."""
        times = self._recurrence.times_on(day)
        if self.rdate:
            times = self._ruling_of_rule.counted(day, times)
        if day in self._dates_by_day:
            added, removed = self._dates_by_day[day]
            of_rule = times if day in self._recurrence.days(day, day) else ()
            times = tuple(sorted({*of_rule, *added} - removed))
        return times_between(times, day, None, self._end)

    @cached_property
    def _dates_by_day(self) -> dict[date, tuple[set[timedelta], set[timedelta]]]:
        """Return the times that each day has more, and those that it does not have."""
        found: dict[date, tuple[set[timedelta], set[timedelta]]] = {}
        for place, dates in enumerate((self.rdate, self.exdate)):
            for each in dates:
                midnight = midnight_of(each.date())
                found.setdefault(each.date(), (set(), set()))[place].add(each - midnight)
        return found

    def nominals(self, low: datetime, high: datetime) -> Iterator[datetime]:
        """Yield its local times in [low, high), in order, even after `ruling.last_instant`."""
        return nominals_of(self, low, high)

    @property
    def _end(self) -> datetime:
        return _SCAN_END if self.end is None else min(self.end, _SCAN_END)

    def estimate(self, start: datetime, end: datetime) -> float:
        """Return about how many occurrences are in [start, end), computed from the rule alone."""
        rule = parse_rrule(self.rrule)
        low, high = start.replace(tzinfo=None), end.replace(tzinfo=None)
        added = sum(low <= each < high for each in self.rdate)
        periods = (end - start) / timedelta(days=1) / _DAYS_OF[rule.frequency] / rule.interval
        if rule.positions:
            return added + periods * len(rule.positions)
        return added + periods * self._of_period()

    def _of_period(self) -> float:
        """Return about how many times a period has."""
        rule = parse_rrule(self.rrule)
        days = _DAYS_OF[rule.frequency]
        if rule.weekdays:
            days *= len(rule.weekdays) / 7
        elif rule.nth_weekdays:
            days = len(rule.nth_weekdays) * max(1, len(rule.months))
        if rule.month_days:
            days *= len(rule.month_days) / 31
        if rule.year_days:
            days *= len(rule.year_days) / 366
        if not (rule.weekdays or rule.nth_weekdays or rule.month_days or rule.year_days):
            days = min(days, 1.0) * (len(rule.months) or 1 if days > 31 else 1)  # noqa: PLR2004 -- a year
        elif rule.months and not rule.nth_weekdays:
            days *= len(rule.months) / 12
        times = days * (len(rule.seconds) or 1)
        if rule.frequency is Frequency.MINUTELY:
            times *= _DAYS_OF[Frequency.DAILY] / _DAYS_OF[rule.frequency]
            return times * (len(rule.hours) or 24) / 24 * (len(rule.minutes) or 60) / 60
        times *= len(rule.minutes) or 1
        if rule.frequency is Frequency.HOURLY:
            return times * (len(rule.hours) or 24)
        return times * (len(rule.hours) or 1)

    def _last(self, count: int) -> datetime | None:
        """Return the instant of occurrence number COUNT, or None if there are fewer.

        It takes one pass over the days. On a day with one offset, many times are only counted.
        Other times are resolved, and counted as soon as no later time can be due before them.
        """
        near: set[datetime] = set()
        skipped = 0
        begin = self.start.replace(tzinfo=UTC)
        many = self.estimate(begin, begin + timedelta(days=30)) > _FEW
        for day in self._recurrence.days(self.start.date(), self._end.date()):
            times = times_between(self._recurrence.times_on(day), day, None, self._end)
            midnight = midnight_of(day)
            steady = self._constant_offset(day) if many else None
            edge = midnight.replace(tzinfo=UTC) - SCAN_MARGIN
            passed = sorted(near if steady is not None else (at for at in near if at < edge))
            if count <= len(passed):
                return passed[count - 1]
            count -= len(passed)
            near.difference_update(passed)
            if steady is None:
                found = list(self._resolved(midnight + of_day for of_day in times))
                near.update(each.due_at for each in found if isinstance(each, Occurrence))
                skipped = _count_skipped(skipped, found)
            elif count <= len(times):
                return (midnight + times[count - 1] - steady).replace(tzinfo=UTC)
            else:
                count -= len(times)
        return sorted(near)[count - 1] if count <= len(near) else None

    def _constant_offset(self, day: date) -> timedelta | None:
        offsets = day_offsets(self.timezone, day.year, day.month)[day.day - 1]
        return offsets.least if offsets.is_constant else None

    def _first(self, low: datetime, high: datetime) -> Occurrence | None:
        """Return the first occurrence of the local times in [low, high)."""
        nominals, skipped = nominals_of(self, low, high), 0
        while some := list(islice(nominals, _TOGETHER)):
            found = list(self._resolved(some))
            for each in found:
                if isinstance(each, Occurrence):
                    return each
            skipped = _count_skipped(skipped, found)
        return None

    def _resolved(self, nominals: Iterable[datetime]) -> Iterator[Occurrence | Skipped]:
        return resolve_all(list(nominals), load_zone(self.timezone), self.gap, self.fold)


def _count_skipped(before: int, found: Iterable[Occurrence | Skipped]) -> int:
    """Add the times that gaps skip. Refuses a rule with so many that the count might not end."""
    skipped = before + sum(isinstance(each, Skipped) for each in found)
    if skipped > _SKIPPED_MAX:
        raise field_error(
            "rrule",
            "it has too few occurrences: where clocks go forward, more than "
            f"{_SKIPPED_MAX:,} of its times are skipped",
            "`gap: shift_forward`, or times that exist on every day",
        )
    return skipped
