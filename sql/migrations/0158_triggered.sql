-- Rounds that a person named: whoever names one again meets its first item, whatever the date is by then.

create table ledger.triggered (
  tenant text not null,
  definition text not null,
  cycle text not null,
  id uuid not null,
  primary key (tenant, definition, cycle)
);

grant select, insert on ledger.triggered to ledger_worker;
grant select on ledger.triggered to ledger_auditor;
