-- A monitor asks every few seconds, on any ledger. Each part of a count is read from an index that begins with the flow,
-- up to a limit; items in flight are found through the few claims and runs that are open. A plan is made for a full
-- ledger, whatever the session of the monitor has set.
create function ledger.measure_depth(
  up_to integer default 10000, of_flows integer[] default null, counts_waiting boolean default true
) returns table (
  tenant text, kind text, lane text, topic text, count_max integer,
  due integer, available_since timestamptz, waiting integer, blocked integer, retrying integer,
  claimed integer, running integer, parked integer
)
  language sql stable security definer set search_path = pg_catalog, pg_temp
  set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  with locked_default as (select from ledger.due_item_default),
  asked as materialized (
    select n.flow_no from unnest(of_flows) n (flow_no)
  ),
  bounds as materialized (
    select least(greatest(up_to, 1), greatest(200000 / greatest(f.flows, 1), 100))::integer as count_max,
      100000 as open_max, ledger.now() as now
    from (select coalesce(cardinality(of_flows), (select count(*) from ledger.flow)) as flows) f
  ),
  open_items as materialized (
    select o.item_no, o.effective_date, o.is_running
    from (
      select u.item_no, u.effective_date, false as is_running
      from ledger.claim c
      cross join lateral unnest(c.item_no[c.started + 1:], c.effective_date[c.started + 1:]) u (item_no, effective_date)
      where c.closed_at is null and c.deadline > '-infinity' and c.flow_no is null
        and (of_flows is null or c.flow_nos is null or exists (
          select from unnest(c.flow_nos) n (flow_no) where (n.flow_no in (select a.flow_no from asked a)) is true))
      union all
      select u.item_no, u.effective_date, true
      from ledger.run r
      join ledger.claim c on c.fence = r.fence and c.claimed_at = r.claimed_at
      cross join lateral unnest(
        c.item_no[r.from_position:r.to_position], c.effective_date[r.from_position:r.to_position]
      ) with ordinality u (item_no, effective_date, n)
      where r.closed_at is null and r.lease_until > '-infinity' and r.flow_no is null
        and get_bit(r.ended, u.n::integer - 1) = 0
        and (of_flows is null or c.flow_nos is null or exists (
          select from unnest(c.flow_nos) n (flow_no) where (n.flow_no in (select a.flow_no from asked a)) is true))
    ) o
    limit (select open_max + 1 from bounds)
  ),
  in_flight as materialized (
    select o.flow_no, sum(o.claimed)::integer as claimed, sum(o.running)::integer as running
    from (
      select i.flow_no, (not o.is_running)::integer as claimed, o.is_running::integer as running
      from open_items o join ledger.due_item i on i.effective_date = o.effective_date and i.item_no = o.item_no
      where (select count(*) from open_items) <= (select open_max from bounds)
      union all
      select c.flow_no, c.size - c.started, 0
      from ledger.claim c
      where c.closed_at is null and c.flow_no is not null
      union all
      select r.flow_no, 0, bit_length(r.ended) - bit_count(r.ended)::integer
      from ledger.run r
      where r.closed_at is null and r.flow_no is not null
    ) o
    group by o.flow_no
  )
  select k.tenant, k.name, f.lane, k.topic, b.count_max,
    due.items, due.since, case when counts_waiting then later.items end, blocked.items, least(due.retries + later.retries, b.count_max),
    case when open.items <= b.open_max then coalesce(h.claimed, 0) end,
    case when open.items <= b.open_max then coalesce(h.running, 0) end,
    parked.items
  from bounds b
  join ledger.flow f on of_flows is null or (f.flow_no in (select a.flow_no from asked a)) is true
  join ledger.kind k on k.kind_no = f.kind_no
  left join in_flight h on h.flow_no = f.flow_no
  cross join (select count(*) as items from open_items) open
  cross join lateral (
    select least(count(*), b.count_max)::integer as items, min(p.available_at) as since,
      least(count(*) filter (where p.is_retry), b.count_max)::integer as retries
    from (
      (select p.available_at, false from ledger.pending p
       where p.flow_no = f.flow_no and p.state = 1 /* Scheduled */ and p.serial is null and p.available_at <= b.now
       order by p.available_at limit b.count_max)
      union all
      (select p.available_at, true from ledger.pending p
       where p.flow_no = f.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null and p.available_at <= b.now
       order by p.available_at limit b.count_max)
      union all
      (select p.available_at, false from ledger.pending p
       where p.flow_no = f.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null and p.available_at <= b.now
       order by p.available_at limit b.count_max)
      union all
      (select p.available_at, true from ledger.pending p
       where p.flow_no = f.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is not null and p.available_at <= b.now
       order by p.available_at limit b.count_max)
    ) p (available_at, is_retry)
  ) due
  cross join lateral (
    select least(count(*), b.count_max)::integer as items,
      least(count(*) filter (where p.is_retry), b.count_max)::integer as retries
    from (
      (select false from ledger.pending p
       where p.flow_no = f.flow_no and p.state = 1 /* Scheduled */ and p.serial is null and p.available_at > b.now
       limit case when counts_waiting then b.count_max else 0 end)
      union all
      (select true from ledger.pending p
       where p.flow_no = f.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null and p.available_at > b.now
       limit b.count_max)
      union all
      (select false from ledger.pending p
       where p.flow_no = f.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null
         and p.available_at > b.now and p.available_at < 'infinity'
       limit case when counts_waiting then b.count_max else 0 end)
      union all
      (select true from ledger.pending p
       where p.flow_no = f.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is not null
         and p.available_at > b.now and p.available_at < 'infinity'
       limit b.count_max)
    ) p (is_retry)
  ) later
  cross join lateral (
    select least(count(*), b.count_max)::integer as items
    from (
      (select from ledger.pending p
       where p.flow_no = f.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null and p.available_at = 'infinity'
       limit b.count_max)
      union all
      (select from ledger.pending p
       where p.flow_no = f.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is not null
         and p.available_at = 'infinity'
       limit b.count_max)
    ) p
  ) blocked
  cross join lateral (
    select count(*)::integer as items
    from (select from ledger.review r where r.flow_no = f.flow_no limit b.count_max) r
  ) parked
$$;

comment on function ledger.measure_depth is
  'Counts of the items of each flow that have not ended, read from indexes. A count equal to count_max means that many or '
  'more. count_max is up_to, or less for many flows: 200,000 divided by their number, at least 100. claimed and running are '
  'null while more than 100,000 items of flows without a limit are in flight. of_flows: these alone; null: all. Without '
  'counts_waiting, waiting is null: most items of a ledger may wait, and who wants the other counts need not read them.';
revoke execute on function ledger.measure_depth from public;
