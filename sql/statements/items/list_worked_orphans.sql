-- List the dates, of one month, of which the journal has runs of items that the ledger does not have any more, by the topic of their claims.
-- The topic is null where the claim was direct, or is gone, too.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 effective_dates date[]
-- index: due_item_pkey, run_pkey, claim_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default),
gone as materialized (
  select distinct t.effective_date, t.run_no
  from ledger.transition t
  where t.effective_date = any ($1::date[]) and t.run_no is not null
    and not exists (
      select from ledger.due_item i where i.effective_date = t.effective_date and i.item_no = t.item_no)
)
select distinct g.effective_date, c.topic
from gone g
left join lateral (
  select case when c.partition >= 0 then c.topic end as topic
  from ledger.run r
  join ledger.claim c on c.fence = r.fence and c.claimed_at = r.claimed_at
  where r.run_no = g.run_no
  limit 1
) c on true
