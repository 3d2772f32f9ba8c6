-- Read the status of the processes of a role on a machine that did not stop in order, the last to start first.
-- returns: zero or more
-- roles: alerter, allocator, intake, materialiser, outcome_intake, reconciler, relay, service, worker
-- $1 host text
-- $2 role text
-- $3 limit integer
-- index: none
-- locks: none
select s.process_no, s.name, s.status, s.seen_at, s.failing_since, s.failure
from ledger.process_status s
where s.host = $1::text and s.role = $2::text and s.ended_at is null
order by s.started_at desc, s.process_no desc
limit $3::integer
