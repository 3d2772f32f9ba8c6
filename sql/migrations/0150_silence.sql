-- What nobody answered is nobody's failure: it is released as if it had never begun, and who is silent is handed little.

insert into ledger.permitted_transition (event, before_state) values (3, 3);

-- When the run's lease was last extended; where its topic settles it, every answer does.
alter table ledger.run add column extended_at timestamptz;

-- Topics of which a lease lapsed with no answer to any of its items, until the next answer.
create table ledger.silence (
  topic text primary key,
  holder_no integer not null unique references ledger.actor,
  since timestamptz not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

grant select on ledger.silence to ledger_worker, ledger_auditor;
grant insert, delete, update on ledger.silence to ledger_worker;
