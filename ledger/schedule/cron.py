"""`when: {cron: …}`: a cron expression over local time.

croniter sees naive local times only (aware ones it gets wrong: measured, 19 of 35 reference cases
right), and only expressions in plain numbers.
"""

from collections.abc import Iterator
from copy import copy
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, Final, Self

from croniter import CroniterBadDateError, croniter
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictStr,
    model_validator,
)
from pydantic_core import PydanticCustomError

from ledger.schedule.cron_dialect import CronFields, parse_cron
from ledger.schedule.expressions import ZoneName
from ledger.schedule.resolution import SCAN_MARGIN, Fold, Gap, Window, settle_window
from ledger.schedule.zones import load_zone

# Feb 29 on a given weekday comes every 28 years, every 40 across 2100.
_SEARCH_YEARS_MAX: Final = 50
_DENSE_YEARS: Final = 8  # two leap days: what a person means by "it does happen"
_REFERENCE: Final = datetime(2024, 1, 1)  # noqa: DTZ001 -- naive by design; fixed, so no clock
_SCAN_END: Final = datetime(2300, 1, 1)  # noqa: DTZ001 -- past every search from a due year
_DAYS_OF_MONTH: Final = 31
_MONTHS: Final = 12
_WEEKDAYS: Final = 7


class DayRule(StrEnum):
    """How a restricted day of month and a restricted day of week combine."""

    ANY = "any"  # a day that one of them names, as Vixie cron reads it
    ALL = "all"  # a day that both name


def _checked(expression: str) -> str:
    parse_cron(expression)
    return " ".join(expression.split())


def _default_gap(fields: dict[str, Any]) -> Gap:
    return Gap.SKIP if parse_cron(fields["cron"]).wildcard else Gap.SHIFT_FORWARD


def _default_fold(fields: dict[str, Any]) -> Fold:
    return Fold.BOTH if parse_cron(fields["cron"]).wildcard else Fold.FIRST


class Cron(BaseModel):
    """Nominal times by a cron expression.

    Where the policies are left out, an expression with `*` in a time field means "every so often"
    and gets `skip` and `both`; a fixed time of day is owed once a day: `shift_forward`, `first`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    cron: Annotated[StrictStr, AfterValidator(_checked)]
    timezone: ZoneName
    day_rule: DayRule | None = Field(
        default=None, description="required where both day fields are restricted"
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

    @model_validator(mode="after")
    def _matches_days(self) -> Self:
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
        first = next(self._nominals(_REFERENCE), None)
        if first is not None and first.year < _REFERENCE.year + _DENSE_YEARS:
            return self
        when = "it never falls due" if first is None else f"it first falls due in {first.year}"
        raise PydanticCustomError(
            "refused",
            "{reason}",
            {
                "field": "cron",
                "reason": f"{when}: no occurrence within {_DENSE_YEARS} years",
                "accepted": "days that its months have, or sparse: true if that is meant",
            },
        )

    def expand(self, start: datetime, end: datetime) -> Window:
        """Return what falls into the half-open [start, end)."""
        low = start.astimezone(UTC).replace(tzinfo=None) - SCAN_MARGIN
        high = end.astimezone(UTC).replace(tzinfo=None) + SCAN_MARGIN
        return settle_window(
            self._nominals(low, high), load_zone(self.timezone), (self.gap, self.fold), (start, end)
        )

    def estimate(self, start: datetime, end: datetime) -> float:
        """Return about how many occurrences [start, end) holds, from the numbers alone."""
        fields = self.fields
        of_day = len(fields.seconds) * len(fields.minutes) * len(fields.hours)
        days = len(fields.months) / _MONTHS
        if self.day_rule is not DayRule.ANY:
            days *= len(fields.days) / _DAYS_OF_MONTH * len(fields.weekdays) / _WEEKDAYS
        return of_day * days * ((end - start).total_seconds() / 86_400)

    def _nominals(self, low: datetime, high: datetime = _SCAN_END) -> Iterator[datetime]:
        # A copy has a position of its own and shares what was compiled.
        scan = copy(_compiled(self.fields.canonical, self.day_rule is not DayRule.ALL))
        scan.set_current(low)
        while True:
            try:
                nominal = scan.get_next(datetime)
            except CroniterBadDateError:
                return
            if nominal >= high:
                return
            yield nominal


@lru_cache(maxsize=4096)
def _compiled(canonical: str, day_or: bool) -> "croniter[datetime]":  # noqa: FBT001 -- a cache key
    return croniter(
        canonical,
        _REFERENCE,
        ret_type=datetime,
        day_or=day_or,
        max_years_between_matches=_SEARCH_YEARS_MAX,
    )
