"""`when: {cron: …}`: a cron expression over local time.

croniter, on naive local times, is the oracle of its tests.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import (
    AfterValidator,
    Field,
    StrictBool,
    StrictStr,
    model_validator,
)
from pydantic_core import PydanticCustomError

from dueledger.ledger.schedule.cron_dialect import CronFields, parse_cron, stars_time
from dueledger.ledger.schedule.cron_plan import CronPlan, plan_cron
from dueledger.ledger.schedule.expressions import LocalTime, ZoneName
from dueledger.ledger.schedule.local_rule import LocalRule, Preset, ResolutionPolicy, check_bounds
from dueledger.ledger.schedule.local_times import (
    LocalTimesOfDay,
    days_between,
    nominals_of,
    times_between,
)
from dueledger.ledger.schedule.resolution import Fold, Gap
from dueledger.ledger.schedule.zones import load_zone

# Feb 29 on a given weekday comes every 28 years, every 40 across 2100.
_SEARCH: Final = timedelta(days=50 * 365.25)
_DAY: Final = timedelta(days=1)
_INSTANT: Final = timedelta(microseconds=1)
_DENSE_YEARS: Final = 8  # two leap days
_REFERENCE: Final = datetime(2024, 1, 1)  # noqa: DTZ001 -- naive by design; fixed, so no clock


class DayRule(StrEnum):
    """How a restricted day of month and a restricted day of week combine."""

    ANY = "any"  # a day that matches one of them, as in Vixie cron
    ALL = "all"  # a day that matches both


def _checked(expression: str) -> str:
    parse_cron(expression)
    return " ".join(expression.split())


def _default_gap(fields: dict[str, Any]) -> Gap:
    return Gap.SKIP if parse_cron(fields["cron"]).wildcard else Gap.SHIFT_FORWARD


def _default_fold(fields: dict[str, Any]) -> Fold:
    return Fold.BOTH if parse_cron(fields["cron"]).wildcard else Fold.FIRST


class Cron(LocalRule):
    """Nominal times by a cron expression.

    Without policies, an expression with `*` in a time field means "every so often" and has gap
    `skip` and fold `both`; a fixed time of day is due once a day: `shift_forward` and `first`.
    """

    presets: ClassVar[tuple[Preset, ...]] = tuple(Preset)

    cron: Annotated[StrictStr, AfterValidator(_checked)]
    timezone: ZoneName
    start: LocalTime | None = None
    end: LocalTime | None = Field(default=None, description="exclusive")
    day_rule: DayRule | None = Field(
        default=None, description="required if both day fields are restricted"
    )
    sparse: StrictBool = Field(
        default=False, description="accept an expression that may not match for eight years"
    )
    gap: Gap = Field(default_factory=_default_gap)
    fold: Fold = Field(default_factory=_default_fold)

    @property
    def fields(self) -> CronFields:
        """Return the expression as numbers."""
        return parse_cron(self.cron)

    @property
    def begins(self) -> datetime:
        """Return a local time before which it has no occurrence: its start, or its first year."""
        years = self.fields.years if self.fields.restricts_year else ()
        if self.start is None:
            return datetime(years[0], 1, 1) if years else _REFERENCE  # noqa: DTZ001 -- as its start
        following = (datetime(year, 1, 1) for year in years if year > self.start.year)  # noqa: DTZ001
        return self.start if self.start.year in years else next(following, self.start)

    @property
    def ruling(self) -> ResolutionPolicy:
        """Return how its local times are resolved to instants."""
        return ResolutionPolicy(load_zone(self.timezone), self.gap, self.fold)

    @classmethod
    def policies_of(cls, preset: Preset, raw: Mapping[str, object]) -> tuple[Gap, Fold]:
        """Debian runs a job with `*` in its hour or minute by the local clock, as shown."""
        if preset is Preset.DEBIAN and stars_time(raw.get("cron")):
            return Gap.SKIP, Fold.BOTH
        return super().policies_of(preset, raw)

    @model_validator(mode="after")
    def _matches_days(self) -> Self:
        check_bounds(self.start, self.end)
        fields = self.fields
        if fields.restricts_day and fields.restricts_weekday and self.day_rule is None:
            raise PydanticCustomError(
                "refused",
                "{reason}",
                {
                    "field": "day_rule",
                    "reason": "day of month and day of week are both restricted: systems "
                    "disagree on whether one or both must match",
                    "accepted": "day_rule: any (one of them) or day_rule: all (both)",
                },
            )
        if self.sparse:
            return self
        begin = self.begins
        last = begin + _SEARCH
        first = self._plan.first_nominal(begin, last if self.end is None else min(last, self.end))
        if first is not None and first.year < begin.year + _DENSE_YEARS:
            return self
        when = "it never falls due" if first is None else f"it first falls due in {first.year}"
        raise PydanticCustomError(
            "refused",
            "{reason}",
            {
                "field": "cron",
                "reason": f"{when}: no occurrence within {_DENSE_YEARS} years",
                "accepted": "days that exist in its months, or sparse: true if that is intended",
            },
        )

    def estimate(self, start: datetime, end: datetime) -> float:
        """Return about how many occurrences are in [start, end), by days; no time is expanded."""
        if start >= end:
            return 0.0
        fields = self.fields
        of_day = len(fields.seconds) * len(fields.minutes) * len(fields.hours)
        first, last = start.astimezone(UTC).date(), (end - _INSTANT).astimezone(UTC).date()
        days = sum(len(found) for _, _, found in self._plan.days(first, last))
        shown = (last - first).days + 1
        return of_day * days * ((end - start) / _DAY) / shown

    def days(self, first: date, last: date) -> Iterator[date]:
        """Yield the matching days from `first` to `last`, between its own start and end."""
        return self._plan.days_matching(*days_between(first, last, self.start, self.end))

    def times_on(self, day: date) -> LocalTimesOfDay:
        """Return its times of a day between its own start and end."""
        times = self._plan.times()
        if self.start is None and self.end is None:
            return times
        return times_between(times, day, self.start, self.end)

    def nominals(self, low: datetime, high: datetime) -> Iterator[datetime]:
        """Return the local times in [low, high) and between its own start and end, in order."""
        return nominals_of(self, low, high)

    @property
    def shortest_period(self) -> timedelta | None:
        """The shortest time between two nominal occurrences, None where there are no two."""
        return self._plan.shortest_period()

    @cached_property
    def _plan(self) -> CronPlan:
        return plan_cron(self.cron, self.day_rule is not DayRule.ALL)
