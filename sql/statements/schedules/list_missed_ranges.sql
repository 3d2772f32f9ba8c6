-- List missed ranges of occurrences that a materialiser recorded, up to when it did, by definition and time.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 after_definition_no bigint
-- $2 after_from_at timestamptz
-- $3 limit integer
-- index: missed_range_pkey
-- locks: none
select m.definition_no, m.from_at, least(m.until_at, m.recorded_at) as until_at
from ledger.missed_range m join ledger.actor a on a.actor_no = m.actor_no and a.kind = 'materialiser'
where m.reason = 'catch_up' and (m.definition_no, m.from_at) > ($1::bigint, $2::timestamptz)
order by m.definition_no, m.from_at
limit $3::integer
