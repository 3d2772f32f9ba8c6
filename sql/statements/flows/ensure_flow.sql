-- Find or make the flow of a tenant, kind and lane, so that it can be limited before its first item.
-- returns: one
-- roles: operator
-- $1 tenant text
-- $2 kind text
-- $3 lane text
-- index: none
-- locks: none
select e.flow_no from ledger.ensure_flows(array[$1::text], array[$2::text], array[$3::text]) e
