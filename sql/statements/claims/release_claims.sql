-- Release open claims of this allocator: items not started go from Claimed back to Scheduled.
-- returns: one
-- roles: allocator
-- $1 fences bigint[]
-- $2 claimed_ats timestamptz[]
-- $3 allocator_no bigint
-- $4 first_claimed_at timestamptz
-- $5 last_claimed_at timestamptz
-- index: claim_pkey
-- locks: claim rows (for update)
with locked_default as (select from ledger.due_item_default),
closed as (
  update ledger.claim c
  set closed_at = ledger.now()
  from unnest($1::bigint[], $2::timestamptz[]) u (fence, claimed_at)
  where c.fence = u.fence and c.claimed_at is not distinct from u.claimed_at and c.claimed_at between $4::timestamptz and $5::timestamptz
    and c.allocator_no = $3::bigint and c.closed_at is null
  returning c.item_no[c.started + 1:] as item_no, c.effective_date[c.started + 1:] as effective_date,
    c.attempt[c.started + 1:] as attempt, c.starts[c.started + 1:] as starts, c.batch_max
),
grouped as (
  select array_agg(row(g.effective_date, g.item_nos, g.attempt, g.starts, g.batch_max)::ledger.item_group) as groups
  from (
    select u.effective_date, u.attempt, u.starts, c.batch_max, array_agg(u.item_no) as item_nos
    from closed c
    cross join lateral unnest(c.item_no, c.effective_date, c.attempt, c.starts) u (item_no, effective_date, attempt, starts)
    group by u.effective_date, u.attempt, u.starts, c.batch_max
  ) g
),
back as (
  insert into ledger.pending (
    item_no, effective_date, flow_no, available_at, state, attempt, starts, batch_max, serial, serial_due_at, overlap)
  select i.item_no, i.effective_date, i.flow_no, ledger.not_before(i.item_no, i.due_at), 1 /* Scheduled */,
    i.attempt - 1, i.starts - 1, i.batch_max, i.serial,
    case when i.serial is not null then i.due_at end, i.overlap
  from grouped g
  cross join lateral ledger.find_items(g.groups) i
  returning flow_no, available_at
)
select count(*)::integer as released from back b
where ledger.none_lost((select coalesce(sum(cardinality(c.item_no)), 0) from closed c), (select count(*) from back))
having ledger.wake_sleepers(array_agg(b.flow_no), array_agg(b.available_at))
