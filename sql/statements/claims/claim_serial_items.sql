-- Claim due items whose keys are free (Scheduled, RetryableFailure to Claimed) and hold the keys; the other due items wait or are skipped.
-- returns: one or more; the last has as item_no the rows deleted plus the held keys whose item was not found, all else null
-- roles: allocator, pull_worker
-- $1 flow_nos integer[]
-- $2 quotas integer[]
-- $3 floor_ats timestamptz[]
-- $4 measured boolean[]
-- $5 stripes integer[]
-- $6 actor_no bigint
-- $7 with_fences boolean
-- $8 tenants text[]
-- index: pending_serial_idx, pending_key_idx, held_key_pkey
-- locks: pending rows (for update, skip locked), held_key rows (lock_serial_stripes has locked the stripes, in a statement before)
with locked_default as (select from ledger.due_item_default),
asked as materialized (
  select q.*, f.retry_share,
    exists (
      select from ledger.pending p
      where p.flow_no = q.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is not null
        and p.available_at <= ledger.now() and p.available_at >= q.floor_at
      order by p.available_at limit 1 offset 0) as has_retries  -- ordered like the index; otherwise a plan may read all rows
  from unnest($1::integer[], $2::integer[], $3::timestamptz[], $4::boolean[]) q (flow_no, quota, floor_at, measured)
  -- A flow that was limited after it was listed is skipped until it is locked and measured.
  join ledger.flow f on f.flow_no = q.flow_no and f.paused_at is null and (q.measured or not f.limited)
  where $8::text[] is null or f.tenant = any ($8::text[])
),
-- As in claim_items: retries have their share, and also what first attempts do not use.
firsts as materialized (
  select l.*
  from asked a
  cross join lateral (
    select p.item_no, p.effective_date, p.flow_no, p.state, p.serial, p.serial_due_at, p.overlap
    from ledger.pending p
    where p.flow_no = a.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null
      and p.available_at <= ledger.now() and p.available_at >= a.floor_at
      and (p.overlap = 1 or (p.serial & 127)::integer = any ($5::integer[]))
    order by p.available_at
    limit a.quota - case when a.has_retries then floor(a.quota * a.retry_share + random())::integer else 0 end
    for update skip locked
  ) l
),
retries as materialized (
  select l.*
  from asked a
  left join (select f.flow_no, count(*) as items from firsts f group by f.flow_no) t on t.flow_no = a.flow_no
  cross join lateral (
    select p.item_no, p.effective_date, p.flow_no, p.state, p.serial, p.serial_due_at, p.overlap
    from ledger.pending p
    where p.flow_no = a.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is not null
      and p.available_at <= ledger.now() and p.available_at >= a.floor_at
      and (p.overlap = 1 or (p.serial & 127)::integer = any ($5::integer[]))
    order by p.available_at
    limit a.quota - coalesce(t.items, 0)
    for update skip locked
  ) l
  where a.has_retries
),
found as materialized (
  select * from firsts union all select * from retries
),
holding as materialized (
  select f.serial, f.item_no
  from found f
  where exists (select from ledger.held_key h where h.serial = f.serial and h.item_no = f.item_no offset 0)
),
-- Pending items of a key are found by number or in key order, in a subquery with `offset 0`. Otherwise a plan made while
-- few were pending reads all of them for each row.
-- Overlap 4: only the newest due item of a key runs. An item of a paused flow ends no item of another flow.
newest as materialized (
  select distinct on (f.serial) f.serial, f.serial_due_at, f.item_no
  from found f where f.overlap = 4 order by f.serial, f.serial_due_at desc, f.item_no desc
),
outdone as materialized (
  select f.item_no, f.effective_date, f.state
  from found f
  where f.overlap = 4 and not exists (select from holding e where e.item_no = f.item_no)
    and (
      exists (
        select from ledger.pending n
        where n.serial = f.serial and (n.available_at <= ledger.now() or n.available_at = 'infinity') and n.overlap = 4
          and (n.serial_due_at, n.item_no) > (f.serial_due_at, f.item_no)
          and exists (select from ledger.flow l where l.flow_no = n.flow_no and l.paused_at is null)
        order by n.serial_due_at, n.item_no limit 1 offset 0)
      or exists (
        select from (select * from ledger.held_key h where h.serial = f.serial offset 0) h
        where (ledger.find_due_at(h.effective_date, h.item_no), h.item_no) > (f.serial_due_at, f.item_no) offset 0))
  union all
  select w.item_no, w.effective_date, w.state
  from newest n
  cross join lateral (
    select p.item_no, p.effective_date, p.state
    from ledger.pending p
    where p.serial = n.serial and p.available_at = 'infinity' and p.overlap = 4
      and (p.serial_due_at, p.item_no) < (n.serial_due_at, n.item_no)
    order by p.serial_due_at, p.item_no limit 1000
    for update skip locked
  ) w
),
-- The first item of each key. With overlap 2 or 4 a first attempt goes before a retry: the retry may wait, the first attempt
-- would end as skipped. With overlap 1 an item is not the first while an earlier one of its key is due or waits for the key, such as
-- one that another transaction has locked. With overlap 3 the earlier one counts only if its flow is not paused.
first as materialized (
  select f.*
  from (
    select distinct on (f.serial) f.*
    from found f
    where not exists (select from outdone o where o.item_no = f.item_no)
    order by f.serial, f.overlap not in (2, 4) or f.state <> 1 /* Scheduled */, f.serial_due_at, f.item_no
  ) f
  where not exists (select from ledger.held_key h where h.serial = f.serial offset 0)
    and (f.overlap in (2, 4) or not exists (
      select from ledger.pending o
      where o.serial = f.serial and (o.available_at <= ledger.now() or o.available_at = 'infinity')
        and (o.serial_due_at, o.item_no) < (f.serial_due_at, f.item_no)
        and (f.overlap = 1 or exists (select from ledger.flow l where l.flow_no = o.flow_no and l.paused_at is null))
      order by o.serial_due_at, o.item_no limit 1 offset 0))
),
held as (
  insert into ledger.held_key (serial, item_no, effective_date, flow_no, held_at)
  select f.serial, f.item_no, f.effective_date, f.flow_no, ledger.now()
  from first f
  order by f.serial
  on conflict do nothing
  returning serial, item_no
),
free as materialized (
  select serial, item_no from held union all select serial, item_no from holding
),
-- Overlap 2 skips items while the key is held; overlap 3 lets one item wait and skips the rest. Retries are never skipped, nor are
-- redriven items: they wait.
surplus as materialized (
  select s.item_no
  from (
    select f.item_no, f.serial, f.overlap,
      row_number() over (partition by f.serial, f.overlap order by f.serial_due_at, f.item_no) as place
    from found f
    where f.overlap in (2, 3) and f.state = 1 /* Scheduled */ and not exists (select from free e where e.item_no = f.item_no)
  ) s
  where case s.overlap
    when 2 then exists (select from held e where e.serial = s.serial)
      or exists (select from ledger.held_key h where h.serial = s.serial offset 0)
    else s.place > 1 or exists (
      select from ledger.pending b
      where b.serial = s.serial and b.available_at = 'infinity' and b.overlap = 3 and b.state = 1 /* Scheduled */
        and exists (select from ledger.flow l where l.flow_no = b.flow_no and l.paused_at is null)
      order by b.serial_due_at, b.item_no limit 1 offset 0)
    end
  union all
  select o.item_no from outdone o where o.state = 1 /* Scheduled */
),
skipped as (
  delete from ledger.pending p
  where p.item_no = any (array(select s.item_no from surplus s)) and p.state = 1 /* Scheduled */
  returning p.item_no, p.effective_date, p.attempt
),
journal as (
  insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at, detail)
  select s.effective_date, s.item_no, 13 /* skipped */, s.attempt, $6::bigint, ledger.now(),
    jsonb_build_object('reason', 'overlap')
  from skipped s
),
-- Overlap 4: request the withdrawal of an older item that holds the key, or that is retried.
ousted as (
  insert into ledger.withdrawal (item_no, effective_date, event, reason, actor_no, requested_at)
  select x.item_no, x.effective_date, 11 /* cancelled */, 'overlap', $6::bigint, ledger.now()
  from (
    select h.item_no, h.effective_date
    from newest n
    cross join lateral (
      select h.item_no, h.effective_date
      from (select * from ledger.held_key h where h.serial = n.serial offset 0) h
      where (ledger.find_due_at(h.effective_date, h.item_no), h.item_no) < (n.serial_due_at, n.item_no) offset 0
    ) h
    union
    select o.item_no, o.effective_date from outdone o where o.state = 4 /* RetryableFailure */
  ) x
  order by x.item_no
  on conflict (item_no) do nothing
),
blocked as (
  update ledger.pending p set available_at = 'infinity'
  where p.item_no = any (array(
    select f.item_no from found f
    where not exists (select from free e where e.item_no = f.item_no)
      and not exists (select from surplus s where s.item_no = f.item_no)
      and (f.overlap <> 2 or f.state <> 1 /* Scheduled */)))
),
removed as (
  delete from ledger.pending p
  where p.item_no = any (array(select e.item_no from free e)) and p.state in (1 /* Scheduled */, 4 /* RetryableFailure */)
  returning p.item_no, p.effective_date, p.attempt, p.starts, p.batch_max
),
grouped as materialized (
  select array_agg(row(g.effective_date, g.item_nos, g.attempt, g.starts, g.batch_max)::ledger.item_group) as groups
  from (
    select r.effective_date, r.attempt, r.starts, r.batch_max, array_agg(r.item_no) as item_nos
    from removed r
    group by r.effective_date, r.attempt, r.starts, r.batch_max
  ) g
)
select i.item_no, i.id, i.effective_date, i.flow_no, textsend(i.business_key) as business_key,
  textsend(i.partition_key) as partition_key, i.cycle, timestamptz_send(i.due_at) as due_at, json_send(i.payload) as payload, i.traceparent,
  i.attempt, i.starts, i.batch_max,
  case when $7::boolean then nextval('ledger.fence') end as fence
from grouped g
cross join lateral ledger.find_items(g.groups) i
-- As in claim_items, the caller compares the rows deleted with the items found. The items of held keys must be found, too.
union all
select (select count(*) from removed) + (
    select count(*) from newest n
    cross join lateral (select * from ledger.held_key h where h.serial = n.serial offset 0) h
    where ledger.find_due_at(h.effective_date, h.item_no) is null),
  null, null, null, null, null, null, timestamptz_send(ledger.now()), null, null, null, null, null, null
