-- Give newer terms to pending items of older versions that were never handed out (Scheduled), or end them as Skipped.
-- returns: zero or more, one an input that stands
-- roles: materialiser
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
-- $11 since timestamptz[]
-- $12 definition_nos bigint[]
-- $13 reason text
-- $14 partition_keys text[]
-- $15 labels text[]
-- $16 start_bys timestamptz[]
-- $17 complete_bys timestamptz[]
-- $18 tzdata text
-- $19 nominals text[]
-- $20 zones text[]
-- $21 decisions text[]
-- $22 smears double precision[]
-- $23 skip_reasons text[]
-- $24 overlap_rules smallint[]
-- $25 overlap_keys text[]
-- index: none
-- locks: pending rows (for update, item_no ascending)
select ord, result
from ledger.revise_items(
  $1::text[], $2::text[], $3::text[], $4::integer[], $5::text[], $6::text[], $7::date[], $8::timestamptz[],
  $9::text[], $10::bigint, $11::timestamptz[], $12::bigint[], $13::text, $14::text[], $15::text[],
  $16::timestamptz[], $17::timestamptz[], $18::text, $19::text[], $20::text[], $21::text[],
  $22::double precision[], $23::text[], $24::smallint[], $25::text[])
