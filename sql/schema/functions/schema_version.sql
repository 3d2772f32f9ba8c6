create function ledger.schema_version(out number integer, out code_min integer)
  language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
  select max(substring(a.name from '^\d+')::integer), max(a.code_min) from ledger_migration.applied a;
end;

comment on function ledger.schema_version is
  'Number of the newest migration that was applied, and the least that code must ship to use the schema. Open to all: each process asks when it starts.';
