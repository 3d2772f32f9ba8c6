-- List the processes that live, are silent or are gone without an end since an hour; those that do not live first, by when each was last seen, then the others by role.
-- returns: zero or more
-- roles: auditor, operator
-- $1 limit integer
-- index: none
-- locks: none
select s.process_no, s.name, s.role, s.host, s.version, s.started_at, s.seen_at, s.status, s.failing_since,
  s.failure, s.certificate_expires_at, s.drains, s.drain_asked_at, s.drain_asked_by, s.drain_reason, s.draining_since,
  s.ticked_at, s.tick_seconds, s.outbox_items
from ledger.process_status s
where s.status in ('live', 'silent') or (s.status = 'gone' and s.seen_at > ledger.machine_now() - interval '1 hour')
order by s.status = 'live', case when s.status <> 'live' then s.seen_at end, s.role, s.name, s.process_no
limit $1::integer
