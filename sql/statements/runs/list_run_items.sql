-- List runs by number, each with the items and attempts of its part of a claim, in the binary form of arrays, and of one that is open which of them it ended; most were started at these times.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 run_nos bigint[]
-- $2 first_started_at timestamptz
-- $3 last_started_at timestamptz
-- index: none
-- locks: none
select r.run_no, r.worker_no, r.started_at, r.closed_at, array_send(c.item_no[r.from_position:r.to_position]) as item_nos,
  array_send(c.attempt[r.from_position:r.to_position]) as attempts,
  case when r.closed_at is null then r.ended::text end as ended_bits
from ledger.list_runs($1::bigint[], $2::timestamptz, $3::timestamptz) r
join ledger.claim c on c.fence = r.fence and c.claimed_at = r.claimed_at
