"""Results of the items that were due on each day, and in each hour, of the last weeks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from dueledger.ledger.store import Connection
from dueledger.ledger.store.past_load import (
    DueResults,
    PastLoadCount,
    SumMinutes,
    SumSpan,
    list_past_days,
    list_past_hours,
    read_past_load_count,
)

DAYS: Final = 28
DAYS_MAX: Final = 35
_DAY: Final = timedelta(days=1)
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_QUARTER: Final = timedelta(minutes=15)
_DAY_SUMS: Final[Sequence[SumMinutes]] = (1440, 360, 60, 15)
_HOUR_SUMS: Final[Sequence[SumMinutes]] = (60, 15)
_QUARTER_SUMS: Final[Sequence[SumMinutes]] = (15,)


class KindName(NamedTuple):
    """A kind by its names."""

    tenant: str
    kind: str


@dataclass(frozen=True, slots=True)
class PastDays:
    """Days of a zone, and where each begins in time; `begins` has the end of the last one, too."""

    days: Sequence[date]
    begins: Sequence[datetime]

    @classmethod
    def of(cls, first: date, number: int, zone: tzinfo) -> "PastDays":
        """Return so many days from the first one on."""
        days = [first + place * _DAY for place in range(number)]
        begins = [datetime.combine(day, time(), zone) for day in (*days, days[-1] + _DAY)]
        return cls(days, [each.astimezone(UTC) for each in begins])

    @classmethod
    def until(cls, now: datetime, zone: tzinfo, number: int = DAYS) -> "PastDays":
        """Return the last days, with that of an instant."""
        return cls.of(now.astimezone(zone).date() - (number - 1) * _DAY, number, zone)


@dataclass(frozen=True, slots=True)
class KindDays:
    """Results of the items of a kind, by the place of the day; a day without items has none."""

    name: KindName
    days: Mapping[int, DueResults]


@dataclass(frozen=True, slots=True)
class PastLoad:
    """Of which time the past load is known: items due before `until`; None: nothing is counted."""

    count: PastLoadCount | None

    @property
    def until(self) -> datetime | None:
        """Return the end of the last quarter hour that is counted."""
        if self.count is None:
            return None
        return self.count.as_of - (self.count.as_of - _EPOCH) % _QUARTER

    def knows(self, begins: datetime) -> bool:
        """Return whether what was due from an instant on is counted."""
        if self.count is None or self.until is None:
            return False
        return self.count.counted_from <= begins < self.until

    async def list_days(
        self,
        connection: Connection,
        asked: PastDays,
        *,
        tenants: Sequence[str] | None,
        tenant: str | None = None,
        kind: str | None = None,
        after: KindName | None = None,
        limit: int,
    ) -> list[KindDays]:
        """Return the results of the items of up to `limit` kinds that had some, by their names."""
        begins, until = asked.begins, self.until
        if until is None or until <= begins[0]:
            return []
        days = [*(each for each in begins[:-1] if each < until), min(until, begins[-1])]
        rows = await list_past_days(
            connection,
            days,
            spans_of(days, _DAY_SUMS),
            tenants=tenants,
            tenant=tenant,
            kind=kind,
            after=after,
            limit=limit,
        )
        return [
            KindDays(KindName(*name), {row.day: row.results for row in found})
            for name, found in groupby(rows, key=lambda row: (row.tenant, row.kind))
        ]

    async def list_hours(
        self,
        connection: Connection,
        asked: PastDays,
        zone: tzinfo,
        *,
        tenants: Sequence[str] | None,
        kind: str | None = None,
    ) -> dict[datetime, DueResults]:
        """Return the results by hour of the zone, by time; hours without items are left out."""
        until, begins = self.until, asked.begins
        if until is None:
            return {}
        is_whole = all(each.minute == 0 for each in begins)
        is_shifted = any(each.minute != begins[0].minute for each in begins)
        spans = spans_of(
            [begins[0], min(until, begins[-1])], _HOUR_SUMS if is_whole else _QUARTER_SUMS
        )
        minutes = 15 if is_shifted else 60
        rows = await list_past_hours(connection, spans, minutes=minutes, tenants=tenants, kind=kind)
        if not is_shifted:
            return dict(rows)
        sums: dict[datetime, DueResults] = {}
        for at, results in rows:
            hour = hour_of(at, zone)
            sums[hour] = sums[hour].plus(results) if hour in sums else results
        return sums


async def read_past_load(connection: Connection) -> PastLoad:
    """Return of which time the past load is known."""
    return PastLoad(await read_past_load_count(connection))


def hour_of(instant: datetime, zone: tzinfo) -> datetime:
    """Return the begin of the hour, as clocks of the zone show it, in which an instant is."""
    local = instant.astimezone(zone)
    return instant - timedelta(minutes=local.minute, seconds=local.second)


def spans_of(bounds: Sequence[datetime], sizes: Sequence[SumMinutes]) -> list[SumSpan]:
    """Return the longest sums of these sizes, longest first, that add up to each time of a list.

    Those of one size that follow one another are one span.
    """
    spans: list[SumSpan] = []
    for begins, ends in pairwise(bounds):
        for each in _sums_between(begins, ends, sizes):
            if spans and (spans[-1].minutes, spans[-1].ends) == each[:2]:
                spans[-1] = spans[-1]._replace(ends=each.ends)
            else:
                spans.append(each)
    return spans


def _sums_between(
    begins: datetime, ends: datetime, sizes: Sequence[SumMinutes]
) -> Iterator[SumSpan]:
    longest, *shorter = sizes
    size = timedelta(minutes=longest)
    first, last = begins + (_EPOCH - begins) % size, ends - (ends - _EPOCH) % size
    if not shorter or first >= last:
        if begins < ends:
            yield from (
                _sums_between(begins, ends, shorter)
                if shorter
                else [SumSpan(longest, begins, ends)]
            )
        return
    yield from _sums_between(begins, first, shorter)
    yield SumSpan(longest, first, last)
    yield from _sums_between(last, ends, shorter)
