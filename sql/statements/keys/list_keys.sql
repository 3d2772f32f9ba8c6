-- List API keys, the newest first; of one name, or of all.
-- returns: zero or more
-- roles: key_manager, owner
-- $1 tenants text[]
-- $2 name text
-- $3 after_no bigint
-- $4 limit integer
-- index: api_key_pkey
-- locks: none
select k.key_no, k.prefix, a.name, k.scopes, a.tenants, k.created_at, c.name as created_by, k.expires_at, k.last_used_at, k.revoked_at,
  k.rate_per_second, k.rate_burst, r.name as revoked_by, k.revoked_at is null and coalesce(k.expires_at > ledger.machine_now(), true) as is_valid
from ledger.api_key k
join ledger.actor a on a.actor_no = k.actor_no
join ledger.actor c on c.actor_no = k.created_by
left join ledger.actor r on r.actor_no = k.revoked_by
where ($1::text[] is null or a.tenants <@ $1::text[])
  and ($2::text is null or a.name = $2::text)
  and k.key_no < coalesce($3::bigint, 9223372036854775807)
order by k.key_no desc
limit $4::integer
