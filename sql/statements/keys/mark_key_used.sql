-- Record that an API key is used, unless that was recorded in the last minute.
-- returns: zero or one
-- roles: service
-- $1 key_no bigint
-- index: api_key_pkey
-- locks: api_key row (for update)
update ledger.api_key k set last_used_at = ledger.machine_now()
where k.key_no = $1::bigint and coalesce(k.last_used_at < ledger.machine_now() - interval '1 minute', true)
returning k.key_no
