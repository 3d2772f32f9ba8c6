"""Results of the items that were due on each day, and in each hour, of the last weeks."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Any, Final, NamedTuple

from dueledger.ledger.store import Connection
from dueledger.ledger.store.past_load import (
    DueResults,
    PastLoadCount,
    SumMinutes,
    SumSpan,
    list_past_days,
    list_past_hours,
    list_past_kinds,
    rank_past_kinds,
    read_past_load_count,
)

DAYS: Final = 28
DAYS_MAX: Final = 35
KINDS_RANKED_MAX: Final = 300
"""Kinds that are listed worst first; more are listed by name."""
_DAY: Final = timedelta(days=1)
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_QUARTER: Final = timedelta(minutes=15)
_DAY_SUMS: Final[tuple[SumMinutes, ...]] = (1440, 360, 60, 15)
_HOUR_SUMS: Final[tuple[SumMinutes, ...]] = (60, 15)
_QUARTER_SUMS: Final[tuple[SumMinutes, ...]] = (15,)
_SPANS_KEPT_MAX: Final = 64


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


class KindPlace(NamedTuple):
    """The place of a kind in a list. `rank` is less the more of its items were late or open."""

    rank: int
    tenant: str
    kind: str

    @property
    def name(self) -> KindName:
        """Return the names of the kind."""
        return KindName(self.tenant, self.kind)


@dataclass(frozen=True, slots=True)
class KindPage:
    """A page of kinds, and the results of those that had items; None: it is the last."""

    names: Sequence[KindName]
    days: Mapping[KindName, KindDays]
    next_place: KindPlace | None
    is_ranked: bool


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
        days = self._days(asked)
        if not days:
            return []
        names = await list_past_kinds(
            connection,
            days[0],
            days[-1],
            tenants=tenants,
            tenant=tenant,
            kind=kind,
            after=after,
            limit=limit,
        )
        return await _days_of(connection, names, days)

    async def page_days(
        self,
        connection: Connection,
        asked: PastDays,
        *,
        tenants: Sequence[str] | None,
        tenant: str | None = None,
        kind: str | None = None,
        after: KindPlace | None = None,
        limit: int,
        others: Collection[KindName] = (),
    ) -> KindPage:
        """Return a page of the kinds that had items, and of others, those in most trouble first.

        That is how many of their items were completed late or not at all, on the days in UTC.
        """
        scope: dict[str, Any] = {"tenants": tenants, "tenant": tenant, "kind": kind}
        days, ranks = self._days(asked), dict[KindName, int]()
        is_ranked = True
        if days:
            rows = await rank_past_kinds(
                connection, days[0] - _DAY, days[-1], **scope, limit=KINDS_RANKED_MAX + 1
            )
            is_ranked = len(rows) <= KINDS_RANKED_MAX
            ranks = {KindName(*name): count for *name, count in rows if count is not None}
        found = list[KindDays]()
        if not is_ranked:
            name = None if after is None else after.name
            found = await self.list_days(connection, asked, **scope, after=name, limit=limit + 1)
            ranks = dict.fromkeys((each.name for each in found), 0)
        named = {**dict.fromkeys(others, 0), **ranks}
        places = sorted(KindPlace(-count, *name) for name, count in named.items())
        places = [each for each in places if after is None or each > after]
        names = [each.name for each in places[:limit]]
        if is_ranked and days:
            found = await _days_of(connection, names, days)
        next_place = places[limit - 1] if len(places) > limit else None
        return KindPage(names, {each.name: each for each in found}, next_place, is_ranked)

    def _days(self, asked: PastDays) -> tuple[datetime, ...]:
        """Return where the days that are counted begin, and where the last one ends."""
        begins, until = asked.begins, self.until
        if until is None or until <= begins[0]:
            return ()
        return (*(each for each in begins[:-1] if each < until), min(until, begins[-1]))

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
            (begins[0], min(until, begins[-1])), _HOUR_SUMS if is_whole else _QUARTER_SUMS
        )
        minutes = 15 if is_shifted else 60
        found = await list_past_hours(
            connection, spans, minutes=minutes, tenants=tenants, kind=kind
        )
        if not is_shifted:
            return found
        by_hour = groupby(found, key=lambda begins: hour_of(begins, zone))
        return {hour: DueResults.total(map(found.__getitem__, begins)) for hour, begins in by_hour}


async def _days_of(
    connection: Connection, names: Sequence[tuple[str, str]], days: tuple[datetime, ...]
) -> list[KindDays]:
    rows = await list_past_days(connection, names, days, spans_of(days, _DAY_SUMS))
    return [
        KindDays(KindName(*name), {row.day: row.results for row in found})
        for name, found in groupby(rows, key=lambda row: (row.tenant, row.kind))
    ]


async def read_past_load(connection: Connection) -> PastLoad:
    """Return of which time the past load is known."""
    return PastLoad(await read_past_load_count(connection))


def hour_of(instant: datetime, zone: tzinfo) -> datetime:
    """Return the begin of the hour, as clocks of the zone show it, in which an instant is."""
    local = instant.astimezone(zone)
    return instant - timedelta(minutes=local.minute, seconds=local.second)


@lru_cache(maxsize=_SPANS_KEPT_MAX)
def spans_of(bounds: tuple[datetime, ...], sizes: tuple[SumMinutes, ...]) -> Sequence[SumSpan]:
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
