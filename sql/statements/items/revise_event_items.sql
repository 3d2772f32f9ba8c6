-- Give pending items that were never handed out (Scheduled) the terms of an event that happened before the one that gave theirs.
-- returns: zero or more, one an input that stands
-- roles: intake
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
-- $11 definition_nos bigint[]
-- $12 partition_keys text[]
-- $13 labels text[]
-- $14 start_bys timestamptz[]
-- $15 complete_bys timestamptz[]
-- $16 tzdata text
-- $17 nominals text[]
-- $18 zones text[]
-- $19 decisions text[]
-- $20 smears double precision[]
-- $21 overlap_rules smallint[]
-- $22 overlap_keys text[]
-- $23 event_nos bigint[]
-- $24 replaced_event_nos bigint[]
-- $25 traceparents text[]
-- index: none
-- locks: pending rows (for update, item_no ascending)
select ord, result
from ledger.revise_items(
  $1::text[], $2::text[], $3::text[], $4::integer[], $5::text[], $6::text[], $7::date[], $8::timestamptz[],
  $9::text[], $10::bigint, null, $11::bigint[], 'event', $12::text[], $13::text[], $14::timestamptz[],
  $15::timestamptz[], $16::text, $17::text[], $18::text[], $19::text[], $20::double precision[], null,
  $21::smallint[], $22::text[], $23::bigint[], $24::bigint[], $25::text[])
