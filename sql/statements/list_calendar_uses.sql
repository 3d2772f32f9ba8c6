-- List by which calendar definitions were expanded, and from when on, by definition and time.
-- returns: zero or more
-- $1 after_definition_no bigint
-- $2 after_from_at timestamptz
-- $3 limit integer
-- index: calendar_use_pkey
-- locks: none
select u.definition_no, u.from_at, u.calendar_no
from ledger.calendar_use u
where (u.definition_no, u.from_at) > ($1::bigint, $2::timestamptz)
order by u.definition_no, u.from_at
limit $3::integer
