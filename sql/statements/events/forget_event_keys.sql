-- Forget the oldest keys of events that were received long ago: a copy that comes after that is a new event.
-- returns: one
-- roles: upkeep
-- $1 keep_days integer
-- $2 limit integer
-- index: event_key_received_at_idx, event_key_pkey
-- locks: event_key rows (for update, skip locked)
with old as materialized (
  select k.tenant, k.source, k.id from ledger.event_key k
  where k.received_at < ledger.now() - make_interval(days => $1::integer)
  order by k.received_at limit $2::integer
  for update skip locked
),
forgotten as (
  delete from ledger.event_key k using old o
  where k.tenant = o.tenant and k.source = o.source and k.id = o.id
  returning k.event_no
)
select count(*)::integer as forgotten from forgotten
