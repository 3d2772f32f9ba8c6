-- List a page of an item's history in order: emitted, claimed, published, started, and what ended each attempt.
-- returns: zero or more
-- roles: auditor, operator
-- $1 id uuid
-- $2 tenants text[]
-- $3 after_at timestamptz
-- $4 after_number integer
-- $5 limit integer
-- index: due_item_id_effective_date_key, transition_item_idx, transition_terminal_idx
-- locks: none
with locked_default as (select from ledger.due_item_default),
item as materialized (
  select i.*, f.kind_no
  from ledger.due_item i
  join ledger.flow f on f.flow_no = i.flow_no
  where i.id = $1::uuid and i.effective_date = ledger.effective_date_of($1::uuid)
    and ($2::text[] is null or f.tenant = any ($2::text[]))
),
journal as materialized (
  select t.* from item i join ledger.transition t on t.item_no = i.item_no and t.effective_date = ledger.effective_date_of($1::uuid)
    and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
    and t.at >= coalesce($3::timestamptz, '-infinity')
  union all
  select t.* from item i join ledger.transition t on t.item_no = i.item_no and t.effective_date = ledger.effective_date_of($1::uuid)
    and t.event not in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
    and t.at >= coalesce($3::timestamptz, '-infinity')
),
ended as materialized (
  select j.* from journal j order by j.at fetch first ($5::integer + coalesce($4::integer, 0)) rows with ties
),
worked as (
  select e.run_no, e.at from ended e where e.run_no is not null
  union
  -- The next run may have started before the last of these.
  (select j.run_no, j.at from journal j where j.run_no is not null and j.at > (select max(e.at) from ended e) order by j.at limit 1)
),
run as materialized (
  select r.*
  from item i
  cross join (select array_agg(distinct w.run_no) as run_nos, max(w.at) as ended_at from worked w) j
  cross join lateral ledger.list_runs(j.run_nos, i.emitted_at, j.ended_at) r
  union
  select r.*
  from item i
  join ledger.open_item o on o.item_no = i.item_no and o.run_no is not null
  cross join lateral ledger.list_runs(array[o.run_no], o.started_at, o.started_at) r
),
claim as materialized (
  select n.fence, n.claimed_at, c.*
  from (
    select r.fence, r.claimed_at from run r
    union
    select o.fence, o.claimed_at from ledger.open_item o join item i on i.item_no = o.item_no
  ) n
  cross join lateral ledger.find_published_claim(n.fence, n.claimed_at) c
  where c.allocator_no is not null
),
story as (
  select i.emitted_at as at, 1 /* emitted */ as event, i.actor_no, null::bigint as fence, null::bigint as run_no,
    0 as attempt, null::text as topic, null::integer as partition, null::bigint as kafka_offset, null::jsonb as detail
  from item i
  union all
  select c.claimed_at, 2 /* claimed */, c.allocator_no, c.fence, null, c.attempt[array_position(c.item_no, i.item_no)],
    c.topic, c.partition, c.base_offset + array_position(c.item_no, i.item_no) - 1,
    jsonb_strip_nulls(jsonb_build_object('published_at', c.published_at, 'position', array_position(c.item_no, i.item_no)))
  from claim c cross join item i
  union all
  select r.started_at, 4 /* started */, r.worker_no, r.fence, r.run_no,
    c.attempt[array_position(c.item_no, i.item_no)], null, null, null, null
  from run r join claim c on c.fence = r.fence and c.claimed_at = r.claimed_at cross join item i
  where array_position(c.item_no, i.item_no) between r.from_position and r.to_position
  union all
  select x.expedited_at, null, x.actor_no, null, null, null, null, null, null, jsonb_build_object('reason', x.reason)
  from item i join ledger.expedited x on x.item_no = i.item_no
  union all
  select j.at, j.event, j.actor_no, r.fence, j.run_no, j.attempt, null, null, null, j.detail
  from ended j left join run r on r.run_no = j.run_no
)
select s.at, s.number, coalesce(e.name, 'expedited') as event, a.name as actor, s.fence, s.run_no, s.attempt,
  s.topic, s.partition, s.kafka_offset, s.detail, k.redacted_fields
from (
  select s.*, row_number() over (partition by s.at order by s.event nulls first, s.fence, s.run_no, s.attempt, s.actor_no) as number
  from story s
) s
left join ledger.transition_event e on e.event = s.event
join ledger.actor a on a.actor_no = s.actor_no
cross join item i
join ledger.kind k on k.kind_no = i.kind_no
where (s.at, s.number) > (coalesce($3::timestamptz, '-infinity'), coalesce($4::integer, 0))
order by s.at, s.number
limit $5::integer
