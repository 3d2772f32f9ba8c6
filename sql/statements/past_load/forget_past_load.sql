-- Forget the results of the items that were due before a time, up to a limit of rows; return how many were forgotten.
-- returns: one
-- roles: reconciler
-- $1 before timestamptz
-- $2 limit integer
-- index: none
-- locks: lock_row row (for update), past_load rows, past_sum rows
select ledger.forget_past_load($1::timestamptz, $2::integer)
