-- Record outcomes reported by topic that changed nothing, and why.
-- returns: zero
-- roles: outcome_intake, pull_worker
-- $1 reasons text[]
-- $2 actor_nos bigint[]
-- $3 fences bigint[]
-- $4 positions integer[]
-- $5 run_nos bigint[]
-- $6 item_nos bigint[]
-- $7 details text[]
-- index: none
-- locks: none
insert into ledger.rejected_write (
  rejected_at, actor_no, verb, reason, fence, run_no, item_no, from_position, to_position, detail)
select ledger.now(), u.actor_no, 'report', u.reason, u.fence, u.run_no, u.item_no, u.position, u.position, u.detail::jsonb
from unnest($1::text[], $2::bigint[], $3::bigint[], $4::integer[], $5::bigint[], $6::bigint[], $7::text[])
  u (reason, actor_no, fence, position, run_no, item_no, detail)
