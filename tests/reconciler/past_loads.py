"""The past load as passes recorded it, and as all rows of a ledger say it."""

from datetime import datetime
from typing import Any

from dueledger.ledger.store import Connection

_RECORDED = """
select l.* from ledger.past_load l
where l.quarter >= $1 and l.quarter < date_bin('15 minutes', $2, '2000-01-01T00:00:00Z')
order by tenant, kind, quarter, effective_date
"""
_COUNTED = """
with item as (
  select f.tenant, f.kind, date_bin('15 minutes', i.due_at, '2000-01-01T00:00:00Z') as quarter,
    i.effective_date, e.event,
    e.at > coalesce(i.complete_by, i.due_at + make_interval(secs => k.grace_seconds)) as is_late,
    exists (select from ledger.review r where r.item_no = i.item_no) as is_parked,
    exists (
      select from ledger.transition t
      where t.item_no = i.item_no and t.effective_date = i.effective_date and t.event in (6, 7, 9)
    ) as has_failed
  from ledger.due_item i
  join ledger.flow f on f.flow_no = i.flow_no
  join ledger.kind k on k.kind_no = f.kind_no
  left join lateral (
    select t.event, t.at from ledger.transition t
    where t.item_no = i.item_no and t.effective_date = i.effective_date
      and t.event in (5, 11, 12, 13, 14)
  ) e on true
  where i.due_at >= $1 and i.due_at < date_bin('15 minutes', $2, '2000-01-01T00:00:00Z')
)
select coalesce(tenant, '') as tenant, coalesce(kind, '') as kind, quarter, effective_date,
  count(*) as items,
  count(*) filter (where event = 5) as completed,
  count(*) filter (where event = 5 and is_late) as completed_late,
  count(*) filter (where event is null and is_parked) as in_review,
  count(*) filter (where event in (11, 12, 13)) as withdrawn,
  count(*) filter (where event = 14) as written_off,
  count(*) filter (where has_failed) as had_failures
from item i
group by grouping sets (
  (i.tenant, i.kind, quarter, effective_date), (i.tenant, quarter, effective_date),
  (quarter, effective_date))
order by 1, 2, 3, 4
"""


async def recorded_load(
    connection: Connection, from_at: datetime, before: datetime
) -> list[dict[str, Any]]:
    """Return what passes recorded of a span, of its full quarter hours."""
    return [dict(row) for row in await connection.fetch(_RECORDED, from_at, before)]


async def counted_load(
    connection: Connection, from_at: datetime, before: datetime
) -> list[dict[str, Any]]:
    """Return what all rows say of a span, of its full quarter hours."""
    return [dict(row) for row in await connection.fetch(_COUNTED, from_at, before)]
