-- List open runs of other positions than they have bits, beyond the end of their claim, with nothing left to end, of no registered worker, or whose lease is longer than one can be, up to a limit.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 limit integer
-- index: run_lease_idx, claim_pkey
-- locks: none
select r.run_no, r.fence, r.to_position, c.size, r.worker_no, r.lease_until,
  case when r.to_position > c.size or bit_length(r.ended) <> r.to_position - r.from_position + 1 then 'overlong'
    when bit_count(r.ended) = bit_length(r.ended) then 'ended' when a.actor_no is null then 'worker' else 'lease' end as fault
from ledger.run r
join ledger.claim c on c.fence = r.fence and c.claimed_at = r.claimed_at
left join ledger.actor a on a.actor_no = r.worker_no
where r.closed_at is null and (
  r.to_position > c.size or bit_length(r.ended) <> r.to_position - r.from_position + 1
  or bit_count(r.ended) = bit_length(r.ended)
  -- One whose lease has lapsed is stuck anyway.
  or a.actor_no is null and r.lease_until >= ledger.machine_now()
  or r.lease_until > ledger.machine_now() + make_interval(secs => r.lease_seconds) + interval '1 minute')
order by r.run_no
limit $1::integer
