-- What an operator may change about a flow while it runs, and what the allocators remember of it.
-- Nothing is released yet, so no ledger with data waits for these locks.
-- squawk-ignore-file require-concurrent-index-creation, constraint-missing-not-valid, ban-drop-function, adding-field-with-default, prefer-text-field

alter table ledger.flow
  add column retry_share double precision not null default 0.2,
  add column tokens double precision,
  add column tokens_at timestamptz,
  add column circuit_failure_ratio double precision,
  add column circuit_calls_min integer not null default 20,
  add column circuit_window_seconds double precision not null default 60,
  add column circuit_rest_seconds double precision not null default 30,
  add column circuit text not null default 'closed',
  add column circuit_at timestamptz,
  -- A limited flow is counted, so its items go into claims of its own.
  add column limited boolean not null generated always as (
    rate_per_second is not null or concurrency_max is not null or window_items is not null
    or circuit_failure_ratio is not null
  ) stored,
  add constraint flow_retry_share_range check (retry_share between 0 and 1),
  add constraint flow_circuit_range check (
    circuit_failure_ratio > 0 and circuit_failure_ratio <= 1 and circuit_calls_min > 0
    and circuit_window_seconds > 0 and circuit_rest_seconds > 0
  ),
  add constraint flow_circuit_known check (circuit in ('closed', 'open', 'half_open'));

-- Standing pauses by tenant, kind and lane; null stands for all. A flow made later is born paused.
create table ledger.pause (
  pause_no integer generated always as identity primary key,
  tenant text not null,
  kind text,
  lane text,
  paused_at timestamptz not null,
  actor_no integer not null references ledger.actor,
  reason text not null,
  resumed_at timestamptz,
  resumed_by integer references ledger.actor
);

create unique index pause_standing_idx on ledger.pause (tenant, kind, lane) nulls not distinct
  where resumed_at is null;

-- Who changed a flow's limits, and to what.
create table ledger.flow_change (
  flow_no integer not null,
  changed_at timestamptz not null,
  actor_no integer not null references ledger.actor,
  change jsonb not null
);

create index flow_change_idx on ledger.flow_change (flow_no, changed_at);

-- How the runs of a flow with a breaker ended, on machine time; judged and forgotten by the allocators.
create table ledger.flow_outcome (
  flow_no integer not null,
  at timestamptz not null,
  completed integer not null,
  failed integer not null
);

create index flow_outcome_idx on ledger.flow_outcome (flow_no, at);

-- How many items a worker wants waiting for it in a topic; a grant ends by itself unless renewed.
create table ledger.credit (
  topic text not null,
  worker_no integer not null,
  items integer not null,
  granted_until timestamptz not null,
  primary key (topic, worker_no),
  constraint credit_items_range check (items >= 0)
) with (fillfactor = 50);

create index credit_worker_idx on ledger.credit (worker_no);

-- The tokens of a flow's bucket now; it holds what one second brings, at least one.
create function ledger.tokens_now(rate double precision, tokens double precision, tokens_at timestamptz)
  returns double precision language sql stable parallel safe
  return least(
    greatest(rate, 1),
    coalesce(tokens, greatest(rate, 1))
      + rate * greatest(extract(epoch from ledger.machine_now() - tokens_at), 0)::double precision);

-- Find or make the flow of each tenant × kind × lane, in the order given.
drop function ledger.ensure_flows(text[], text[], text[]);
create function ledger.ensure_flows(tenants text[], kinds text[], lanes text[])
  returns table (ord bigint, flow_no integer, tenant text, kind text, kind_no integer, ordered boolean)
  language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  insert into ledger.kind (tenant, name, topic)
  select distinct u.tenant, u.kind, 'due.' || u.kind
  from unnest(tenants, kinds) u (tenant, kind)
  where not exists (select from ledger.kind k where k.tenant = u.tenant and k.name = u.kind)
  order by 1, 2
  on conflict do nothing;

  insert into ledger.flow (kind_no, lane, paused_at, paused_by, pause_reason)
  select distinct on (k.kind_no, u.lane) k.kind_no, u.lane, p.paused_at, p.actor_no, p.reason
  from unnest(tenants, kinds, lanes) u (tenant, kind, lane)
  join ledger.kind k on k.tenant = u.tenant and k.name = u.kind
  left join ledger.pause p on p.tenant = u.tenant and p.resumed_at is null
    and coalesce(p.kind = u.kind, true) and coalesce(p.lane = u.lane, true)
  where not exists (select from ledger.flow f where f.kind_no = k.kind_no and f.lane = u.lane)
  order by k.kind_no, u.lane, p.paused_at
  on conflict do nothing;

  return query
  select u.ord, f.flow_no, u.tenant, u.kind, k.kind_no, k.ordering = 'key'
  from unnest(tenants, kinds, lanes) with ordinality u (tenant, kind, lane, ord)
  join ledger.kind k on k.tenant = u.tenant and k.name = u.kind
  join ledger.flow f on f.kind_no = k.kind_no and f.lane = u.lane;
end $$;

revoke execute on function ledger.ensure_flows(text[], text[], text[]) from public;
grant execute on function ledger.ensure_flows(text[], text[], text[]) to ledger_worker;

grant select on ledger.pause, ledger.flow_change, ledger.flow_outcome, ledger.credit to ledger_worker, ledger_auditor;
grant insert on ledger.flow_change to ledger_worker;
grant insert, update, delete on ledger.pause, ledger.flow_outcome, ledger.credit to ledger_worker;
