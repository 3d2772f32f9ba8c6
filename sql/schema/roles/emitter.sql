-- A service that emits items in transactions of its own. Reads and writes nothing else.
select ledger.make_role('ledger_emitter');

grant usage on schema ledger to ledger_emitter;
grant execute on function ledger.emit, ledger.emit_arrays, ledger.emit_many, ledger.find_other_terms to ledger_emitter;
