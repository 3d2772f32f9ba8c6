-- Record what an actor changes, in the transaction that changes it. The time, the login and the role are the server's.
-- returns: zero
-- roles: approver, key_manager, operator, owner
-- $1 actor_no bigint
-- $2 operation text
-- $3 targets jsonb
-- $4 reason text
-- $5 request_id text
-- index: none
-- locks: none
insert into ledger.audit (actor_no, operation, target, tenants, reason, detail, request_id)
select $1::bigint, $2::text, t.target, t.tenants, $4::text, t.detail, $5::text
from jsonb_to_recordset($3::jsonb) t (target text, tenants text[], detail jsonb)
