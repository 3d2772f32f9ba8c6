-- Record the findings of a pass: new ones open, known ones are seen again, cleared and repaired ones reopen.
-- returns: exactly one per input
-- roles: reconciler
-- $1 reconciliation_no bigint
-- $2 ids uuid[]
-- $3 types text[]
-- $4 severities text[]
-- $5 tenants text[]
-- $6 kinds text[]
-- $7 subjects text[]
-- $8 item_ids uuid[]
-- $9 business_keys text[]
-- $10 effective_dates date[]
-- $11 due_ats timestamptz[]
-- $12 sentences text[]
-- $13 expecteds text[]
-- $14 actuals text[]
-- $15 terms text[]
-- $16 resolutions text[]
-- index: none
-- locks: finding rows (for update, id ascending)
select f.id, f.opened_count, f.resolution, f.first_seen_at, f.created
from ledger.record_findings(
  $1::bigint, $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::uuid[], $9::text[],
  $10::date[], $11::timestamptz[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[]
) f
