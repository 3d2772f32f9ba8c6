-- Free held keys whose items have ended, of some keys at a time: none should have.
-- returns: one
-- roles: reconciler, upkeep
-- $1 after_serial bigint
-- $2 limit integer
-- index: held_key_pkey
-- locks: held_key rows (for update)
with visited as materialized (
  select h.serial, ledger.find_ended_at(h.effective_date, h.item_no) is not null as ended
  from ledger.held_key h where h.serial > $1::bigint order by h.serial limit $2::integer
),
freed as (
  delete from ledger.held_key h using visited v
  where h.serial = v.serial and v.ended
  returning h.serial
)
select (select count(*) from freed)::integer as freed,
  case when (select count(*) from visited) = $2::integer then (select max(v.serial) from visited v) end as reached
