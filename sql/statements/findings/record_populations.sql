-- Record what was read of each source in one pass.
-- returns: exactly one per input
-- roles: reconciler
-- $1 reconciliation_no bigint
-- $2 names text[]
-- $3 origins text[]
-- $4 query_digests text[]
-- $5 extracted_ats timestamptz[]
-- $6 duration_seconds double precision[]
-- $7 row_counts bigint[]
-- $8 skipped_counts bigint[]
-- $9 hash_totals bigint[]
-- $10 failures text[]
-- index: none
-- locks: none
insert into ledger.population (
  reconciliation_no, name, origin, query_digest, extracted_at, duration_seconds, row_count, skipped_count, hash_total,
  failure)
select $1::bigint, u.*
from unnest(
  $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::double precision[], $7::bigint[], $8::bigint[],
  $9::bigint[], $10::text[]) u
returning population_no
