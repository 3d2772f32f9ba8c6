create function ledger.measure_overview_rates(runs_max integer) returns integer
  language plpgsql security definer set search_path = pg_catalog, pg_temp
  set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  reader ledger.overview_reader;
  begins constant timestamptz := ledger.now() - interval '5 minutes';
  measured_at constant timestamptz := ledger.machine_now();
  found_run bigint;
  flows integer;
begin
  select * into reader from ledger.overview_reader for update;
  if not found then
    return 0;
  end if;
  with locked_default as (select from ledger.due_item_default),
  latest as materialized (
    select r.run_no, r.started_at, r.fence, r.claimed_at, r.from_position, r.to_position, bit_count(r.ended)::integer as ended
    from ledger.run r
    where r.run_no >= reader.rated_from_run and r.started_at >= ledger.overview_begin()
    order by r.run_no desc limit runs_max
  ),
  recent as materialized (
    select l.*, c.flow_nos
    from latest l
    cross join lateral (
      select c.flow_nos from ledger.claim c where c.fence = l.fence and c.claimed_at = l.claimed_at offset 0
    ) c
    where l.started_at >= greatest(reader.rated_from, begins)
  ),
  span as materialized (
    select greatest(1, extract(epoch from ledger.now() - case when count(*) < runs_max then greatest(reader.rated_from, begins)
      else min(r.started_at) end))::double precision as seconds
    from recent r
  ),
  -- Of a run with items of several flows, sixteen items say whose they are.
  counted as materialized (
    select e.flow_no, sum(e.items) as items
    from (
      select r.flow_nos[1] as flow_no, r.ended::double precision as items from recent r where cardinality(r.flow_nos) = 1
      union all
      select i.flow_no, r.ended::double precision / least(cardinality(c.item_nos), 16)
      from recent r
      cross join lateral (
        select c.item_no[r.from_position:r.to_position] as item_nos, c.effective_date[r.from_position:r.to_position] as dates
        from ledger.claim c where c.fence = r.fence and c.claimed_at = r.claimed_at offset 0
      ) c
      cross join lateral generate_series(0, least(cardinality(c.item_nos), 16) - 1) n
      cross join lateral (select 1 + n * cardinality(c.item_nos) / least(cardinality(c.item_nos), 16) as position offset 0) p
      cross join lateral (
        select i.flow_no from ledger.due_item i
        where i.effective_date = c.dates[p.position] and i.item_no = c.item_nos[p.position] offset 0
      ) i
      where r.ended > 0 and coalesce(cardinality(r.flow_nos), 0) <> 1
    ) e
    group by e.flow_no
  ),
  written as (
    update ledger.overview_flow o set rate_per_second = c.items / s.seconds, rated_at = measured_at
    from counted c cross join span s
    where o.flow_no = c.flow_no
    returning o.flow_no
  )
  select coalesce((select min(r.run_no) from recent r), (select max(l.run_no) from latest l)), (select count(*)::integer from written)
  into found_run, flows;
  update ledger.overview_reader r set rated_at = measured_at, rated_from_run = coalesce(found_run, reader.rated_from_run);
  return flows;
end $$;

comment on function ledger.measure_overview_rates is
  'Measure how many items of each flow ended a second, by the latest runs: those of five minutes, at most so many. Returns of how many flows.';
revoke execute on function ledger.measure_overview_rates from public;
