-- Record the results of the items of a range of effective dates, in place of what was recorded of them; return how many rows were changed.
-- returns: one
-- roles: reconciler
-- $1 from_date date
-- $2 to_date date
-- $3 tenants text[]
-- $4 kinds text[]
-- $5 quarters timestamptz[]
-- $6 effective_dates date[]
-- $7 items integer[]
-- $8 completed integer[]
-- $9 completed_late integer[]
-- $10 in_review integer[]
-- $11 withdrawn integer[]
-- $12 written_off integer[]
-- $13 had_failures integer[]
-- index: none
-- locks: lock_row row (for update), past_load rows (tenant, kind, quarter, effective_date ascending), past_sum rows
select ledger.record_past_load($1::date, $2::date, $3::text[], $4::text[], $5::timestamptz[], $6::date[], $7::integer[], $8::integer[],
  $9::integer[], $10::integer[], $11::integer[], $12::integer[], $13::integer[])
