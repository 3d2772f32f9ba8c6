-- Record that a definition could not be materialised, and why; its watermark does not change.
-- returns: zero or one
-- roles: materialiser
-- $1 definition_no bigint
-- $2 failure text
-- index: materialised_pkey
-- locks: materialised row (for update)
update ledger.materialised m
set failed_at = ledger.now(), failure = $2::text
where m.definition_no = $1::bigint
returning m.definition_no
