-- Free held keys whose items have ended, or are missing and neither wait, are open nor in review, of some keys at a time or of some items: none should have.
-- returns: one
-- roles: reconciler, upkeep
-- $1 after_serial bigint
-- $2 limit integer
-- $3 item_nos bigint[]
-- index: held_key_pkey, pending_pkey, review_pkey
-- locks: held_key rows (for update)
with locked_default as (select from ledger.due_item_default),
visited as materialized (
  select h.serial, h.item_no, ledger.find_ended_at(h.effective_date, h.item_no) is not null as ended,
    ledger.find_due_at(h.effective_date, h.item_no) is null as missing
  from ledger.held_key h
  where h.serial > $1::bigint and ($3::bigint[] is null or h.item_no = any ($3::bigint[]))
  order by h.serial limit $2::integer
),
missing as materialized (
  select v.serial
  from visited v
  where v.missing
    and not exists (select from ledger.pending p where p.item_no = v.item_no offset 0)
    and not exists (select from ledger.review r where r.item_no = v.item_no offset 0)
    -- A run beyond the end of its claim has no item there, and nothing differs from null.
    and v.item_no <> all (array(select o.item_no from ledger.open_item o where o.item_no is not null))
),
freed as (
  delete from ledger.held_key h using visited v
  where h.serial = v.serial and (v.ended or exists (select from missing m where m.serial = v.serial))
  returning h.item_no
)
select array(select f.item_no from freed f) as freed,
  case when (select count(*) from visited) = $2::integer then (select max(v.serial) from visited v) end as reached
