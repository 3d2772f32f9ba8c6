-- Emit a batch of items as Scheduled, or as Skipped if they have a reason; an existing key changes nothing.
-- returns: zero or more, one an input that made no row
-- roles: intake, materialiser, operator, reconciler
-- $1 flow_tenants text[]
-- $2 flow_kinds text[]
-- $3 flow_lanes text[]
-- $4 flow_of integer[]
-- $5 business_keys text[]
-- $6 cycles text[]
-- $7 effective_dates date[]
-- $8 due_ats timestamptz[]
-- $9 payloads text[]
-- $10 actor bigint
-- $11 partition_keys text[]
-- $12 labels text[]
-- $13 start_bys timestamptz[]
-- $14 complete_bys timestamptz[]
-- $15 definition_nos bigint[]
-- $16 event_nos bigint[]
-- $17 tzdata text
-- $18 nominals text[]
-- $19 zones text[]
-- $20 decisions text[]
-- $21 smears double precision[]
-- $22 traceparents text[]
-- $23 skip_reasons text[]
-- $24 overlap_rules smallint[]
-- $25 overlap_keys text[]
-- index: none
-- locks: none
select ord
from ledger.emit_items(
  $1::text[], $2::text[], $3::text[], $4::integer[], $5::text[], $6::text[], $7::date[], $8::timestamptz[],
  $9::text[], $10::bigint, $11::text[], $12::text[], $13::timestamptz[], $14::timestamptz[], $15::bigint[],
  $16::bigint[], $17::text, $18::text[], $19::text[], $20::text[], $21::double precision[], $22::text[],
  $23::text[], $24::smallint[], $25::text[])
