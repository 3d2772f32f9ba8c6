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

comment on function ledger.ensure_flows is 'Find or make the flow of each tenant, kind and lane, in the order given.';
revoke execute on function ledger.ensure_flows from public;
