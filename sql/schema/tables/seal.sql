-- Beside the rows: a change of a row does not change its digest with it.
create table ledger.seal (
  what text not null,
  number bigint not null,
  digest text not null,
  tenant text not null,
  kind text,
  name text not null,
  primary key (what, number),
  constraint seal_what_known check (what in ('definition', 'calendar', 'kind', 'actor'))
);

comment on table ledger.seal is
  'Digests of versions of definitions and calendars, and of actors that are no process, as inserted; of kinds, as their policy was '
  'put. Triggers alone write it: no role may. A migration that adds a column to a sealed table seals its rows again.';
comment on column ledger.seal.number is 'Number of the version, the kind or the actor.';
comment on column ledger.seal.digest is
  'SHA-256 of the row in hex: of one that was changed in place it is another.';

create function ledger.row_digest(sealed anyelement) returns text
  language sql stable strict parallel safe set timezone = 'UTC' set extra_float_digits = 1
as $$
  select encode(sha256(convert_to((to_jsonb(sealed) - array['seen_at', 'tenants'])::text, 'UTF8')), 'hex')
$$;

comment on function ledger.row_digest is 'SHA-256 of a row in hex, of all its columns but those of an actor that change.';

create function ledger.seal_row() returns trigger
  language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
  sealed constant jsonb := to_jsonb(new);
begin
  insert into ledger.seal as s (what, number, digest, tenant, kind, name)
  values (
    tg_table_name, (sealed ->> (tg_table_name || '_no'))::bigint, ledger.row_digest(new), coalesce(sealed ->> 'tenant', '*'),
    case tg_table_name when 'definition' then sealed ->> 'kind' when 'kind' then sealed ->> 'name' end,
    (sealed ->> 'name') || coalesce(', version ' || (sealed ->> 'version'), ''))
  on conflict (what, number) do update set digest = excluded.digest;
  return null;
end $$;

comment on function ledger.seal_row is 'Trigger: records the digest of a row that was inserted, or changed as it may be.';

revoke execute on function ledger.seal_row from public;
