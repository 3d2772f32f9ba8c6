-- Record when the certificate that a live service shows its clients expires, if the row has another time.
-- returns: zero or one
-- roles: service
-- $1 process_no bigint
-- $2 expires_at timestamptz
-- index: process_pkey
-- locks: process row (for update)
update ledger.process p
set certificate_expires_at = $2::timestamptz
where p.process_no = $1::bigint and p.ended_at is null and p.certificate_expires_at is distinct from $2::timestamptz
returning p.process_no
