-- Step the pace of floods, unless another process has since it was read; name the late flow, if one was late.
-- returns: zero or one
-- roles: allocator
-- $1 stepped_at timestamptz
-- $2 share double precision
-- $3 starts_again boolean
-- $4 flow_no integer
-- $5 lag_seconds double precision
-- $6 lag_target_seconds double precision
-- index: flood_pace_pkey
-- locks: flood_pace row (for update)
update ledger.flood_pace p
set share = $2::double precision, stepped_at = ledger.machine_now(),
  counted_from = case when $3::boolean or $4::integer is not null then ledger.now() else p.counted_from end,
  slowed_at = case when $2::double precision < 1 then case when $3::boolean then ledger.now() else coalesce(p.slowed_at, ledger.now()) end end,
  flow_no = case when $3::boolean or $4::integer is not null then $4::integer when $2::double precision < 1 then p.flow_no end,
  lag_seconds = case when $3::boolean or $4::integer is not null then $5::double precision
    when $2::double precision < 1 then p.lag_seconds end,
  lag_target_seconds = case when $3::boolean or $4::integer is not null then $6::double precision
    when $2::double precision < 1 then p.lag_target_seconds end
where p.one_row and p.stepped_at is not distinct from $1::timestamptz
returning p.stepped_at
