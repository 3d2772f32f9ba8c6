-- Note that a pass has counted all items that were due from a time on.
-- returns: zero
-- roles: reconciler
-- $1 as_of timestamptz
-- $2 counted_from timestamptz
-- index: none
-- locks: past_load_count row
insert into ledger.past_load_count (as_of, counted_from) values ($1::timestamptz, $2::timestamptz)
on conflict (one) do update set as_of = excluded.as_of, counted_from = excluded.counted_from
