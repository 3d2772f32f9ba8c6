-- Read of each flow with open items how many are due and since when, and what may hinder their claims; the flow that waits longest first.
-- returns: zero or more
-- roles: auditor, operator
-- $1 tenant text
-- $2 kind text
-- $3 lane text
-- $4 topic_window_items integer
-- $5 sample_max integer
-- $6 limit integer
-- $7 tenants text[]
-- $8 count_max integer
-- $9 flow_tenants text[]
-- $10 flow_kinds text[]
-- $11 flow_lanes text[]
-- index: pending_available_idx, pending_retry_idx, pending_serial_idx, claim_flow_idx, run_flow_idx, review_flow_idx, due_item_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default),
asked as materialized (
  select array_agg(f.flow_no) as flow_nos
  from ledger.flow f
  where ($1::text is null or f.tenant = $1::text) and ($2::text is null or f.kind = $2::text)
    and ($3::text is null or f.lane = $3::text) and ($7::text[] is null or f.tenant = any ($7::text[]))
    and ($9::text[] is null or (f.tenant, f.kind, f.lane) in (select u.* from unnest($9::text[], $10::text[], $11::text[]) u))
),
open_flows as materialized (
  select d.*, f.flow_no, count(*) over () as flows, (sum(d.due) over ())::bigint as all_due, (sum(d.parked) over ())::bigint as all_parked,
    (sum(d.claimed + d.running) over ())::bigint as all_in_flight,
    bool_or(d.due >= d.count_max) over () as all_due_capped, bool_or(d.parked >= d.count_max) over () as all_parked_capped
  from ledger.measure_depth($8::integer, coalesce((select a.flow_nos from asked a), '{}'), false) d
  join ledger.flow f on f.tenant = d.tenant and f.kind = d.kind and f.lane = d.lane
  -- claimed and running are null while too many items are in flight to be counted
  where (d.due > 0 or d.blocked > 0 or d.retrying > 0 or d.parked > 0 or d.claimed > 0 or d.running > 0 or d.claimed is null)
  order by d.available_since, d.tenant, d.kind, d.lane
  limit $6::integer
),
-- No index has the items in flight of a flow: some of all are looked at.
in_flight as materialized (
  select i.flow_no, i.due_at, i.complete_by
  from (
    select h.item_no, h.effective_date from ledger.list_in_flight(array(select f.flow_no from open_flows f)) h limit 200
  ) h
  cross join lateral (
    select i.flow_no, i.due_at, i.complete_by from ledger.due_item i
    where i.effective_date = h.effective_date and i.item_no = h.item_no offset 0
  ) i
),
waiting as materialized (
  select c.topic, sum(c.size - c.started) as items
  from ledger.claim c
  where c.closed_at is null and c.batch_max is null and c.topic_actor_no is null
  group by c.topic
)
select o.flow_no, o.tenant, o.kind, o.lane, o.topic, o.flows, o.all_due, o.all_due_capped, o.all_parked, o.all_parked_capped, o.all_in_flight,
  o.due, o.due >= o.count_max as due_capped, oldest.due_at as oldest_due_at, oldest.is_late as is_past_sla,
  oldest.late_due_at, oldest.late_wait,
  o.blocked, o.blocked >= o.count_max as blocked_capped, o.retrying, o.retrying >= o.count_max as retrying_capped,
  o.parked, o.parked >= o.count_max as parked_capped, o.claimed, o.running as started,
  f.paused_at, f.circuit, f.rate_per_second, ledger.tokens_now(f.rate_per_second, f.tokens, f.tokens_at) as tokens,
  f.concurrency_max,
  case when k.settled_by = 'topic' then coalesce(f.window_items, $4::integer) else f.window_items end as window_items,
  k.settled_by, k.dispatch, handed.items as handed_out, running.items as running,
  credit.granted, credit.grants, coalesce(w.items, 0)::bigint as outstanding,
  (select s.since from ledger.silent_topic s where k.settled_by = 'topic' and s.topic = k.topic) as silent_since,
  (select min(s.stalled_at) from ledger.stalled_partition s where s.topic = k.topic) as stalled_since,
  pg_is_in_recovery() as is_standby, current_setting('default_transaction_read_only')::boolean as is_read_only
from open_flows o
join ledger.flow f on f.flow_no = o.flow_no
join ledger.kind k on k.kind_no = f.kind_no
left join waiting w on w.topic = k.topic
cross join lateral (
  select coalesce(sum(g.items), 0)::bigint as granted, count(*) as grants from ledger.credit g
  where g.topic = k.topic and g.granted_until > ledger.machine_now()
) credit
cross join lateral (
  select coalesce(sum(c.size - c.started), 0)::bigint as items
  from ledger.claim c where c.flow_no = o.flow_no and c.closed_at is null
) handed
cross join lateral (
  select coalesce(sum(bit_length(r.ended) - bit_count(r.ended)), 0)::bigint as items
  from ledger.run r where r.flow_no = o.flow_no and r.closed_at is null
) running
-- The items that have waited longest are those due first, but for retries: of these, and of a sample of the others. Of those that
-- cannot be claimed now, a few of each flow.
cross join lateral (
  select min(w.due_at) filter (where w.wait = 'due') as due_at, bool_or(w.is_late) as is_late,
    min(w.due_at) filter (where w.is_late) as late_due_at,
    (array_agg(w.wait order by w.due_at, w.wait = 'blocked') filter (where w.is_late))[1] as late_wait
  from (
    select i.wait, i.due_at, coalesce(i.complete_by, i.due_at + make_interval(secs => k.grace_seconds)) < ledger.now() as is_late
    from (
      select p.wait, i.due_at, i.complete_by
      from (
        (select p.item_no, p.effective_date, 'due' as wait from ledger.pending p
         where p.flow_no = o.flow_no and p.state = 1 /* Scheduled */ and p.serial is null and p.available_at <= ledger.now()
         order by p.available_at limit $5::integer)
        union all
        (select p.item_no, p.effective_date, 'due' from ledger.pending p
         where p.flow_no = o.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null and p.available_at <= ledger.now()
         order by p.available_at limit $5::integer)
        union all
        (select p.item_no, p.effective_date, 'due' from ledger.pending p
         where p.flow_no = o.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null and p.available_at <= ledger.now()
         order by p.available_at limit $5::integer)
        union all
        (select p.item_no, p.effective_date, 'due' from ledger.pending p
         where p.flow_no = o.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is not null and p.available_at <= ledger.now()
         order by p.available_at limit $5::integer)
        union all
        (select p.item_no, p.effective_date, 'retrying' from ledger.pending p
         where p.flow_no = o.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null and p.available_at > ledger.now()
         order by p.available_at limit least($5::integer, 5))
        union all
        (select p.item_no, p.effective_date, case when p.available_at < 'infinity' then 'retrying' else 'blocked' end from ledger.pending p
         where p.flow_no = o.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is not null and p.available_at > ledger.now()
         order by p.available_at limit least($5::integer, 5))
        union all
        (select p.item_no, p.effective_date, 'blocked' from ledger.pending p
         where p.flow_no = o.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null and p.available_at >= 'infinity'  -- not `=`: that would be the index of all flows
         order by p.available_at limit least($5::integer, 5))
        union all
        (select r.item_no, r.effective_date, 'parked' from ledger.review r
         where r.flow_no = o.flow_no order by r.parked_at, r.item_no limit least($5::integer, 5))
      ) p
      cross join lateral (  -- `offset 0`: each is found by its key, however few rows the plan was made for
        select i.due_at, i.complete_by from ledger.due_item i
        where i.effective_date = p.effective_date and i.item_no = p.item_no offset 0
      ) i
      union all
      select 'in_flight', h.due_at, h.complete_by from in_flight h where h.flow_no = o.flow_no
    ) i
  ) w
) oldest
order by o.available_since, o.tenant, o.kind, o.lane
