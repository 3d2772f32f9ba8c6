-- List the versions in a change by a tz database, by name, a page at a time.
-- returns: zero or more
-- $1 change_no bigint
-- $2 after_tenant text
-- $3 after_name text
-- $4 after_version integer
-- $5 limit integer
-- index: none
-- locks: none
select d.definition_no, d.tenant, d.name, d.version, p.superseded_at, p.failure, p.applied_at, p.items, p.overtaken
from ledger.zone_change_part p
join ledger.definition d on d.definition_no = p.definition_no
where p.change_no = $1::bigint
  and (d.tenant, d.name, d.version) > ($2::text, $3::text, $4::integer)
order by d.tenant, d.name, d.version
limit $5::integer
