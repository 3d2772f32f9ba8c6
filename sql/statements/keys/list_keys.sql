-- List API keys, the newest first; of one name, or of all.
-- returns: zero or more
-- roles: owner
-- $1 name text
-- $2 limit integer
-- index: none
-- locks: none
select k.prefix, a.name, k.scopes, a.tenants, k.created_at, c.name as created_by, k.expires_at, k.last_used_at, k.revoked_at,
  r.name as revoked_by, k.revoked_at is null and coalesce(k.expires_at > ledger.machine_now(), true) as is_valid
from ledger.api_key k
join ledger.actor a on a.actor_no = k.actor_no
join ledger.actor c on c.actor_no = k.created_by
left join ledger.actor r on r.actor_no = k.revoked_by
where $1::text is null or a.name = $1::text
order by k.key_no desc
limit $2::integer
