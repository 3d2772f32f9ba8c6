-- List API keys, the newest first; of one name, or of all.
-- returns: zero or more
-- roles: key_manager, owner
-- $1 tenants text[]
-- $2 name text
-- $3 after_no bigint
-- $4 limit integer
-- index: api_key_pkey, actor_tenant_idx, api_key_actor_idx
-- locks: none
with chosen as materialized (
  (select k.key_no from ledger.api_key k
   where $1::text[] is null and $2::text is null and k.key_no < coalesce($3::bigint, 9223372036854775807)
   order by k.key_no desc limit $4::integer)
  union all
  (select x.key_no
   from (
     select a.actor_no from ledger.actor a
     where $1::text[] is null and a.name = $2::text
     union all
     select a.actor_no from ledger.actor a
     where a.tenants[1] = any ($1::text[]) and a.tenants is not null and a.tenants <@ $1::text[]
       and ($2::text is null or a.name = $2::text)
   ) a
   cross join lateral (
     select k.key_no from ledger.api_key k
     where k.actor_no = a.actor_no and -k.key_no > -coalesce($3::bigint, 9223372036854775807)
     order by -k.key_no limit $4::integer  -- ordered like the index
   ) x
   order by x.key_no desc limit $4::integer)
)
select k.key_no, k.prefix, a.name, k.scopes, a.tenants, k.created_at, c.name as created_by, k.expires_at, k.last_used_at, k.revoked_at,
  k.rate_per_second, k.rate_burst, r.name as revoked_by, k.revoked_at is null and coalesce(k.expires_at > ledger.machine_now(), true) as is_valid
from chosen n
join ledger.api_key k on k.key_no = n.key_no
join ledger.actor a on a.actor_no = k.actor_no
join ledger.actor c on c.actor_no = k.created_by
left join ledger.actor r on r.actor_no = k.revoked_by
order by k.key_no desc
