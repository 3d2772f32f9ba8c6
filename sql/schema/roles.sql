-- The schema, and the roles that grants.sql names. Roles belong to the whole cluster: a second database finds them made.

do $$
declare
  wanted text;
begin
  foreach wanted in array array['ledger_emitter', 'ledger_worker', 'ledger_auditor', 'ledger_simulator'] loop
    begin
      execute format('create role %I nologin', wanted);
    exception when duplicate_object or unique_violation then
      null;
    end;
  end loop;
end $$;

create schema ledger;
