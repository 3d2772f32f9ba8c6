-- End pending items of older versions of a definition in a span that a newer version decides (Scheduled to Superseded).
-- returns: one
-- roles: materialiser
-- $1 definition_no bigint
-- $2 from_at timestamptz
-- $3 until_at timestamptz
-- $4 actor_no bigint
-- $5 limit integer
-- index: due_item_key_idx, pending_pkey
-- locks: pending rows (for update, item_no ascending)
with locked_default as (select from ledger.due_item_default),
newer as materialized (
  select * from ledger.definition d where d.definition_no = $1::bigint
),
older as materialized (
  select o.document ->> 'business_key' as business_key, bool_or(o.document -> 'when' ? 'after_completion') as chained,
    -- A calendar may move an item far from the day that names it, a zone by one.
    case when bool_or(o.document ? 'calendar') then 60 else 2 end as days_apart, array_agg(o.definition_no) as definition_nos
  from newer n join ledger.definition o
    on o.tenant = n.tenant and o.name = n.name and o.version < n.version and o.event_type is null
  group by 1
),
locked as materialized (
  select p.item_no, p.effective_date
  from older o
  cross join lateral (
    select i.item_no
    from ledger.due_item i
    where i.business_key = o.business_key and i.definition_no = any (o.definition_nos) and i.nominal is not null
      and i.effective_date >= ($2::timestamptz at time zone 'UTC')::date - o.days_apart
      and (o.chained or i.effective_date <= ($3::timestamptz at time zone 'UTC')::date + o.days_apart)
      and i.due_at - make_interval(secs => coalesce(i.smear_seconds, 0)) >= $2::timestamptz
      and (o.chained or i.due_at - make_interval(secs => coalesce(i.smear_seconds, 0)) < $3::timestamptz)
      and not exists (select from ledger.expedited x where x.item_no = i.item_no)
    offset 0
  ) i
  join ledger.pending p on p.item_no = i.item_no
  where p.state = 1 /* Scheduled */ and p.attempt = 0 and p.starts = 0
  order by p.item_no
  limit $5::integer
  for update of p
),
ended as (
  delete from ledger.pending p using locked l where p.item_no = l.item_no
  returning p.item_no, p.effective_date
),
journal as (
  insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at, detail)
  select e.effective_date, e.item_no, 12 /* superseded */, 0, $4::bigint, ledger.now(),
    jsonb_build_object('reason', 'version', 'version', (select n.version from newer n))
  from ended e
),
obsolete as (
  delete from ledger.withdrawal w where w.item_no = any (array(select e.item_no from ended e))
)
select count(*)::integer as superseded from ended
