-- A refresh of the overview is some calls of these three functions, each bounded by a number of items. Emission, claims, starts and
-- settlements write nothing for it. Each call locks the row of the reader first, so that none counts beside another.
create function ledger.overview_begin() returns timestamptz
  language sql stable set search_path = pg_catalog, pg_temp
  return date_bin('15 minutes', ledger.now() - interval '24 hours', '2000-01-01T00:00:00Z');

comment on function ledger.overview_begin is 'The first quarter hour of the overview; it has 193.';

create function ledger.add_overview_runs(run_nos bigint[], first_started_at timestamptz, last_started_at timestamptz) returns void
  language sql security definer set search_path = pg_catalog, pg_temp
  set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  with locked_default as (select from ledger.due_item_default)
  insert into ledger.overview as o (flow_no, quarter, completed, completed_late)
  select i.flow_no, date_bin('15 minutes', i.due_at, '2000-01-01T00:00:00Z'), count(*)::integer,
    (count(*) filter (where t.at > coalesce(i.complete_by, i.due_at + make_interval(secs => k.grace_seconds))))::integer
  from ledger.run r
  cross join lateral (
    select c.item_no[r.from_position:r.to_position] as item_nos, c.effective_date[r.from_position:r.to_position] as dates
    from ledger.claim c where c.fence = r.fence and c.claimed_at = r.claimed_at
  ) c
  cross join lateral unnest(c.item_nos, c.dates) u (item_no, effective_date)
  cross join lateral (  -- `offset 0`: each is found by its key, however few rows the plan was made for
    select i.flow_no, i.due_at, i.complete_by from ledger.due_item i
    where i.effective_date = u.effective_date and i.item_no = u.item_no offset 0
  ) i
  cross join lateral (
    select t.at from ledger.transition t
    where t.item_no = u.item_no and t.effective_date = u.effective_date and t.event = 5 /* completed */ and t.run_no = r.run_no offset 0
  ) t
  cross join lateral (
    select k.grace_seconds from ledger.flow f join ledger.kind k on k.kind_no = f.kind_no where f.flow_no = i.flow_no offset 0
  ) k
  where r.run_no = any (run_nos) and r.started_at between first_started_at and last_started_at
    and i.due_at >= ledger.overview_begin()
  group by 1, 2
  order by 1, 2
  on conflict (flow_no, quarter) do update
  set completed = o.completed + excluded.completed, completed_late = o.completed_late + excluded.completed_late
$$;

comment on function ledger.add_overview_runs is 'Add what these runs completed to the overview. Each run is added once.';
revoke execute on function ledger.add_overview_runs from public;

create function ledger.read_overview_runs(items_max integer) returns integer
  language plpgsql security definer set search_path = pg_catalog, pg_temp
  set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  reader ledger.overview_reader;
  begins constant timestamptz := ledger.overview_begin();
  -- Numbers are drawn before they can be seen: runs of statements that may still go on are left for later.
  until constant timestamptz := ledger.now() - make_interval(secs => 10 * ledger.clock_rate());
  chosen record;
  items integer := 0;
begin
  select * into reader from ledger.overview_reader for update;
  if not found or reader.read_at < begins then
    delete from ledger.overview;
    delete from ledger.overview_run;
    select coalesce(max(r.run_no), 0) into reader.read_to_run from (
      select r.run_no from ledger.run r where r.started_at between begins and until order by r.run_no desc limit 1) r;
    reader.read_from_run := reader.read_to_run + 1;
    reader.read_from := ledger.now();
    insert into ledger.overview_reader (read_at, read_to_run, read_from_run, read_from, rated_from_run)
    values (ledger.now(), reader.read_to_run, reader.read_from_run, reader.read_from, reader.read_to_run)
    on conflict (one) do update
    set read_at = excluded.read_at, read_to_run = excluded.read_to_run, read_from_run = excluded.read_from_run,
      read_from = excluded.read_from, rated_from = excluded.rated_from, rated_from_run = excluded.rated_from_run;
  end if;

  -- New runs, in the order of their numbers.
  select array_agg(n.run_no) filter (where n.closed_at is not null) as closed, array_agg(n.run_no) filter (where n.closed_at is null) as open,
    array_agg(n.started_at) filter (where n.closed_at is null) as open_started, min(n.started_at) as first_at, max(n.started_at) as last_at,
    max(n.run_no) as last_no, sum(n.size)::integer as size
  into chosen
  from (
    select r.*, sum(r.size) over w - r.size as before, bool_and(r.started_at <= until) over w as is_settled
    from (
      select r.run_no, r.started_at, r.closed_at, bit_length(r.ended) as size from ledger.run r
      where r.run_no > reader.read_to_run and r.started_at >= begins
      order by r.run_no limit 1000
    ) r
    window w as (order by r.run_no)
  ) n
  where n.is_settled and n.before < items_max;
  if chosen.size is not null then
    perform ledger.add_overview_runs(chosen.closed, chosen.first_at, chosen.last_at);
    insert into ledger.overview_run (run_no, started_at, checked_at)
    select u.run_no, u.started_at, ledger.machine_now() from unnest(chosen.open, chosen.open_started) u (run_no, started_at)
    on conflict (run_no) do nothing;
    reader.read_to_run := chosen.last_no;
    items := chosen.size;
  end if;

  -- Those that were open.
  if items < items_max then
    with checked as materialized (
      select o.run_no, o.started_at, r.closed_at, r.size, sum(coalesce(r.size, 0)) over (order by o.checked_at, o.run_no) as total
      from (select o.* from ledger.overview_run o order by o.checked_at limit 200) o
      left join lateral (
        select r.closed_at, bit_length(r.ended) as size from ledger.run r
        where r.run_no = o.run_no and r.started_at = o.started_at offset 0
      ) r on true
    ),
    finished as materialized (
      select c.* from checked c where c.closed_at is not null and c.total - c.size < items_max - items
    ),
    deleted as (
      delete from ledger.overview_run o
      where o.run_no = any (array(select f.run_no from finished f)) or o.started_at < begins
    ),
    kept as (
      update ledger.overview_run o set checked_at = ledger.machine_now()
      where o.run_no = any (array(select c.run_no from checked c where c.closed_at is null)) and o.started_at >= begins
    )
    select array_agg(f.run_no) as closed, min(f.started_at) as first_at, max(f.started_at) as last_at, sum(f.size)::integer as size
    into chosen from finished f;
    if chosen.size is not null then
      perform ledger.add_overview_runs(chosen.closed, chosen.first_at, chosen.last_at);
      items := items + chosen.size;
    end if;
  end if;

  -- Those that were there before it began, the latest first.
  if items < items_max and reader.read_from > begins then
    select array_agg(n.run_no) filter (where n.closed_at is not null) as closed,
      array_agg(n.run_no) filter (where n.closed_at is null) as open,
      array_agg(n.started_at) filter (where n.closed_at is null) as open_started, min(n.started_at) as first_at,
      max(n.started_at) as last_at, min(n.run_no) as last_no, sum(n.size)::integer as size
    into chosen
    from (
      select r.*, sum(r.size) over (order by r.run_no desc) - r.size as before
      from (
        select r.run_no, r.started_at, r.closed_at, bit_length(r.ended) as size from ledger.run r
        where r.run_no < reader.read_from_run and r.started_at between begins and until
        order by r.run_no desc limit 1000
      ) r
    ) n
    where n.before < items_max - items;
    if chosen.size is null then
      reader.read_from := '-infinity';
    else
      perform ledger.add_overview_runs(chosen.closed, chosen.first_at, chosen.last_at);
      insert into ledger.overview_run (run_no, started_at, checked_at)
      select u.run_no, u.started_at, ledger.machine_now() from unnest(chosen.open, chosen.open_started) u (run_no, started_at)
      on conflict (run_no) do nothing;
      reader.read_from_run := chosen.last_no;
      reader.read_from := chosen.first_at;
      items := items + chosen.size;
    end if;
  end if;

  update ledger.overview_reader r
  set read_at = ledger.now(), read_to_run = reader.read_to_run, read_from_run = reader.read_from_run, read_from = reader.read_from;
  return items;
end $$;

comment on function ledger.read_overview_runs is
  'Read the next runs for the overview, of about so many items: new ones, those that were open, and earlier ones of the last 24 hours. '
  'Returns the number of their items; 0: all are read.';
revoke execute on function ledger.read_overview_runs from public;

create function ledger.count_overview_in_flight(items_max integer) returns integer
  language plpgsql security definer set search_path = pg_catalog, pg_temp
  set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  counted integer;
begin
  perform from ledger.overview_reader for update;
  with locked_default as (select from ledger.due_item_default),
  found as materialized (
    select o.* from (
      select u.item_no, u.effective_date, null::bigint as ended_by
      from ledger.claim c
      cross join lateral unnest(c.item_no[c.started + 1:], c.effective_date[c.started + 1:]) u (item_no, effective_date)
      where c.closed_at is null and c.deadline > '-infinity'
      union all
      select u.item_no, u.effective_date, case when get_bit(r.ended, u.n::integer - 1) = 1 then r.run_no end
      from ledger.run r
      join ledger.claim c on c.fence = r.fence and c.claimed_at = r.claimed_at
      cross join lateral unnest(
        c.item_no[r.from_position:r.to_position], c.effective_date[r.from_position:r.to_position]
      ) with ordinality u (item_no, effective_date, n)
      where r.closed_at is null and r.lease_until > '-infinity'
    ) o
    limit items_max + 1
  ),
  recounted as materialized (
    select n.flow_no, n.quarter, sum(n.in_flight)::integer as in_flight, sum(n.completed)::integer as completed
    from (
      select i.flow_no, date_bin('15 minutes', i.due_at, '2000-01-01T00:00:00Z') as quarter, (f.ended_by is null)::integer as in_flight,
        (f.ended_by is not null and exists (
          select from ledger.transition t
          where t.item_no = f.item_no and t.effective_date = f.effective_date and t.event = 5 /* completed */ and t.run_no = f.ended_by
        ))::integer as completed
      from (select f.* from found f limit items_max) f
      cross join lateral (
        select i.flow_no, i.due_at from ledger.due_item i
        where i.effective_date = f.effective_date and i.item_no = f.item_no offset 0
      ) i
      where i.due_at >= ledger.overview_begin() and i.due_at < ledger.overview_begin() + interval '48 hours 15 minutes'
      union all
      select o.flow_no, o.quarter, 0, 0 from ledger.overview o where o.in_flight > 0 or o.completed_in_flight > 0
    ) n
    group by n.flow_no, n.quarter
  ),
  written as (
    insert into ledger.overview as o (flow_no, quarter, in_flight, completed_in_flight)
    select r.flow_no, r.quarter, r.in_flight, r.completed from recounted r order by 1, 2
    on conflict (flow_no, quarter) do update
    set in_flight = excluded.in_flight, completed_in_flight = excluded.completed_in_flight
    where (o.in_flight, o.completed_in_flight) <> (excluded.in_flight, excluded.completed_in_flight)
  )
  select count(*)::integer into counted from found;
  update ledger.overview_reader r set is_cut = counted > items_max where r.is_cut <> (counted > items_max);
  return counted;
end $$;

comment on function ledger.count_overview_in_flight is
  'Count the items in flight for the overview again, at most so many. Returns how many were found; more: the count is cut.';
revoke execute on function ledger.count_overview_in_flight from public;

create function ledger.count_overview_waiting(flows_max integer, items_max integer, is_far boolean) returns double precision
  language plpgsql security definer set search_path = pg_catalog, pg_temp
  set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = on set enable_mergejoin = off
as $$
declare
  first_quarter constant timestamptz := ledger.overview_begin();
  near_ends constant timestamptz := first_quarter + interval '25 hours';
  begins constant timestamptz := case when is_far then near_ends else first_quarter end;
  ends constant timestamptz := case when is_far then first_quarter + interval '48 hours 15 minutes' else near_ends end;
  flow_nos integer[];
  counted integer;
begin
  perform from ledger.overview_reader for update;
  if is_far then
    select array_agg(o.flow_no) into flow_nos
    from (select o.flow_no from ledger.overview_flow o order by o.far_counted_at, o.flow_no limit flows_max) o;
  else
    select array_agg(o.flow_no) into flow_nos
    from (select o.flow_no from ledger.overview_flow o order by o.counted_at, o.flow_no limit flows_max) o;
  end if;
  with locked_default as (select from ledger.due_item_default),
  chosen as materialized (
    select o.flow_no, k.grace_seconds, greatest(o.counted_to, begins) as from_quarter
    from unnest(flow_nos) n (flow_no)
    cross join lateral (
      select o.flow_no, case when is_far then o.far_counted_to else o.counted_to end as counted_to
      from ledger.overview_flow o where o.flow_no = n.flow_no offset 0
    ) o
    -- `offset 0`, here and below: what is looked up is found by its key; what was counted is joined by a hash
    cross join lateral (select f.kind_no from ledger.flow f where f.flow_no = o.flow_no offset 0) f
    cross join lateral (select k.grace_seconds from ledger.kind k where k.kind_no = f.kind_no offset 0) k
  ),
  -- In the order in which they may be claimed, up to a number: with more in one quarter hour its count is the least that it can be, with
  -- more in several the last one is left for the next time.
  sources as materialized (
    select c.flow_no, w.source, w.quarter, w.items,
      sum(w.items) over s as total, min(w.quarter) over s as first_quarter, max(w.quarter) over s as last_quarter
    from chosen c
    cross join lateral (
      select 1 as source, date_bin('15 minutes', p.available_at, '2000-01-01T00:00:00Z') as quarter, count(*)::integer as items
      from (
        select p.available_at from ledger.pending p
        where p.flow_no = c.flow_no and p.state = 1 /* Scheduled */ and p.serial is null
          and p.available_at >= c.from_quarter and p.available_at < ends
        order by p.available_at limit items_max
      ) p
      group by 2
      union all
      select 2, date_bin('15 minutes', p.available_at, '2000-01-01T00:00:00Z'), count(*)::integer
      from (
        select p.available_at from ledger.pending p
        where p.flow_no = c.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null
          and p.available_at >= c.from_quarter and p.available_at < ends
        order by p.available_at limit items_max
      ) p
      group by 2
    ) w
    window s as (partition by c.flow_no, w.source)
  ),
  reach as materialized (
    select c.flow_no, c.grace_seconds, c.from_quarter, coalesce(b.to_quarter, ends) as to_quarter
    from chosen c
    left join (
      select s.flow_no, min(
        case when s.last_quarter > s.first_quarter then s.last_quarter else s.first_quarter + interval '15 minutes' end) as to_quarter
      from sources s
      where s.total >= items_max
      group by s.flow_no
    ) b on b.flow_no = c.flow_no
  ),
  -- Of these few the time is asked at which each was due.
  held as materialized (
    select c.flow_no, date_bin('15 minutes', i.due_at, '2000-01-01T00:00:00Z') as quarter, h.failed
    from chosen c
    cross join lateral (
      (select p.item_no, p.effective_date, 1 as failed from ledger.pending p
       where p.flow_no = c.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null
       order by p.available_at limit least(items_max, 500))
      union all
      (select p.item_no, p.effective_date, 1 from ledger.pending p
       where p.flow_no = c.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is not null
       order by p.available_at limit least(items_max, 500))
      union all
      (select p.item_no, p.effective_date, 0 from ledger.pending p
       where p.flow_no = c.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null and p.available_at >= 'infinity'  -- not `=`: that would be the index of all flows
       limit least(items_max, 500))
      union all
      (select r.item_no, r.effective_date, 1 from ledger.review r
       where r.flow_no = c.flow_no order by r.parked_at desc limit least(items_max, 500))
    ) h
    cross join lateral (
      select i.due_at from ledger.due_item i
      where i.effective_date = h.effective_date and i.item_no = h.item_no offset 0
    ) i
    where not is_far and i.due_at >= first_quarter and i.due_at < first_quarter + interval '48 hours 15 minutes'
  ),
  recounted as materialized (
    select n.flow_no, n.quarter, sum(n.waiting)::integer as waiting, sum(n.blocked)::integer as blocked, sum(n.failed)::integer as failed,
      bool_or(n.is_capped) as is_capped, sum(n.ended)::integer as ended,
      -- What is not changed is not written: a conflict would lock each row.
      sum(n.waiting) <> sum(n.was_waiting) or sum(n.blocked) <> sum(n.was_blocked) or sum(n.failed) <> sum(n.was_failed)
        or bool_or(n.is_capped) <> bool_or(n.was_capped) as is_changed
    from (
      select s.flow_no, s.quarter, s.items as waiting, 0 as blocked, 0 as failed, s.items >= items_max as is_capped, 0 as ended,
        0 as was_waiting, 0 as was_blocked, 0 as was_failed, false as was_capped
      from sources s join reach r on r.flow_no = s.flow_no
      where s.quarter < r.to_quarter
      union all
      select h.flow_no, h.quarter, 0, 1 - h.failed, h.failed, false, 0, 0, 0, 0, false from held h
      union all
      select o.flow_no, o.quarter, case when k.is_kept then o.waiting else 0 end, case when is_far then o.blocked else 0 end,
        case when is_far then o.failed else 0 end, k.is_kept and o.is_capped,
        o.completed + o.completed_in_flight + o.in_flight, o.waiting, o.blocked, o.failed, o.is_capped
      from reach r
      cross join lateral (
        select o.* from ledger.overview o where o.flow_no = r.flow_no and o.quarter >= first_quarter offset 0
      ) o
      cross join lateral (select o.quarter < r.from_quarter or o.quarter >= r.to_quarter as is_kept) k
    ) n
    group by n.flow_no, n.quarter
  ),
  written as (
    insert into ledger.overview as o (flow_no, quarter, waiting, blocked, failed, is_capped)
    select r.flow_no, r.quarter, r.waiting, r.blocked, r.failed, r.is_capped from recounted r where r.is_changed order by 1, 2
    on conflict (flow_no, quarter) do update
    set waiting = excluded.waiting, blocked = excluded.blocked, failed = excluded.failed, is_capped = excluded.is_capped
  ),
  forgotten as (
    delete from ledger.overview o
    where o.flow_no = any (array(select c.flow_no from chosen c)) and o.quarter < first_quarter
  ),
  summed as (
    update ledger.overview_flow o
    set counted_at = case when not is_far and r.to_quarter >= ends then ledger.machine_now() else o.counted_at end,
      counted_to = case when is_far then o.counted_to else nullif(r.to_quarter, ends) end,
      far_counted_at = case when is_far and r.to_quarter >= ends then ledger.machine_now() else o.far_counted_at end,
      far_counted_to = case when is_far then nullif(r.to_quarter, ends) else o.far_counted_to end,
      late = coalesce(n.late, 0), failed = coalesce(n.failed, 0), items = coalesce(n.items, 0)
    from reach r
    left join (
      select n.flow_no, sum(n.failed)::integer as failed, sum(n.waiting + n.blocked + n.failed + n.ended)::integer as items,
        (sum(n.waiting + n.blocked + n.failed) filter (
          where n.quarter + interval '15 minutes' + make_interval(secs => r.grace_seconds) <= ledger.now()))::integer as late
      from recounted n join reach r on r.flow_no = n.flow_no
      group by n.flow_no
    ) n on n.flow_no = r.flow_no
    where o.flow_no = r.flow_no
    returning o.flow_no
  )
  select count(*)::integer into counted from summed;
  if is_far then
    return (
      select extract(epoch from ledger.machine_now() - o.far_counted_at)
      from ledger.overview_flow o order by o.far_counted_at, o.flow_no limit 1);
  end if;
  return (
    select extract(epoch from ledger.machine_now() - o.counted_at)
    from ledger.overview_flow o order by o.counted_at, o.flow_no limit 1);
end $$;

comment on function ledger.count_overview_waiting is
  'Count the waiting and failed items of some flows again, those that were counted longest ago: of each at most so many. Those of the '
  'last day and the next hour, with is_far only those that wait, of the hours after it. '
  'Returns the age of the oldest count in seconds; null: there is no flow.';
revoke execute on function ledger.count_overview_waiting from public;

create function ledger.add_overview_flows(flows_max integer) returns integer
  language sql security definer set search_path = pg_catalog, pg_temp
  set enable_seqscan = off set enable_bitmapscan = off
as $$
  with added as (
    insert into ledger.overview_flow (flow_no)
    -- The order of numbers is not that of commits.
    select f.flow_no from ledger.flow f
    where f.flow_no > (select coalesce(max(o.flow_no), 0) - 1000 from ledger.overview_flow o)
    order by f.flow_no limit flows_max + 1000
    on conflict (flow_no) do nothing
    returning flow_no
  )
  select count(*)::integer from added
$$;

comment on function ledger.add_overview_flows is 'Let the overview count flows that are new. Returns how many.';
revoke execute on function ledger.add_overview_flows from public;
