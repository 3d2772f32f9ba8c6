-- Make the table partition that holds a date, unless it exists or cannot be made now; for due_item, move its rows from the default one.
-- returns: one
-- roles: intake, materialiser, upkeep
-- $1 parent text
-- $2 day date
-- $3 rows_max integer
-- index: none
-- locks: partition_span (share row exclusive), the parents (share update exclusive), their default partitions (access exclusive), each for an instant
select ledger.make_partition($1::text, $2::date, $3::integer) as made
