-- Count the rows that are committed and not refused, at most $1.
select count(*)::integer from (select from due_outbox.item where refused_at is null limit $1::integer) r
