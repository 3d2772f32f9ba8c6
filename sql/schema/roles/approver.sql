-- A person who explains and accepts findings, proposes and approves repairs, and approves operations.
select ledger.make_role('ledger_approver');

grant usage on schema ledger to ledger_approver;
grant select on ledger.actor, ledger.finding, ledger.operation, ledger.repair, ledger.state to ledger_approver;
grant insert (actor_no, detail, operation, reason, request_id, target, tenants) on ledger.audit to ledger_approver;
grant insert on ledger.repair to ledger_approver;
grant update (closed_at, reason, resolution, resolved_by, taken_at, taken_by) on ledger.finding to ledger_approver;
grant update (approval_reason, approved_at, approved_by) on ledger.operation to ledger_approver;
grant update (approval_reason, approved_at, approved_by, approved_over) on ledger.repair to ledger_approver;
grant execute on function ledger.register_actor to ledger_approver;
