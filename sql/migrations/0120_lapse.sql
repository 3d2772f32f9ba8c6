-- What a schedule missed and owes no more, where it is too much for a record each: one with count and range.

create table ledger.lapse (
  definition_no bigint not null references ledger.definition,
  from_at timestamptz not null,
  until_at timestamptz not null,
  occurrences bigint not null,
  reason text not null,
  recorded_at timestamptz not null,
  actor_no integer not null references ledger.actor,
  primary key (definition_no, from_at),
  constraint lapse_in_order check (from_at < until_at),
  constraint lapse_occurrences_positive check (occurrences > 0),
  constraint lapse_reason_known check (reason in ('catch_up'))
);

grant select on ledger.lapse to ledger_worker, ledger_auditor;
grant insert, update on ledger.lapse to ledger_worker;
