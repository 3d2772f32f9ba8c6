create function ledger.find_other_terms(items json, ords bigint[]) returns table (ord bigint, member text)
  language sql stable security definer set search_path = pg_catalog, pg_temp set jit = off
as $$
with locked_default as (select from ledger.due_item_default),
given as materialized (
  select g.*
  from rows from (json_to_recordset(items) as (
    tenant text, kind text, business_key text, effective_date date, due_at timestamptz, payload json, cycle text,
    lane text, partition_key text, labels json)) with ordinality g (
    tenant, kind, business_key, effective_date, due_at, payload, cycle, lane, partition_key, labels, ord)
  where g.ord = any (ords)
    and exists (
      select from ledger.actor a
      where a.name = ledger.emitter_name() and (a.tenants is null or g.tenant = any (a.tenants) or ledger.token_has_tenant(g.tenant)))
)
select g.ord, d.member
from given g
join ledger.due_item i
  on i.id = ledger.item_id(g.tenant, g.kind, g.business_key, coalesce(g.cycle, ''), g.effective_date)
  and i.effective_date = g.effective_date
join ledger.flow f on f.flow_no = i.flow_no
cross join lateral (values
  ('due_at', i.due_at is distinct from g.due_at),
  ('lane', f.lane is distinct from coalesce(g.lane, '')),
  ('partition_key', i.partition_key is distinct from g.partition_key),
  ('labels', i.labels is distinct from g.labels::jsonb),
  ('payload', case
    when i.payload::text = coalesce(g.payload::text, '{}') then false
    when strpos(concat(i.payload, g.payload), '\u0000') > 0 then true  -- no value of jsonb
    else i.payload::jsonb is distinct from coalesce(g.payload::text, '{}')::jsonb end)
) d (member, differs)
where d.differs
$$;

comment on function ledger.find_other_terms is
  'Which members of items, a JSON array as for ledger.emit_many, differ from those of the items of the same identity. '
  'Of those at the places in `ords`, and of tenants for which the caller may emit.';
revoke execute on function ledger.find_other_terms from public;
