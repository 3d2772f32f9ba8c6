-- List open items that are due before an instant, past their SLA, or in flight, the first due first; up to a limit of items is read of each flow, and of all.
-- returns: one or more, without an id if nothing was found
-- roles: auditor, operator
-- $1 tenants text[]
-- $2 tenant text
-- $3 kind text
-- $4 lane text
-- $5 business_key text
-- $6 state text
-- $7 label text
-- $8 label_value text
-- $9 due_from timestamptz
-- $10 due_before timestamptz
-- $11 after_due_at timestamptz
-- $12 after_no bigint
-- $13 past_sla boolean
-- $14 read_max integer
-- $15 read_total_max integer
-- $16 limit integer
-- $17 in_flight boolean
-- $18 definition_nos bigint[]
-- $19 attempt_min integer
-- $20 worker text
-- $21 serial boolean
-- $22 blocked boolean
-- index: pending_available_idx, pending_retry_idx, pending_serial_idx, pending_snoozed_idx, pending_pkey, expedited_due_idx, review_flow_idx, due_item_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default),
scope as materialized (
  select f.flow_no, k.grace_seconds
  from ledger.flow f
  join ledger.kind k on k.kind_no = f.kind_no
  where ($1::text[] is null or f.tenant = any ($1::text[])) and ($2::text is null or f.tenant = $2::text)
    and ($3::text is null or f.kind = $3::text) and ($4::text is null or f.lane = $4::text)
),
-- With many flows fewer items are read of each.
flow_max as materialized (
  select least($14::integer, greatest(1, $15::integer / greatest(count(*), 1)))::integer as items from scope
),
wanted as materialized (
  select ledger.now() as now, (select n.state from ledger.state n where n.name = $6::text) as state
),
-- What was made available before it is due is no more among what is available after the cursor's due time.
expedited as materialized (
  select x.* from scope s
  cross join lateral (
    select x.flow_no, s.grace_seconds, x.item_no from ledger.expedited x
    where x.flow_no = s.flow_no and (x.due_at, x.item_no) > ($11::timestamptz, $12::bigint)
    order by x.due_at, x.item_no limit (select m.items from flow_max m)) x
  where not $17::boolean and not $21::boolean
),
read_items as materialized (
  select s.flow_no, s.grace_seconds, p.*
  from scope s
  cross join lateral (
    -- What was never started, nor snoozed, and is available in 5 minutes or later is due then: other waits for a first start end in a minute.
    (select p.item_no, p.effective_date, p.state, p.attempt, p.available_at, 1 as source,
      p.starts = 0 and p.snoozed_until is null and p.available_at > (select w.now + interval '5 minutes' from wanted w) as is_ahead
     from ledger.pending p
     where not $21::boolean and p.flow_no = s.flow_no and p.state = 1 /* Scheduled */ and p.serial is null
      and p.available_at >= coalesce($11::timestamptz, '-infinity')
     order by p.available_at limit (select m.items from flow_max m))
    union all
    (select p.item_no, p.effective_date, p.state, p.attempt, p.available_at, 2, false from ledger.pending p
     where not $21::boolean and p.flow_no = s.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null
      and p.available_at >= coalesce($11::timestamptz, '-infinity')
     order by p.available_at limit (select m.items from flow_max m))
    union all
    -- What a person snoozed is available long after it is due. The first ones may be among those above, too.
    (select p.item_no, p.effective_date, p.state, p.attempt, p.available_at, 7, false from ledger.pending p
     where not $21::boolean and p.flow_no = s.flow_no and p.snoozed_until is not null and p.serial is null
     order by p.available_at limit (select m.items from flow_max m))
    union all
    (select p.item_no, p.effective_date, p.state, p.attempt, p.available_at, 3, false from ledger.pending p
     where not $22::boolean and p.flow_no = s.flow_no and p.serial is not null
     order by p.state, p.available_at limit (select m.items from flow_max m))
    union all
    (select p.item_no, p.effective_date, p.state, p.attempt, p.available_at, 3, false from ledger.pending p
     where $22::boolean and p.flow_no = s.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null
      and p.available_at = 'infinity' limit (select m.items from flow_max m))
    union all
    (select p.item_no, p.effective_date, p.state, p.attempt, p.available_at, 3, false from ledger.pending p
     where $22::boolean and p.flow_no = s.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is not null
      and p.available_at = 'infinity' limit (select m.items from flow_max m))
    union all
    (select r.item_no, r.effective_date, 5::smallint /* ManualReview */, r.attempt, null::timestamptz, 4, false from ledger.review r
     where not $21::boolean and r.flow_no = s.flow_no limit (select m.items from flow_max m))
  ) p
  where not $17::boolean
  union all
  select x.flow_no, x.grace_seconds, p.item_no, p.effective_date, p.state, p.attempt, p.available_at, 6, false
  from expedited x
  cross join lateral (
    select p.* from ledger.pending p
    where p.item_no = x.item_no and p.serial is null and p.available_at < $11::timestamptz offset 0) p
  union all
  -- No index has the items in flight of a flow: those of claims with such a flow are asked for theirs.
  (select null::integer, null::double precision, o.item_no, o.effective_date, o.state, o.attempt, null::timestamptz, 5, false
   from ledger.list_in_flight(array(select s.flow_no from scope s)) o
   cross join lateral (
     select i.flow_no, i.due_at from ledger.due_item i
     where i.effective_date = o.effective_date and i.item_no = o.item_no offset 0
   ) i
   where not $21::boolean and o.state = coalesce((select w.state from wanted w), o.state)
     and ($19::integer is null or o.attempt >= $19::integer)
     and ($20::text is null or o.worker_no = (select a.actor_no from ledger.actor a where a.name = $20::text))
     and (i.flow_no in (select s.flow_no from scope s)) is true  -- hashed once, and not joined
     and ($11::timestamptz is null or (i.due_at, o.item_no) > ($11::timestamptz, $12::bigint))
   order by i.due_at, o.item_no limit $14::integer)
),
-- Of items that are due when they are available no more than a page is looked up, and none of them is late.
examined as materialized (
  (select r.item_no, r.effective_date, r.state, r.attempt, r.available_at, r.grace_seconds
   from read_items r
   where not r.is_ahead and ($6::text is null or r.state = (select w.state from wanted w))
     and ($19::integer is null or r.attempt >= $19::integer)
   order by r.available_at nulls first limit $15::integer)
  union all
  (select r.item_no, r.effective_date, r.state, r.attempt, r.available_at, r.grace_seconds
   from read_items r
   where r.is_ahead and not $13::boolean and ($6::text is null or r.state = (select w.state from wanted w))
     and ($19::integer is null or r.attempt >= $19::integer)
     and ($9::timestamptz is null or r.available_at >= $9::timestamptz)
     and ($10::timestamptz is null or r.available_at < $10::timestamptz)
     and ($11::timestamptz is null or (r.available_at, r.item_no) > ($11::timestamptz, $12::bigint))
   order by r.available_at, r.item_no
   limit case when $5::text is null and $7::text is null and $18::bigint[] is null then $16::integer end)
),
page as materialized (
  select distinct on (i.due_at, i.item_no) i.*, r.state, r.attempt, r.available_at
  from examined r
  cross join lateral (  -- `offset 0`: each is found by its key, however few rows the plan was made for
    select i.id, i.flow_no, i.item_no, i.business_key, i.cycle, i.effective_date, i.due_at, i.start_by, i.complete_by, i.labels,
      i.definition_no
    from ledger.due_item i where i.effective_date = r.effective_date and i.item_no = r.item_no offset 0
  ) i
  where ($5::text is null or i.business_key = $5::text)
    and ($7::text is null or i.labels ->> $7::text = $8::text)
    and ($18::bigint[] is null or i.definition_no = any ($18::bigint[]))
    and ($9::timestamptz is null or i.due_at >= $9::timestamptz)
    and ($10::timestamptz is null or i.due_at < $10::timestamptz)
    and ($11::timestamptz is null or (i.due_at, i.item_no) > ($11::timestamptz, $12::bigint))
    and (not $13::boolean or ledger.now() > coalesce(i.complete_by, i.due_at + make_interval(secs => coalesce(
      r.grace_seconds, (select s.grace_seconds from scope s where s.flow_no = i.flow_no)))))
  order by i.due_at, i.item_no
  limit $16::integer
),
found as (
  select p.id, f.tenant, f.kind, f.lane, p.business_key, p.cycle, p.effective_date, p.due_at, n.name as state, p.attempt,
    p.available_at, p.item_no, p.start_by, p.complete_by, p.labels
  from page p
  cross join lateral (select f.tenant, f.kind, f.lane from ledger.flow f where f.flow_no = p.flow_no offset 0) f
  cross join lateral (select n.name from ledger.state n where n.state = p.state offset 0) n
)
select f.id, f.tenant, f.kind, f.lane, f.business_key, f.cycle, f.effective_date, f.due_at, f.state, f.attempt, f.available_at,
  null::timestamptz as ended_at, f.item_no, f.start_by, f.complete_by, f.labels, c.is_cut
from (
  -- First attempts are read in the order in which they are due, those not read are due later than the last one. Retries, items
  -- that a person snoozed, and those that wait for their key, may have been due long before they are available.
  select exists (
    select from read_items r
    where r.source <> 1 or r.available_at = 'infinity'
      or r.available_at <= greatest(
        ledger.now(), coalesce($10::timestamptz, case when not $13::boolean then 'infinity'::timestamptz end))
    group by r.flow_no, r.source having count(*) >= case when r.flow_no is null then $14::integer else (select m.items from flow_max m) end)
    or exists (select from expedited x group by x.flow_no having count(*) >= (select m.items from flow_max m))
    or (select count(*) from read_items) > $15::integer as is_cut
) c
left join found f on true
order by f.due_at, f.item_no
