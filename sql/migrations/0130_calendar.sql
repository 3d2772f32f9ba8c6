-- Calendars by name: where a version's days come from, and which version each schedule was expanded by.
-- Nothing is released yet, so no ledger with data waits for these locks.
-- squawk-ignore-file require-concurrent-index-creation

alter table ledger.calendar add column source text;

-- From an instant on, a definition's occurrences were expanded by one version; until the next row of the definition.
create table ledger.calendar_use (
  definition_no bigint not null references ledger.definition,
  from_at timestamptz not null,
  calendar_no bigint not null references ledger.calendar,
  recorded_at timestamptz not null,
  actor_no integer not null references ledger.actor,
  primary key (definition_no, from_at)
);

create index definition_calendar_idx on ledger.definition (tenant, (document #>> '{calendar,name}'))
  where document #>> '{calendar,name}' is not null;

grant select on ledger.calendar_use to ledger_worker, ledger_auditor;
grant insert on ledger.calendar_use to ledger_worker;
