-- Measure how long each step took for the completed items whose business key has a prefix.
-- returns: one
-- roles: owner
-- $1 key_prefix text
-- index: none
-- locks: none
with item as materialized (
  select c.claimed_at, c.published_at, r.started_at, t.at as completed_at, c.fence, r.run_no
  from ledger.due_item i
  join ledger.transition t on t.effective_date = i.effective_date and t.item_no = i.item_no
    and t.event = 5 /* completed */
  join ledger.run r on r.run_no = t.run_no
  join ledger.claim c on c.fence = r.fence
  where starts_with(i.business_key, $1::text)
)
select
  count(*)::integer as items,
  min(claimed_at) as first_claimed_at,
  max(completed_at) as last_completed_at,
  count(distinct fence)::integer as claims,
  count(distinct run_no)::integer as runs,
  percentile_disc(array[0.5, 0.99]) within group (
    order by extract(epoch from published_at - claimed_at)::double precision) as published,
  percentile_disc(array[0.5, 0.99]) within group (
    order by extract(epoch from started_at - claimed_at)::double precision) as started,
  percentile_disc(array[0.5, 0.99]) within group (
    order by extract(epoch from completed_at - started_at)::double precision) as completed,
  percentile_disc(array[0.5, 0.99]) within group (
    order by extract(epoch from completed_at - claimed_at)::double precision) as whole
from item
