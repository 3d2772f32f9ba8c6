-- Describe the states of items that have not ended: pending, parked with a reason, or neither.
-- returns: exactly one per input
-- roles: auditor, reconciler
-- $1 item_nos bigint[]
-- index: pending_pkey, review_pkey
-- locks: none
select u.item_no, coalesce(p.state, case when r.item_no is not null then 5 /* ManualReview */ end)::smallint as state,
  coalesce(p.attempt, r.attempt) as attempt, p.available_at, r.reason, r.parked_at
from unnest($1::bigint[]) with ordinality u (item_no, ord)
left join ledger.pending p on p.item_no = u.item_no
left join ledger.review r on r.item_no = u.item_no
order by u.ord
