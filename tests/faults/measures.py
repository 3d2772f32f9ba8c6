"""How fast a site works, by the ledger's rows and their times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from .programs import eventually

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from .site import Site

ENDED: Final = """
select count(*) from ledger.transition t
join ledger.due_item i using (effective_date, item_no)
join ledger.flow using (flow_no) join ledger.kind k using (kind_no)
where t.at >= $1 and t.at < $2 and t.event in (5, 11, 12, 13, 14)
  and ($3::text[] is null or k.name = any ($3))
"""
WAITING: Final = """
select (select count(*) from ledger.pending where available_at <= ledger.now())
  + (select count(*) from ledger.open_item)
"""
OPEN_DUE: Final = """
select count(*) from (
  select item_no, effective_date from ledger.pending
  union all select item_no, effective_date from ledger.open_item) o
join ledger.due_item i using (effective_date, item_no) where i.due_at <= $1
"""
LAST_ENDED: Final = """
select max(t.at) from ledger.due_item i join ledger.transition t using (effective_date, item_no)
where i.due_at <= $1 and t.event in (5, 11, 12, 13, 14)
"""
# When the number of items that ended in each span of so many seconds first reached so many.
BACK: Final = """
with span as (
  select floor(extract(epoch from t.at - $1::timestamptz) / $3::double precision) as number,
    count(*) as items
  from ledger.transition t
  where t.at >= $1 and t.event in (5, 11, 12, 13, 14)
  group by 1)
select min(number) * $3 from span where items >= $2::double precision * $3
"""
LAGS: Final = """
with started as (
  select u.item_no, min(r.started_at) as at, min(c.topic || '/' || c.partition) as place
  from ledger.run r
  join ledger.claim c on c.fence = r.fence and c.claimed_at = r.claimed_at
  cross join lateral unnest(c.item_no[r.from_position:r.to_position]) u (item_no)
  group by 1)
select count(s.at) as items,
  coalesce(percentile_cont(0.5) within group (order by extract(epoch from s.at - i.due_at)), 0)
    as median_seconds,
  coalesce(percentile_cont(0.99) within group (order by extract(epoch from s.at - i.due_at)), 0)
    as p99_seconds
from ledger.due_item i
join ledger.flow using (flow_no) join ledger.kind k using (kind_no)
join started s using (item_no)
where i.due_at >= $1 and i.due_at < $2 and k.name = any ($3) and s.place <> all ($4::text[])
"""
# Of each partition of a topic, the worker that started its last run before a time.
PLACES: Final = """
with last as (
  select distinct on (c.topic, c.partition) c.topic, c.partition, r.worker_no
  from ledger.run r join ledger.claim c on c.fence = r.fence and c.claimed_at = r.claimed_at
  where r.started_at < $1 and c.partition >= 0
  order by c.topic, c.partition, r.started_at desc)
select coalesce(array_agg(topic || '/' || partition), '{}') from last
where worker_no = (select worker_no from last join ledger.kind k on k.topic = last.topic
  where k.name = $2 limit 1)
"""


class Lags(NamedTuple):
    """From when items were due until they were started first."""

    items: int
    median_seconds: float
    p99_seconds: float


async def after(site: Site, start: datetime, seconds: float) -> datetime:
    """Return a time so long after another one, once it has come by the server's clock."""

    async def come() -> bool:
        return (await site.now() - start).total_seconds() >= seconds

    await eventually(come)
    return await eventually(site.now)


async def ended_per_second(
    site: Site, since: datetime, until: datetime, kinds: Collection[str] | None = None
) -> float:
    """Return how many items ended a second, of all kinds or of these."""
    ended = await site.fetchval(ENDED, since, until, None if kinds is None else list(kinds))
    return ended / (until - since).total_seconds()


async def count_open_due(site: Site, due_at: datetime) -> int:
    """Count the items due by then that have not ended."""
    return await site.fetchval(OPEN_DUE, due_at)


async def count_waiting(site: Site) -> int:
    """Count the items that may be claimed or are handed out; it is cheap beside many later ones."""
    return await site.fetchval(WAITING)


async def last_ended(site: Site, due_at: datetime) -> datetime:
    """Return when the last of the items due by then ended."""
    return await site.fetchval(LAST_ENDED, due_at)


async def seconds_until_back(
    site: Site, since: datetime, per_second: float, *, span_seconds: float = 1.0
) -> float:
    """Return after how long so many items ended a second, for a span."""
    found = await site.fetchval(BACK, since, per_second, span_seconds)
    return float("inf") if found is None else found


async def places_of_worker(site: Site, kind: str, before: datetime) -> list[str]:
    """Return the partitions that the worker of a kind read last: `<topic>/<partition>`."""
    return await site.fetchval(PLACES, before, kind)


async def lags(
    site: Site,
    since: datetime,
    until: datetime,
    kinds: Collection[str],
    *,
    without: Collection[str] = (),
) -> Lags:
    """Return how late the items of these kinds were started that were due in a time.

    Those of the partitions `without` are left out.
    """
    async with site.connected() as connection:
        row = await connection.fetchrow(LAGS, since, until, list(kinds), list(without))
    assert row is not None
    return Lags(*row)
