-- Who may do what. Workers write the journal, never the schema; auditors read everything.

grant select on all tables in schema ledger to ledger_worker, ledger_auditor;
grant insert, update, delete on
  ledger.pending, ledger.claim, ledger.run, ledger.review, ledger.withdrawal, ledger.materialised, ledger.event,
  ledger.flow, ledger.kind
  to ledger_worker;
grant insert on ledger.transition, ledger.rejected_write, ledger.definition, ledger.calendar to ledger_worker;
grant usage on sequence ledger.fence to ledger_worker;
grant execute on function
  ledger.register_actor(text, text),
  ledger.make_partitions(interval),
  ledger.make_partition(text, date),
  ledger.await_partitions(),
  ledger.ensure_flows(text[], text[], text[]),
  ledger.emit_items(
    text[], text[], text[], integer[], text[], text[], date[], timestamptz[], text[], integer, text[], text[],
    timestamptz[], timestamptz[], bigint[], bigint[], text, text[], text[], text[], double precision[], text[], text[])
  to ledger_worker;
