-- Emit items as the login itself, and return which of them are new; one that is refused refuses all.
-- returns: exactly one per input
-- roles: relay
-- $1 tenants text[]
-- $2 kinds text[]
-- $3 business_keys text[]
-- $4 effective_dates date[]
-- $5 due_ats timestamptz[]
-- $6 payloads text[]
-- $7 cycles text[]
-- $8 lanes text[]
-- $9 partition_keys text[]
-- $10 labels text[]
-- $11 traceparents text[]
-- index: none
-- locks: none
select created
from ledger.emit_arrays(
  $1::text[], $2::text[], $3::text[], $4::date[], $5::timestamptz[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
  $11::text[])
order by ord
