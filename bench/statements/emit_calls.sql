-- Emit each item by a call of its own, in one statement; returns how many are new.
-- returns: one
-- roles: owner
-- $1 tenants text[]
-- $2 kinds text[]
-- $3 business_keys text[]
-- $4 effective_dates date[]
-- $5 due_ats timestamptz[]
-- $6 payloads text[]
-- index: none
-- locks: none
select count(*) filter (where e.created)
from unnest($1::text[], $2::text[], $3::text[], $4::date[], $5::timestamptz[], $6::text[]) u (
  tenant, kind, business_key, effective_date, due_at, payload)
cross join lateral ledger.emit(u.tenant, u.kind, u.business_key, u.effective_date, u.due_at, u.payload::json) e
