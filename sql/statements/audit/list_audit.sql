-- List what people, API keys and tokens changed, the newest first.
-- returns: zero or more
-- roles: auditor, operator
-- $1 tenants text[]
-- $2 tenant text
-- $3 actor text
-- $4 operation text
-- $5 target text
-- $6 since timestamptz
-- $7 until timestamptz
-- $8 after_at timestamptz
-- $9 after_no bigint
-- $10 limit integer
-- index: audit_at_idx
-- locks: none
select a.audit_no, a.at, c.name as actor, a.login, a.operation, a.target, a.tenants, a.reason, a.detail, a.request_id
from ledger.audit a join ledger.actor c on c.actor_no = a.actor_no
where ($1::text[] is null or a.tenants <@ $1::text[])
  and ($2::text is null or $2::text = any (a.tenants))
  and ($3::text is null or c.name = $3::text)
  and ($4::text is null or a.operation = $4::text)
  and ($5::text is null or a.target = $5::text)
  and a.at >= coalesce($6::timestamptz, '-infinity') and a.at < coalesce($7::timestamptz, 'infinity')
  and (a.at, a.audit_no) < (coalesce($8::timestamptz, 'infinity'), coalesce($9::bigint, 0))
order by a.at desc, a.audit_no desc
limit $10::integer
