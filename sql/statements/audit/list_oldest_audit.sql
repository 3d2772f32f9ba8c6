-- List what people, API keys and tokens changed, the oldest first: `list_audit` the other way.
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
-- index: audit_at_idx, audit_actor_idx, audit_operation_idx, audit_target_idx, audit_tenant_idx, audit_pkey
-- locks: none
with scope as materialized (
  select distinct t.tenant from unnest($1::text[]) t (tenant)
),
named as materialized (
  select c.actor_no from ledger.actor c where c.name = $3::text
),
-- Of all tenants, one of these is read: by the first filter given of target, actor and operation, each in its own index.
chosen as materialized (
  (select a.audit_no
   from ledger.audit a
   where $1::text[] is null and $5::text is not null and a.target = $5::text
     and ($2::text is null or $2::text = any (a.tenants))
     and ($3::text is null or a.actor_no = (select n.actor_no from named n)) and ($4::text is null or a.operation = $4::text)
     and a.at >= coalesce($6::timestamptz, '-infinity') and a.at < coalesce($7::timestamptz, 'infinity')
     and (a.at, a.audit_no) > (coalesce($8::timestamptz, '-infinity'), coalesce($9::bigint, 0))
   order by a.at, a.audit_no limit $10::integer)
  union all
  (select a.audit_no
   from ledger.audit a
   where $1::text[] is null and $5::text is null and $3::text is not null and a.actor_no = (select n.actor_no from named n)
     and ($2::text is null or $2::text = any (a.tenants)) and ($4::text is null or a.operation = $4::text)
     and a.at at time zone 'UTC' >= coalesce($6::timestamptz, '-infinity') at time zone 'UTC'
     and a.at at time zone 'UTC' < coalesce($7::timestamptz, 'infinity') at time zone 'UTC'
     and (a.at at time zone 'UTC', a.audit_no)
       > (coalesce($8::timestamptz, '-infinity') at time zone 'UTC', coalesce($9::bigint, 0))
   order by a.at at time zone 'UTC', a.audit_no limit $10::integer)  -- ordered like the index
  union all
  (select a.audit_no
   from ledger.audit a
   where $1::text[] is null and $5::text is null and $3::text is null and $4::text is not null and a.operation = $4::text
     and ($2::text is null or $2::text = any (a.tenants))
     and a.at >= coalesce($6::timestamptz, '-infinity') and a.at < coalesce($7::timestamptz, 'infinity')
     and (a.at, a.audit_no) > (coalesce($8::timestamptz, '-infinity'), coalesce($9::bigint, 0))
   order by a.at, a.audit_no limit $10::integer)
  union all
  (select a.audit_no
   from ledger.audit a
   where $1::text[] is null and $5::text is null and $3::text is null and $4::text is null
     and ($2::text is null or $2::text = any (a.tenants))
     and a.at >= coalesce($6::timestamptz, '-infinity') and a.at < coalesce($7::timestamptz, 'infinity')
     and (a.at, a.audit_no) > (coalesce($8::timestamptz, '-infinity'), coalesce($9::bigint, 0))
   order by a.at, a.audit_no limit $10::integer)
  union all
  (select x.audit_no
   from scope s
   cross join lateral (
     select a.audit_no, a.at
     from ledger.audit a
     where a.tenants[1] = s.tenant and a.tenants is not null and a.tenants <@ $1::text[]
       and ($2::text is null or $2::text = any (a.tenants))
       and ($3::text is null or a.actor_no = (select n.actor_no from named n))
       and ($4::text is null or a.operation = $4::text) and ($5::text is null or a.target = $5::text)
       and a.at at time zone 'UTC' >= coalesce($6::timestamptz, '-infinity') at time zone 'UTC'
       and a.at at time zone 'UTC' < coalesce($7::timestamptz, 'infinity') at time zone 'UTC'
       and (a.at at time zone 'UTC', a.audit_no)
         > (coalesce($8::timestamptz, '-infinity') at time zone 'UTC', coalesce($9::bigint, 0))
     order by a.at at time zone 'UTC', a.audit_no limit $10::integer  -- ordered like the index
   ) x
   order by x.at, x.audit_no limit $10::integer)
)
select a.audit_no, a.at, c.name as actor, a.role, a.login, a.operation, a.target, a.tenants, a.reason, a.detail, a.request_id
from chosen n
join ledger.audit a on a.audit_no = n.audit_no
join ledger.actor c on c.actor_no = a.actor_no
order by a.at, a.audit_no
