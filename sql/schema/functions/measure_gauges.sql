-- Numbers of the whole ledger, as metrics of the catalogue. One process reads them each 15 s. Of what has a name (a tenant, a kind,
-- a topic) the first series_max are shown, and the others together as 'other': sums of counts, the greatest of times.
create function ledger.measure_gauges(series_max integer default 8) returns table (
  metric text, labels text[], value double precision
)
  language sql stable security definer set search_path = pg_catalog, pg_temp
  set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  with locked_default as (select from ledger.due_item_default),
  flows as materialized (
    select d.*, f.flow_no, k.dispatch, k.settled_by, k.grace_seconds
    from ledger.measure_depth() d
    join ledger.kind k on k.tenant = d.tenant and k.name = d.kind
    join ledger.flow f on f.kind_no = k.kind_no and f.lane = d.lane
  ),
  -- The items that have waited longest are those due first, but for retries.
  late as materialized (
    select o.tenant, o.kind, extract(epoch from ledger.now() - min(oldest.sla_at))::double precision as seconds
    from (select f.* from flows f where f.due > 0 order by f.available_since limit 100) o
    cross join lateral (
      select min(coalesce(i.complete_by, i.due_at + make_interval(secs => o.grace_seconds))) as sla_at
      from (
        (select p.item_no, p.effective_date from ledger.pending p
         where p.flow_no = o.flow_no and p.state = 1 /* Scheduled */ and p.serial is null and p.available_at <= ledger.now()
         order by p.available_at limit 10)
        union all
        (select p.item_no, p.effective_date from ledger.pending p
         where p.flow_no = o.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null and p.available_at <= ledger.now()
         order by p.available_at limit 10)
        union all
        (select p.item_no, p.effective_date from ledger.pending p
         where p.flow_no = o.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null and p.available_at <= ledger.now()
         order by p.available_at limit 10)
        union all
        (select p.item_no, p.effective_date from ledger.pending p
         where p.flow_no = o.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is not null
           and p.available_at <= ledger.now()
         order by p.available_at limit 10)
      ) p
      cross join lateral (  -- `offset 0`: each is found by its key, however few rows the plan was made for
        select i.due_at, i.complete_by from ledger.due_item i
        where i.effective_date = p.effective_date and i.item_no = p.item_no offset 0
      ) i
    ) oldest
    where oldest.sla_at < ledger.now()
    group by o.tenant, o.kind
  ),
  kinds as materialized (
    select f.tenant, f.kind, sum(f.due) as due, min(f.available_since) as since, sum(f.retrying) as retrying, sum(f.parked) as parked,
      sum(f.claimed) as claimed, sum(f.running) as running
    from flows f
    group by f.tenant, f.kind
  ),
  ranked as materialized (
    select k.*, row_number() over (
      order by k.due + k.retrying + k.parked desc, k.since, k.tenant, k.kind) <= series_max as is_shown
    from kinds k
  ),
  shown as materialized (
    select case when r.is_shown then r.tenant else 'other' end as tenant, case when r.is_shown then r.kind else 'other' end as kind,
      sum(r.due) as due, extract(epoch from ledger.now() - min(r.since)) as oldest_seconds, sum(r.retrying) as retrying,
      sum(r.parked) as parked, sum(r.claimed) as claimed, sum(r.running) as running
    from ranked r
    group by 1, 2
  ),
  processes as materialized (
    select s.role, s.status, s.kinds, s.failing_since, s.failed_service
    from ledger.process_status s
    where s.status <> 'ended' and s.seen_at > ledger.machine_now() - interval '1 hour'
  ),
  topics as materialized (
    select f.topic, sum(f.due) as due
    from flows f
    where f.due > 0 and f.settled_by = 'worker'
      and not exists (select from ledger.credit c where c.topic = f.topic and c.granted_until > ledger.machine_now())
      and not exists (select from processes p where p.role = 'direct_worker' and p.status = 'live' and f.kind = any (p.kinds))
    group by f.topic
  ),
  -- With `max` the others are shown by their greatest value, otherwise by their sum.
  named (metric, names, value, is_max) as materialized (
    select 'dueledger_late_seconds', array[l.tenant, l.kind], l.seconds, true from late l
    union all
    select 'dueledger_exhausted_items', array[f.tenant, f.kind], count(*), false
    from flows f
    cross join lateral (select r.reason from ledger.review r where r.flow_no = f.flow_no limit f.count_max) r
    where f.parked > 0 and r.reason = 'attempts exhausted'
    group by f.tenant, f.kind
    union all
    select 'dueledger_unserved_items', array[t.topic], t.due, false from topics t
    union all
    select 'dueledger_credit_items', array[c.topic], sum(c.items), false
    from ledger.credit c where c.granted_until > ledger.machine_now() group by c.topic
    union all
    select 'dueledger_silent_topic_seconds', array[s.topic], extract(epoch from ledger.machine_now() - s.since), true
    from ledger.silent_topic s
    union all
    select 'dueledger_stalled_topic_seconds', array[s.topic], extract(epoch from ledger.machine_now() - min(s.stalled_at)), true
    from ledger.stalled_partition s group by s.topic
    union all
    select 'dueledger_watermark_age_seconds', array[w.tenant, w.kind], extract(epoch from ledger.now() - w.complete_before), true
    from ledger.watermark w where w.complete_before is not null
  ),
  named_ranked as materialized (
    select n.*, row_number() over (partition by n.metric order by n.value desc, n.names) <= series_max as is_shown
    from named n
  )
  select m.metric, m.labels, m.value::double precision
  from (
    select v.metric, array[s.tenant, s.kind], v.value
    from shown s
    cross join lateral (values
      ('dueledger_due_items', s.due), ('dueledger_oldest_due_seconds', s.oldest_seconds),
      ('dueledger_retrying_items', s.retrying), ('dueledger_parked_items', s.parked),
      ('dueledger_claimed_items', s.claimed), ('dueledger_running_items', s.running)
    ) v (metric, value)
    union all
    select n.metric, case when n.is_shown then n.names else array_fill('other'::text, array[cardinality(n.names)]) end,
      case when bool_and(n.is_max) then max(n.value) else sum(n.value) end
    from named_ranked n
    group by 1, 2
    union all
    select 'dueledger_open_findings', array[f.type, f.severity], count(*)
    from (select f.type, f.severity from ledger.finding f where f.closed_at is null limit 100000) f
    group by f.type, f.severity
    union all
    select 'dueledger_reconciled_seconds', '{}', extract(epoch from ledger.now() - max(w.as_of)) from ledger.watermark w
    union all
    select 'dueledger_processes', array[p.role, p.status], count(*) from processes p group by p.role, p.status
    union all
    select 'dueledger_failing_processes', array[p.role, coalesce(p.failed_service, '')], count(*)
    from processes p where p.status = 'live' and p.failing_since is not null group by 2
    union all
    select 'dueledger_oldest_transaction_seconds', '{}', coalesce(max(extract(epoch from clock_timestamp() - a.xact_start)), 0)
    from pg_stat_activity a where a.backend_type = 'client backend' and a.datname = current_database()
    union all
    select 'dueledger_oldest_snapshot_transactions', '{}', coalesce(max(age(a.backend_xmin)), 0) from pg_stat_activity a
    union all
    select 'dueledger_database_bytes', '{}', pg_database_size(current_database())
  ) m (metric, labels, value)
  where m.value is not null
$$;

comment on function ledger.measure_gauges is
  'Metrics of the whole ledger by name and labels, as docs/metrics.md describes them. Each has at most series_max names of tenants, '
  'kinds or topics, and ''other'' for the rest.';
revoke execute on function ledger.measure_gauges from public;
