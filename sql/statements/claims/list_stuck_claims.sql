-- List open claims whose deadline passed longer ago than the margin, the longest first, up to a limit.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 margin_seconds double precision
-- $2 limit integer
-- index: claim_deadline_idx
-- locks: none
select c.fence, c.topic, c.deadline, c.size - c.started as open_count, c.base_offset is not null as is_published,
  extract(epoch from ledger.machine_now() - c.deadline)::double precision as lapsed_seconds
from ledger.claim c
where c.closed_at is null and c.deadline < ledger.machine_now() - make_interval(secs => $1::double precision)
order by c.deadline
limit $2::integer
