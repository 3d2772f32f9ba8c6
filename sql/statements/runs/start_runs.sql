-- Start claim slices (Claimed to Running) as one or more runs each, if the claim is open and not another's, and the slice is the next one.
-- returns: one or more per input, one a run in the order of positions, or one refusal
-- roles: pull_worker, worker
-- $1 fences bigint[]
-- $2 claimed_ats timestamptz[]
-- $3 tokens text[]
-- $4 from_positions integer[]
-- $5 to_positions integer[]
-- $6 run_items_max integer[]
-- $7 worker_no bigint
-- $8 lease_seconds double precision
-- $9 first_claimed_at timestamptz
-- $10 last_claimed_at timestamptz
-- $11 isolations text[]
-- index: claim_pkey, withdrawal_pkey
-- locks: claim rows (for update, in the order given), after them partition_backoff rows (for update, skip locked)
with locked_default as (select from ledger.due_item_default),
asked as materialized (
  select * from unnest($1::bigint[], $2::timestamptz[], $3::text[], $4::integer[], $5::integer[], $6::integer[], $11::text[])
    with ordinality a (fence, claimed_at, token, from_position, to_position, run_items_max, isolated_in, ord)
),
opened as (
  update ledger.claim c
  set started = a.to_position,
    closed_at = case when a.to_position = c.size then ledger.now() end
  from asked a
  where c.fence = a.fence and c.claimed_at is not distinct from a.claimed_at and c.claimed_at between $9::timestamptz and $10::timestamptz
    and c.token = a.token and c.closed_at is null and c.started = a.from_position - 1
    and a.to_position between a.from_position and c.size
    -- A claim settled by topic belongs to its holder, a direct claim (partition -1) to the worker that made it.
    and c.topic_actor_no is null and (c.partition >= 0 or c.allocator_no = $7::bigint)
  returning c.fence, c.claimed_at, c.topic, c.partition, a.from_position, a.to_position, a.run_items_max, a.isolated_in, c.flow_no, c.run_seconds,
    c.item_no[a.from_position:a.to_position] as item_no,
    c.effective_date[a.from_position:a.to_position] as effective_date,
    c.attempt[a.from_position:a.to_position] as attempt
),
-- A start out of a partition ends its backoff; one that another transaction has locked waits for the next start.
-- Nothing reads the result, so it runs after all else has locked its rows: a reaper that has locked claims and waits for a backoff
-- is waited for by no start that has the backoff.
resumed as (
  delete from ledger.partition_backoff b
  where b.ctid = any (array(
    select l.ctid from ledger.partition_backoff l
    where (l.topic, l.partition) in (select o.topic, o.partition from opened o)
    for update skip locked))
),
withdrawn as materialized (
  select o.fence, o.from_position + u.ord::integer - 1 as position, u.item_no, u.effective_date, u.attempt,
    w.event, w.reason, w.replacement, w.actor_no
  from opened o
  cross join lateral unnest(o.item_no, o.effective_date, o.attempt)
    with ordinality u (item_no, effective_date, attempt, ord)
  cross join lateral (  -- `offset 0`: otherwise a plan made while there were few rows reads all of them for each item
    select * from ledger.withdrawal w where w.item_no = u.item_no offset 0
  ) w
  where exists (select from ledger.withdrawal)
),
honoured as (
  delete from ledger.withdrawal w where w.item_no = any (array(select x.item_no from withdrawn x))
),
begun as (
  insert into ledger.run (
    started_at, fence, claimed_at, from_position, to_position, worker_no, lease_until, lease_seconds, ended, closed_at,
    flow_no, run_until, isolated_in, withdrawn)
  select ledger.now(), o.fence, o.claimed_at, s.from_position, s.to_position, $7::bigint,
    ledger.machine_now() + make_interval(secs => least($8::double precision, o.run_seconds)), $8::double precision, m.ended,
    case when m.ended = ~m.blank then ledger.now() end, o.flow_no,
    ledger.machine_now() + make_interval(secs => o.run_seconds), o.isolated_in, nullif(m.ended, m.blank)
  from opened o
  cross join lateral (
    select p as from_position, least(p + o.run_items_max - 1, o.to_position) as to_position
    from generate_series(o.from_position, o.to_position, o.run_items_max) p
  ) s
  cross join lateral (
    select b.blank, coalesce((
      select bit_or(set_bit(b.blank, x.position - s.from_position, 1)) from withdrawn x
      where x.fence = o.fence and x.position between s.from_position and s.to_position), b.blank) as ended
    from (select repeat('0', s.to_position - s.from_position + 1)::bit varying as blank) b
  ) m
  order by o.fence, s.from_position
  returning run_no, started_at, fence, from_position, to_position,
    extract(epoch from lease_until - ledger.machine_now())::double precision as lease_seconds_left
),
journal as (
  insert into ledger.transition (effective_date, item_no, event, attempt, run_no, actor_no, at, detail)
  select x.effective_date, x.item_no, x.event, x.attempt, b.run_no, x.actor_no, ledger.now(),
    jsonb_strip_nulls(jsonb_build_object('reason', x.reason, 'replacement', x.replacement))
  from withdrawn x join begun b on b.fence = x.fence and x.position between b.from_position and b.to_position
),
asked_with_run as materialized (
  select a.ord, a.fence, coalesce(b.from_position, a.from_position) as from_position,
    coalesce(b.to_position, a.to_position) as to_position, b.run_no, b.started_at, b.lease_seconds_left, c.started,
    c.closed_at,
    case
      when b.run_no is not null then null
      when c.size is null then 'mismatch'
      when c.topic_actor_no is not null or (c.partition < 0 and c.allocator_no <> $7::bigint) then 'wrong_settler'
      when c.closed_at is not null and c.started < c.size then 'stale'
    end as refusal
  from asked a
  left join begun b on b.fence = a.fence
  -- Strict: it is called only for what was not started.
  cross join lateral ledger.find_claim(case when b.run_no is null then a.fence end, a.claimed_at, a.token) c
),
stale as (
  insert into ledger.rejected_write (rejected_at, actor_no, verb, reason, fence, from_position, to_position)
  select ledger.now(), $7::bigint, 'start', n.refusal, n.fence, n.from_position, n.to_position
  from asked_with_run n
  where n.refusal is not null
)
select n.fence, n.from_position, n.to_position, n.run_no, n.started_at,
  case when n.run_no is null then coalesce(n.started, 0) else n.to_position end as started_to,
  n.refusal is not null or n.closed_at is not null as closed,
  n.refusal, n.lease_seconds_left,
  coalesce(
    (select array_agg(x.position order by x.position) from withdrawn x
     where x.fence = n.fence and x.position between n.from_position and n.to_position),
    '{}'::integer[]) as withdrawn
from asked_with_run n
order by n.ord, n.from_position
