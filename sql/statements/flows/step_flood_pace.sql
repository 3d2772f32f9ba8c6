-- Step the pace of floods, unless another process has since it was read; name the late flow, if one was late.
-- returns: zero or one
-- roles: allocator
-- $1 stepped_at timestamptz
-- $2 share double precision
-- $3 threshold double precision
-- $4 starts_again boolean
-- $5 flow_no integer
-- $6 lag_seconds double precision
-- $7 lag_target_seconds double precision
-- index: flood_pace_pkey
-- locks: flood_pace row (for update)
update ledger.flood_pace p
set share = $2::double precision, threshold = $3::double precision, stepped_at = ledger.machine_now(),
  counted_from = case when $4::boolean or $5::integer is not null then ledger.now() else p.counted_from end,
  slowed_at = case when $2::double precision < 1 then case when $4::boolean then ledger.now() else coalesce(p.slowed_at, ledger.now()) end end,
  flow_no = case when $4::boolean or $5::integer is not null then $5::integer when $2::double precision < 1 then p.flow_no end,
  lag_seconds = case when $4::boolean or $5::integer is not null then $6::double precision
    when $2::double precision < 1 then p.lag_seconds end,
  lag_target_seconds = case when $4::boolean or $5::integer is not null then $7::double precision
    when $2::double precision < 1 then p.lag_target_seconds end
where p.one_row and p.stepped_at is not distinct from $1::timestamptz
returning p.stepped_at
