-- List the pauses in force, by whom and why, the oldest first; with a kind or a lane, those that cover flows of it.
-- returns: zero or more
-- roles: auditor, operator
-- $1 tenant text
-- $2 tenants text[]
-- $3 limit integer
-- $4 after_paused_at timestamptz
-- $5 after_pause_no bigint
-- $6 kind text
-- $7 lane text
-- index: none
-- locks: none
select p.pause_no, p.tenant, p.kind, p.lane, p.paused_at, a.name as paused_by, p.paused_until, p.reason
from ledger.pause p join ledger.actor a on a.actor_no = p.actor_no
where p.resumed_at is null and ($1::text is null or p.tenant = $1::text)
  and ($2::text[] is null or p.tenant = any ($2::text[]))
  and ($4::timestamptz is null or (p.paused_at, p.pause_no) > ($4::timestamptz, $5::bigint))
  and ($6::text is null or p.kind is null or p.kind = $6::text) and ($7::text is null or p.lane is null or p.lane = $7::text)
order by p.paused_at, p.pause_no
limit $3::integer
