-- No index has the times at which runs ended, which would be a cost of each: they are read in the order of their numbers, which have gaps.
create function ledger.count_overview_minutes(runs_max integer, sampled_runs_max integer, items_max integer) returns integer
  language plpgsql security definer set search_path = pg_catalog, pg_temp
  set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
  set enable_memoize = off set join_collapse_limit = 1  -- the arrays of a claim are read once for each run
as $$
declare
  reader ledger.overview_reader;
  -- Numbers are drawn before they can be seen: runs of statements that may still go on are left for later.
  until constant timestamptz := ledger.now() - make_interval(secs => 10 * ledger.clock_rate());
  begins constant timestamptz := date_bin('1 minute', until, '2000-01-01T00:00:00Z') - interval '60 minutes';
  month constant timestamptz := date_trunc('month', begins - interval '10 minutes', 'UTC');
  earlier record;
  run_nos bigint[];
  last_started_at timestamptz;
  step integer;
begin
  select * into reader from ledger.overview_reader for update;
  if not found then
    return 0;
  end if;
  delete from ledger.overview_minute o where o.minute < begins or o.minute > until;
  if reader.minutes_to is null or reader.minutes_to < begins or reader.minutes_to > until then
    delete from ledger.overview_minute;
    delete from ledger.overview_minute_run;
    -- What was completed in this hour may have been started before it.
    reader.minutes_from := begins;
    reader.minutes_to_run := 0;
    for earlier in
      select r.run_no, r.started_at, row_number() over (order by r.run_no desc) as place
      from ledger.run r where r.started_at >= month order by r.run_no desc limit 5 * runs_max
    loop
      reader.minutes_to_run := earlier.run_no;
      exit when earlier.started_at < begins - interval '10 minutes';
      reader.minutes_to_run := earlier.run_no - 1;
      if earlier.place = 5 * runs_max then
        reader.minutes_from := greatest(begins, earlier.started_at);
      end if;
    end loop;
    insert into ledger.overview_minute_run (run_no, started_at, ended, weight, checked_at)
    select r.run_no, r.started_at, r.ended & ~r.ended, 1, 'epoch'
    from ledger.run r
    where r.closed_at is null and r.lease_until > '-infinity' and r.run_no <= reader.minutes_to_run
    order by r.lease_until limit sampled_runs_max;
  end if;
  select array_agg(n.run_no order by n.run_no), max(n.started_at) into run_nos, last_started_at
  from (
    select r.run_no, r.started_at, bool_and(r.started_at <= until) over (order by r.run_no) as is_settled
    from (
      select r.run_no, r.started_at from ledger.run r
      where r.run_no > reader.minutes_to_run and r.started_at >= month order by r.run_no limit runs_max
    ) r
  ) n
  where n.is_settled;
  step := greatest(1, ceil(coalesce(cardinality(run_nos), 0)::double precision / sampled_runs_max));

  with locked_default as (select from ledger.due_item_default),
  visited as materialized (
    select o.run_no, r.started_at, r.fence, r.claimed_at, r.from_position, r.to_position, r.ended, r.closed_at,
      r.ended & ~o.ended as fresh, o.weight, false as is_new
    from (select o.* from ledger.overview_minute_run o order by o.checked_at, o.run_no limit sampled_runs_max) o
    left join lateral (
      select r.* from ledger.run r where r.run_no = o.run_no and r.started_at = o.started_at offset 0
    ) r on true
    union all
    select r.run_no, r.started_at, r.fence, r.claimed_at, r.from_position, r.to_position, r.ended, r.closed_at, r.ended, step, true
    from generate_series(step, cardinality(run_nos), step) n
    cross join lateral (select r.* from ledger.run r where r.run_no = run_nos[n] and r.started_at >= month offset 0) r
  ),
  -- Of each run some items, at equal distances: all of them where they are few.
  chosen as materialized (
    select v.run_no, v.fence, v.claimed_at, v.from_position, v.to_position, v.fresh, v.size, v.weight,
      least(v.size, greatest(1, ceil(items_max * v.size / sum(v.size) over ())))::integer as looks
    from (
      select v.*, bit_length(v.fresh)::double precision as size from visited v where bit_count(v.fresh) > 0
    ) v
  ),
  looked as materialized (
    select c.run_no, c.weight * c.size / c.looks as items, l.item_nos[p.place + 1] as item_no, l.dates[p.place + 1] as effective_date
    from chosen c
    cross join lateral (
      select l.item_no[c.from_position:c.to_position] as item_nos, l.effective_date[c.from_position:c.to_position] as dates
      from ledger.claim l where l.fence = c.fence and l.claimed_at = c.claimed_at offset 0
    ) l
    cross join lateral generate_series(0, c.looks - 1) n
    cross join lateral (select floor((n + 0.5) * c.size / c.looks)::integer as place offset 0) p
    where get_bit(c.fresh, p.place) = 1
  ),
  completed as materialized (
    select i.flow_no, date_bin('1 minute', t.at, '2000-01-01T00:00:00Z') as minute,
      ceil(8 * ln(greatest(1, 1000 * extract(epoch from t.at - i.due_at)::double precision)) / ln(2::double precision))::smallint as bucket,
      sum(l.items) as items, count(*)::integer as sampled
    from looked l
    cross join lateral (  -- `offset 0`: each is found by its key, however few rows the plan was made for
      select i.flow_no, i.due_at from ledger.due_item i
      where i.effective_date = l.effective_date and i.item_no = l.item_no offset 0
    ) i
    cross join lateral (
      select t.at from ledger.transition t
      where t.item_no = l.item_no and t.effective_date = l.effective_date and t.event = 5 /* completed */ and t.run_no = l.run_no offset 0
    ) t
    where t.at >= begins
    group by 1, 2, 3
  ),
  written as (
    insert into ledger.overview_minute as o (tenant, minute, bucket, items, sampled)
    select u.tenant, c.minute, c.bucket, sum(c.items), sum(c.sampled)
    from completed c
    cross join lateral (select f.tenant from ledger.flow f where f.flow_no = c.flow_no offset 0) f
    cross join lateral (values (f.tenant), ('')) u (tenant)
    group by 1, 2, 3
    order by 1, 2, 3
    on conflict (tenant, minute, bucket) do update set items = o.items + excluded.items, sampled = o.sampled + excluded.sampled
  ),
  finished as (
    delete from ledger.overview_minute_run o
    where o.run_no = any (array(select v.run_no from visited v where not v.is_new and (v.started_at is null or v.closed_at is not null)))
  ),
  kept as (
    insert into ledger.overview_minute_run as o (run_no, started_at, ended, weight, checked_at)
    select v.run_no, v.started_at, v.ended, v.weight, ledger.machine_now()
    from visited v
    where v.started_at is not null and v.closed_at is null
    order by v.run_no
    on conflict (run_no) do update set ended = excluded.ended, checked_at = excluded.checked_at
  )
  select max(n) into step from generate_series(step, cardinality(run_nos), step) n;

  update ledger.overview_reader r
  set minutes_to = case when cardinality(run_nos) = runs_max then greatest(begins, last_started_at) else until end,
    minutes_from = reader.minutes_from, minutes_to_run = coalesce(run_nos[step], reader.minutes_to_run);
  return coalesce(step, 0);
end $$;

comment on function ledger.count_overview_minutes is
  'Count what was completed in each minute of the last hour by the next runs, at most runs_max, and those that were open: of at most '
  'sampled_runs_max, at equal distances, and of about items_max of their items. Returns by how many runs it has gone on.';
revoke execute on function ledger.count_overview_minutes from public;
