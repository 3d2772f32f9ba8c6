-- Find the number of an actor by its name, and the time by which the expiry of its token is judged.
-- returns: one
-- roles: service
-- $1 name text
-- index: actor_name_key
-- locks: none
select ledger.machine_now() as now, (select a.actor_no from ledger.actor a where a.name = $1::text) as actor_no
