-- Unblock the first waiting item of each key that is no longer held (available again), for some keys at a time.
-- returns: one
-- roles: upkeep
-- $1 after_serial bigint
-- $2 limit integer
-- index: pending_blocked_idx, pending_key_idx, held_key_pkey
-- locks: pending rows (for update, skip locked)
with recursive visited (serial, place) as (
  (select p.serial, 1 from ledger.pending p
   where p.serial > $1::bigint and p.available_at = 'infinity' order by p.serial limit 1)
  union all
  select (
    select p.serial from ledger.pending p
    where p.serial > v.serial and p.available_at = 'infinity' order by p.serial limit 1), v.place + 1
  from visited v where v.serial is not null and v.place < $2::integer
),
next as materialized (
  select n.item_no
  from visited v
  cross join lateral (
    select p.item_no, p.serial_due_at, p.overlap from ledger.pending p
    where p.serial = v.serial and p.available_at = 'infinity'
    order by p.serial_due_at, p.item_no limit 1
    for update skip locked
  ) n
  where not exists (select from ledger.held_key h where h.serial = v.serial)
    -- An earlier item that is due goes first, by the rules of claim_serial_items: this one would only wait again.
    and not exists (
      select from ledger.pending o
      where o.serial = v.serial and o.available_at <= ledger.now() and (o.serial_due_at, o.item_no) < (n.serial_due_at, n.item_no)
        and (n.overlap = 1 or exists (select from ledger.flow l where l.flow_no = o.flow_no and l.paused_at is null))
      order by o.serial_due_at, o.item_no limit 1 offset 0)
),
unblocked as (
  update ledger.pending p set available_at = ledger.not_before(p.item_no, p.serial_due_at)
  where p.item_no = any (array(select n.item_no from next n)) and p.available_at = 'infinity'
  returning 1
)
select (select count(*) from unblocked)::integer as unblocked,
  case when (select count(v.serial) from visited v) = $2::integer then (select max(v.serial) from visited v) end as reached
