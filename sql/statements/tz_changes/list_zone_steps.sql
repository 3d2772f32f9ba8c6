-- List the items of one version in a change by a tz database, by time, a page at a time.
-- returns: zero or more
-- $1 change_no bigint
-- $2 definition_no bigint
-- $3 after_at timestamptz
-- $4 after_id uuid
-- $5 limit integer
-- index: none
-- locks: none
select s.at, s.id, s.step, s.cycle, s.zone, s.due_at, s.decision, s.skip_reason, s.tzdata_before, s.draft::text as draft
from ledger.zone_change_step s
where s.change_no = $1::bigint and s.definition_no = $2::bigint
  and (s.at, s.id) > ($3::timestamptz, $4::uuid)
order by s.at, s.id
limit $5::integer
