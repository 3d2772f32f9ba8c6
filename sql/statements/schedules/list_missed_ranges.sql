-- List missed ranges of occurrences, by definition and time.
-- returns: zero or more
-- $1 after_definition_no bigint
-- $2 after_from_at timestamptz
-- $3 limit integer
-- index: lapse_pkey
-- locks: none
select l.definition_no, l.from_at, l.until_at
from ledger.lapse l
where (l.definition_no, l.from_at) > ($1::bigint, $2::timestamptz)
order by l.definition_no, l.from_at
limit $3::integer
