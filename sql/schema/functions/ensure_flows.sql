create function ledger.ensure_flows(tenants text[], kinds text[], lanes text[])
  returns table (ord bigint, flow_no integer, tenant text, kind text, kind_no integer, ordered boolean)
  language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  insert into ledger.kind (tenant, name, topic, compression)
  select distinct u.tenant, u.kind, 'due.' || u.kind,
    -- The consumers of the topic may have no other.
    (select min(k.compression) from ledger.kind k where k.topic = 'due.' || u.kind)
  from unnest(tenants, kinds) u (tenant, kind)
  where not exists (select from ledger.kind k where k.tenant = u.tenant and k.name = u.kind)
  order by 1, 2
  on conflict do nothing;

  -- The kinds are locked, so that none has another ordering when its flow is inserted.
  with missing as materialized (
    select k.kind_no, k.tenant, k.name as kind, k.ordering, u.lane
    from unnest(tenants, kinds, lanes) u (tenant, kind, lane)
    join ledger.kind k on k.tenant = u.tenant and k.name = u.kind
    where not exists (select from ledger.flow f where f.tenant = u.tenant and f.kind = u.kind and f.lane = u.lane)
    order by k.kind_no
    for key share of k
  )
  insert into ledger.flow (kind_no, tenant, kind, ordering, lane, paused_at, paused_by, pause_reason)
  select distinct on (m.kind_no, m.lane) m.*, p.paused_at, p.actor_no, p.reason
  from missing m
  left join ledger.pause p on p.tenant = m.tenant and p.resumed_at is null
    and coalesce(p.kind = m.kind, true) and coalesce(p.lane = m.lane, true)
  order by m.kind_no, m.lane, p.paused_at, p.pause_no
  on conflict do nothing;

  return query
  select u.ord, f.flow_no, u.tenant, u.kind, f.kind_no, f.ordering = 'key'
  from unnest(tenants, kinds, lanes) with ordinality u (tenant, kind, lane, ord)
  join ledger.flow f on f.tenant = u.tenant and f.kind = u.kind and f.lane = u.lane;
end $$;

comment on function ledger.ensure_flows is 'Find or make the flow of each tenant, kind and lane, in the order given.';
revoke execute on function ledger.ensure_flows from public;
