-- List what was changed of some targets, the newest first.
-- returns: zero or more
-- roles: auditor, operator
-- $1 targets text[]
-- $2 tenants text[]
-- $3 limit integer
-- $4 after_at timestamptz
-- $5 after_no bigint
-- index: audit_target_idx
-- locks: none
-- Of each target so many are read as are listed.
select a.audit_no, a.at, c.name as actor, a.role, a.login, a.operation, a.target, a.tenants, a.reason, a.detail, a.request_id
from (select distinct u.target from unnest($1::text[]) u (target)) t
cross join lateral (
  select a.* from ledger.audit a
  where a.target = t.target and ($2::text[] is null or a.tenants <@ $2::text[])
    and (a.at, a.audit_no) < (coalesce($4::timestamptz, 'infinity'), coalesce($5::bigint, 0))
  order by a.at desc, a.audit_no desc
  limit $3::integer
) a
join ledger.actor c on c.actor_no = a.actor_no
order by a.at desc, a.audit_no desc
limit $3::integer
