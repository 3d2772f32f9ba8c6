-- Delete due items from `pending` (Scheduled, RetryableFailure to Claimed once their claims are recorded in the same transaction).
-- returns: one or more: one a group of items with the same date, attempt, starts and batch_max; last, the number of rows deleted, the time of the claim, and of flows: since when the first of its items was available, of each flow asked for; with fences, without due retries, when the next item is due, if within a minute, and so of each that could have had more than its quota and had fewer than that; without fences, when its last first attempt was available, and the block of that row
-- roles: allocator
-- $1 flow_nos integer[]
-- $2 quotas integer[]
-- $3 floor_ats timestamptz[]
-- $4 floor_blocks bigint[]
-- $5 retry_floor_ats timestamptz[]
-- $6 measured boolean[]
-- $7 with_fences boolean
-- $8 lag_flow_nos integer[]
-- $9 mosts integer[]
-- $10 items_max integer
-- index: pending_available_idx, pending_retry_idx
-- locks: pending rows (for update, skip locked)
with locked_default as (select from ledger.due_item_default),
asked as materialized (
  select q.*, r.has_retries, case when r.has_retries then floor(q.quota * f.retry_share + random())::integer else 0 end as retry_quota
  from unnest($1::integer[], $2::integer[], $3::timestamptz[], $4::bigint[], $5::timestamptz[], $6::boolean[], $9::integer[])
    q (flow_no, quota, floor_at, floor_block, retry_floor_at, measured, most)
  -- A flow that was limited after it was listed is skipped until it is locked and measured.
  join ledger.flow f on f.flow_no = q.flow_no and f.paused_at is null and (q.measured or not f.limited)
  cross join lateral (
    select exists (
      select from ledger.pending p
      where p.flow_no = q.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null
        and p.available_at <= ledger.now() and p.available_at >= q.retry_floor_at) as has_retries
  ) r
),
-- Retries have their share, and also what first attempts do not use; fractions of an item are decided at random. A flow without
-- due retries may have more than its quota, of what the flows after it are then left: one scan instead of several.
firsts as materialized (
  select a.flow_no, x.*
  from asked a
  cross join lateral (
    select p.ctid as tid, p.available_at, p.item_no >> 10 as block
    from ledger.pending p
    where p.flow_no = a.flow_no and p.state = 1 /* Scheduled */ and p.serial is null
      and p.available_at <= ledger.now() and (p.available_at, p.item_no >> 10) >= (a.floor_at, a.floor_block)
    order by p.available_at, p.item_no >> 10
    limit case when a.has_retries then a.quota - a.retry_quota else a.most end
    for update skip locked
  ) x
  limit $10::integer - (select coalesce(sum(a.retry_quota), 0) from asked a)
),
totals as materialized (
  select array_agg(t.flow_no) as flow_nos, array_agg(t.items) as items, array_agg(t.last_at) as last_ats,
    array_agg(t.last_block) as last_blocks
  from (
    select f.flow_no, count(*)::integer as items, max(f.available_at) as last_at, (array_agg(f.block))[count(*)] as last_block
    from firsts f
    group by f.flow_no
  ) t
),
-- The flow at which first attempts were cut off may have more of them, whether or not retries of flows after it follow.
cut as materialized (
  select (array_agg(f.flow_no))[count(*)] as flow_no
  from firsts f
  having not $7::boolean and count(*) >= $10::integer - (select coalesce(sum(a.retry_quota), 0) from asked a)
),
counted as materialized (
  select a.*, coalesce(t.items[array_position(t.flow_nos, a.flow_no)], 0) as items
  from asked a
  cross join totals t
),
retries as materialized (
  select x.tid
  from counted c
  cross join lateral (
    select p.ctid as tid
    from ledger.pending p
    where p.flow_no = c.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null
      and p.available_at <= ledger.now() and p.available_at >= c.retry_floor_at
    order by p.available_at
    limit c.quota - c.items
    for update skip locked
  ) x
  where c.has_retries
  limit $10::integer - (select count(*) from firsts)
),
removed as (
  delete from ledger.pending p
  where p.ctid = any (array(
    select f.tid from firsts f union all select r.tid from retries r))
  returning p.item_no, p.effective_date, p.attempt, p.starts, p.batch_max, p.flow_no, p.available_at
),
grouped as materialized (
  select array_agg(row(g.effective_date, g.item_nos, g.attempt, g.starts, g.batch_max)::ledger.item_group) as groups
  from (
    select r.effective_date, r.attempt, r.starts, r.batch_max, array_agg(r.item_no) as item_nos
    from removed r
    group by r.effective_date, r.attempt, r.starts, r.batch_max
  ) g
)
-- Columns instead of rows take a quarter of the claimer's time. A fence for each item, on request, saves a statement if there
-- are few items. It is drawn after the last row lock.
select i.*, case when $7::boolean then array(select nextval('ledger.fence') from unnest(i.item_nos)) end as fences,
  null::timestamptz as claimed_at, null::bigint as taken, null::integer[] as next_flow_nos, null::timestamptz[] as next_ats,
  null::integer[] as lag_flow_nos, null::timestamptz[] as available_ats,
  null::integer[] as last_flow_nos, null::timestamptz[] as last_ats, null::bigint[] as last_blocks
from grouped g
cross join lateral ledger.find_item_columns(g.groups) i
union all
-- The caller compares the rows deleted with the items found: the plan may lack a partition that the snapshot shows.
select null, null, null, null, null, null, null, null, null, null, null, null, null, null, ledger.now(), d.rows,
  n.flow_nos, n.next_ats, w.flow_nos, w.first_ats, l.flow_nos, l.last_ats, l.last_blocks
from (select count(*) as rows from removed) d
-- Of few items this is less than a statement of its own. Nothing is said of a flow with retries: first attempts that are due
-- may be left. An item that another claimer has locked is left to that one.
cross join lateral (
  select array_agg(x.flow_no) as flow_nos,
    array_agg(case when x.seconds < 60 then ledger.now() + make_interval(secs => x.seconds) end) as next_ats
  from (
    select f.flow_no, (extract(epoch from least(
      (select p.available_at from ledger.pending p
       where p.flow_no = f.flow_no and p.state = 1 /* Scheduled */ and p.serial is null and p.available_at > ledger.now()
       order by p.available_at, p.item_no >> 10 limit 1),
      (select p.available_at from ledger.pending p
       where p.flow_no = f.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null
         and p.available_at > ledger.now()
       order by p.available_at limit 1)) - ledger.now()) / ledger.clock_rate())::double precision as seconds
    from counted f
    where not f.has_retries and ($7::boolean or f.most > f.quota and f.items between 1 and f.most - 1)
      and f.flow_no is distinct from (select c.flow_no from cut c)
  ) x
) n
cross join lateral (
  select array_agg(x.flow_no) as flow_nos, array_agg(x.first_at) as first_ats
  from (
    select r.flow_no, min(r.available_at) as first_at
    from removed r
    where cardinality($8::integer[]) > 0 and r.flow_no = any ($8::integer[])
    group by r.flow_no
  ) x
) w
-- From there on the next claim of a flood scans: otherwise it passes over all rows that this one and those before it deleted.
left join lateral (
  select t.flow_nos, t.last_ats, t.last_blocks from totals t where not $7::boolean
) l on true
