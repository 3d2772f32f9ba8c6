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
    join ledger.flow f on f.tenant = d.tenant and f.kind = d.kind and f.lane = d.lane
    join ledger.kind k on k.kind_no = f.kind_no
  ),
  -- A claim is handed out as a whole, so the first of its items that have not ended are enough.
  in_flight as materialized (
    select u.item_no, u.effective_date
    from (
      select c.item_no, c.effective_date, c.started, c.size from ledger.claim c
      where c.closed_at is null and c.deadline > '-infinity' and c.started < c.size
      order by c.claimed_at limit 100
    ) c
    cross join lateral unnest(c.item_no[c.started + 1:c.started + 3], c.effective_date[c.started + 1:c.started + 3])
      u (item_no, effective_date)
    union all
    select c.item_no[p], c.effective_date[p]
    from (
      select r.fence, r.claimed_at, r.from_position, r.to_position, r.ended from ledger.run r
      where r.closed_at is null and r.lease_until > '-infinity'
      order by r.started_at limit 100
    ) r
    join ledger.claim c on c.fence = r.fence and c.claimed_at = r.claimed_at
    cross join lateral (
      select p from generate_series(r.from_position, r.to_position) p
      where get_bit(r.ended, p - r.from_position) = 0 limit 3
    ) p
  ),
  -- Of those that wait, some of each sort: first attempts, retries and serial items, that are due, in their backoff or behind
  -- another one of their key. The items that have waited longest are those due first, but for retries.
  late as materialized (
    select o.tenant, o.kind, o.topic, o.dispatch, extract(epoch from ledger.now() - min(o.sla_at)) as seconds
    from (
      select o.tenant, o.kind, o.topic, o.dispatch,
        coalesce(i.complete_by, i.due_at + make_interval(secs => o.grace_seconds)) as sla_at
      from (
        select f.* from flows f where f.due > 0 or f.retrying > 0 or f.blocked > 0 order by f.available_since limit 100
      ) o
      cross join lateral (
        (select p.item_no, p.effective_date from ledger.pending p
         where p.flow_no = o.flow_no and p.state = 1 /* Scheduled */ and p.serial is null and p.available_at <= ledger.now()
         order by p.available_at limit 10)
        union all
        (select p.item_no, p.effective_date from ledger.pending p
         where p.flow_no = o.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null
         order by p.available_at limit 10)
        union all
        (select p.item_no, p.effective_date from ledger.pending p
         where p.flow_no = o.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null and p.available_at <= ledger.now()
         order by p.available_at limit 10)
        union all
        (select p.item_no, p.effective_date from ledger.pending p
         where p.flow_no = o.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null and p.available_at = 'infinity'
         limit 10)
        union all
        (select p.item_no, p.effective_date from ledger.pending p
         where p.flow_no = o.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is not null
         order by p.available_at limit 10)
      ) p
      cross join lateral (  -- `offset 0`: each is found by its key, however few rows the plan was made for
        select i.due_at, i.complete_by from ledger.due_item i
        where i.effective_date = p.effective_date and i.item_no = p.item_no offset 0
      ) i
      union all
      select k.tenant, k.name, k.topic, k.dispatch, coalesce(i.complete_by, i.due_at + make_interval(secs => k.grace_seconds))
      from in_flight o
      cross join lateral (
        select i.flow_no, i.due_at, i.complete_by from ledger.due_item i
        where i.effective_date = o.effective_date and i.item_no = o.item_no offset 0
      ) i
      join ledger.flow f on f.flow_no = i.flow_no
      join ledger.kind k on k.kind_no = f.kind_no
    ) o
    where o.sla_at < ledger.now()
    group by o.tenant, o.kind, o.topic, o.dispatch
  ),
  parked as materialized (
    select f.tenant, f.kind, count(*) filter (where r.reason = 'attempts exhausted') as exhausted, min(r.parked_at) as since
    from flows f
    cross join lateral (
      select r.reason, r.parked_at from ledger.review r where r.flow_no = f.flow_no order by r.parked_at limit f.count_max
    ) r
    where f.parked > 0
    group by f.tenant, f.kind
  ),
  kinds as materialized (
    select f.tenant, f.kind, f.topic, f.dispatch, sum(f.due) as due, min(f.available_since) as since,
      sum(f.retrying) as retrying, sum(f.parked) as parked, sum(f.claimed) as claimed, sum(f.running) as running
    from flows f
    group by f.tenant, f.kind, f.topic, f.dispatch
  ),
  processes as materialized (
    select s.role, s.status, s.kinds, s.failing_since, s.failed_service, s.certificate_expires_at
    from ledger.process_status s
    where s.status <> 'ended' and s.seen_at > ledger.machine_now() - interval '1 hour'
  ),
  topics as materialized (
    select f.topic, f.dispatch, sum(f.due) as due, min(f.available_since) as since
    from flows f
    cross join lateral (
      select exists (select from processes p where p.role = 'allocator' and p.status = 'live') as is_published,
        exists (select from ledger.credit c where c.topic = f.topic and c.granted_until > ledger.machine_now()) as is_read
    ) o
    where f.due > 0
      and not (f.dispatch <> 'direct' and o.is_published and (f.settled_by = 'topic' or o.is_read))
      and not exists (
        select from processes p
        where p.role in ('direct_worker', 'service') and p.status = 'live' and f.kind = any (p.kinds))
      -- A pull worker that is at work asks for nothing.
      and not ((f.dispatch = 'direct' or not o.is_published) and exists (
        select from kinds k where k.tenant = f.tenant and k.kind = f.kind and k.running > 0))
    group by f.topic, f.dispatch
  ),
  -- With is_max the others are shown by their greatest value, otherwise by their sum. The first by `place` have series of their own:
  -- where an alert stands, by an age, which grows for all alike, so that what is added elsewhere moves none of them to the others.
  named (metric, names, value, is_max, place) as materialized (
    select v.metric, array[k.tenant, k.kind], v.value, false, v.value
    from kinds k
    cross join lateral (values
      ('dueledger_due_items', k.due), ('dueledger_retrying_items', k.retrying), ('dueledger_claimed_items', k.claimed),
      ('dueledger_running_items', k.running)
    ) v (metric, value)
    union all
    select 'dueledger_oldest_due_seconds', array[k.tenant, k.kind, k.topic, k.dispatch],
      extract(epoch from ledger.now() - k.since), true, extract(epoch from ledger.now() - k.since)
    from kinds k
    union all
    select 'dueledger_late_seconds', array[l.tenant, l.kind, l.topic, l.dispatch], l.seconds, true, l.seconds from late l
    union all
    select 'dueledger_parked_items', array[k.tenant, k.kind], k.parked, false, extract(epoch from ledger.now() - r.since)
    from kinds k left join parked r on r.tenant = k.tenant and r.kind = k.kind
    union all
    select 'dueledger_exhausted_items', array[r.tenant, r.kind], r.exhausted, false, extract(epoch from ledger.now() - r.since)
    from parked r
    union all
    select 'dueledger_unserved_items', array[t.topic, t.dispatch], t.due, false, extract(epoch from ledger.now() - t.since)
    from topics t
    union all
    select 'dueledger_credit_items', array[c.topic], sum(c.items), false, sum(c.items)
    from ledger.credit c where c.granted_until > ledger.machine_now() group by c.topic
    union all
    select 'dueledger_silent_topic_seconds', array[s.topic], a.seconds, true, a.seconds
    from ledger.silent_topic s
    cross join lateral (select extract(epoch from ledger.machine_now() - s.since) as seconds) a
    union all
    select 'dueledger_stalled_topic_seconds', array[s.topic], extract(epoch from ledger.machine_now() - min(s.stalled_at)), true,
      extract(epoch from ledger.machine_now() - min(s.stalled_at))
    from ledger.stalled_partition s group by s.topic
    union all
    select 'dueledger_watermark_age_seconds', array[w.tenant, w.kind], a.seconds, true, a.seconds
    from ledger.watermark w
    cross join lateral (
      select extract(epoch from ledger.now() - coalesce(w.complete_before, w.first_as_of)) as seconds) a
  ),
  named_ranked as materialized (
    select n.*, row_number() over (partition by n.metric order by n.place desc nulls last, n.names) <= series_max as is_shown
    from named n
    where n.value is not null
  )
  select m.metric, m.labels, m.value::double precision
  from (
    select n.metric, case when n.is_shown then n.names else array_fill('other'::text, array[cardinality(n.names)]) end,
      case when bool_and(n.is_max) then max(n.value) else sum(n.value) end
    from named_ranked n
    group by 1, 2
    union all
    select 'dueledger_open_findings', array[f.type, f.severity], count(*)
    from (select f.type, f.severity from ledger.finding f where f.closed_at is null limit 100000) f
    group by f.type, f.severity
    union all
    -- Where no reconciler ever made a pass, since the ledger was made, if it has any kind.
    select 'dueledger_reconciled_seconds', '{}', coalesce(
      extract(epoch from ledger.now() - max(w.as_of)),
      (select extract(epoch from ledger.machine_now() - min(s.made_at)) from ledger.partition_span s
       where exists (select from ledger.kind)))
    from ledger.watermark w
    union all
    select 'dueledger_processes', array[p.role, p.status], count(*) from processes p group by p.role, p.status
    union all
    -- A service claims for pull workers; beside an allocator that was killed it is no replacement.
    select 'dueledger_claimers', array[p.role], count(*)
    from processes p
    where p.status = 'live' and (p.role in ('allocator', 'direct_worker') or p.role = 'service' and not exists (
      select from processes k where k.role in ('allocator', 'direct_worker') and k.status <> 'live'))
    group by p.role
    union all
    select 'dueledger_failing_processes', array[p.role, coalesce(p.failed_service, '')], count(*)
    from processes p where p.status = 'live' and p.failing_since is not null group by 2
    union all
    select 'dueledger_certificate_expiry_seconds', '{}', extract(epoch from min(p.certificate_expires_at) - ledger.machine_now())
    from processes p where p.status = 'live'
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
