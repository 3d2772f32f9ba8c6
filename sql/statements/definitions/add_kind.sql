-- Add a kind with the defaults of its columns; an existing kind does not change.
-- returns: zero
-- roles: operator
-- $1 tenant text
-- $2 name text
-- index: kind_tenant_name_key
-- locks: none
insert into ledger.kind (tenant, name, topic)
select $1::text, $2::text, 'due.' || $2::text
-- An insert takes a number even where it conflicts.
where not exists (select from ledger.kind k where k.tenant = $1::text and k.name = $2::text)
on conflict (tenant, name) do nothing
