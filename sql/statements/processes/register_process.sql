-- Insert or renew the row of a process, and take its lock if the connection leads to the server itself.
-- returns: one
-- roles: alerter, allocator, intake, materialiser, outcome_intake, reconciler, relay, service, worker
-- $1 process_no bigint
-- $2 role text
-- $3 host text
-- $4 version text
-- $5 yields boolean
-- $6 server_pid integer
-- $7 kinds text[]
-- $8 does_upkeep boolean
-- $9 kind_tenants jsonb
-- $10 drains boolean
-- index: process_pkey
-- locks: the process's own (see process_key; not waited for); process row (for update)
with before as materialized (
  -- Upkeep may have ended its leases since: it asks the same before it does.
  select p.unlocked_at <= ledger.machine_now() - interval '4 seconds' as has_lapsed
  from ledger.process p where p.process_no = $1::bigint
  for update
),
lock as materialized (
  -- A pooler gives its clients other process numbers, and keeps the sessions, with their locks, when clients leave.
  select d.is_direct, case when d.is_direct then pg_try_advisory_lock(k.class, k.key) else false end as is_held
  from ledger.process_key($1::bigint) k
  cross join lateral (select pg_backend_pid() = $6::integer as is_direct) d
)
insert into ledger.process as p (process_no, role, host, version, started_at, seen_at, locked_on, yields, kinds, does_upkeep,
  kind_tenants, drains)
select $1::bigint, $2::text, $3::text, $4::text, ledger.machine_now(), ledger.machine_now(),
  case when l.is_held then pg_postmaster_start_time() end, $5::boolean, $7::text[], $8::boolean, $9::jsonb, $10::boolean
from (select count(*) as known from before) b  -- read before the row changes
cross join lock l
on conflict (process_no) do update
set seen_at = excluded.seen_at, ended_at = null, locked_on = excluded.locked_on, unlocked_at = null,
  yields = excluded.yields, kinds = excluded.kinds, does_upkeep = excluded.does_upkeep, kind_tenants = excluded.kind_tenants,
  drains = excluded.drains, sleeps_until = null
returning pg_backend_pid() = $6::integer as is_direct, p.locked_on is not null as is_locked,
  coalesce((select b.has_lapsed from before b), false) as has_lapsed
