-- List open runs whose lease lapsed longer ago than the margin, the longest first, up to a limit.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 margin_seconds double precision
-- $2 limit integer
-- index: run_lease_idx, claim_pkey
-- locks: none
select r.run_no, r.fence, r.lease_until, a.name as worker,
  bit_length(r.ended) - bit_count(r.ended) as open_count, c.topic_actor_no is not null and bit_count(r.ended) = 0 as is_unanswered,
  extract(epoch from ledger.machine_now() - r.lease_until)::double precision as lapsed_seconds
from ledger.run r
left join ledger.actor a on a.actor_no = r.worker_no
left join ledger.claim c on c.fence = r.fence and c.claimed_at = r.claimed_at
where r.closed_at is null and r.lease_until < ledger.machine_now() - make_interval(secs => $1::double precision)
order by r.lease_until
limit $2::integer
