-- Administration by REST: lists, makes, rotates and revokes API keys. Reads and writes nothing else.
select ledger.make_role('ledger_key_manager');

grant usage on schema ledger to ledger_key_manager;
grant select on ledger.actor, ledger.api_key to ledger_key_manager;
grant insert on ledger.actor, ledger.api_key to ledger_key_manager;
grant insert (actor_no, detail, operation, reason, request_id, target, tenants) on ledger.audit to ledger_key_manager;
grant update (seen_at) on ledger.actor to ledger_key_manager;
grant update (expires_at, revoked_at, revoked_by) on ledger.api_key to ledger_key_manager;
