-- Find or make the number of an actor.
-- returns: one
-- roles: alerter, allocator, approver, intake, materialiser, operator, outcome_intake, reconciler, relay, service, worker
-- $1 name text
-- $2 kind text
-- index: none
-- locks: actor row (for update)
select ledger.register_actor($1::text, $2::text) as actor_no
