-- Digest all that items and journal say of each effective date of a range: counts, and sums of hashes of whole rows.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 from_date date
-- $2 to_date date
-- index: none
-- locks: none
with locked_default as (select from ledger.due_item_default),
item as (
  select i.effective_date, count(*) as items,
    sum(
      hash_record_extended(
        row(
          i.item_no, i.id, i.flow_no, i.business_key, i.cycle, i.due_at, i.start_by, i.complete_by, i.partition_key, i.labels,
          i.definition_no, i.event_no, i.tzdata, i.nominal, i.zone, i.decision, i.smear_seconds, i.traceparent, i.emitted_at, i.actor_no,
          i.serial, i.overlap),
        0)
      # hashtextextended(i.payload::text, i.item_no)) as digest
  from ledger.due_item i
  where i.effective_date >= $1::date and i.effective_date < $2::date
  group by i.effective_date
),
journal as (
  select t.effective_date, count(*) as transitions,
    sum(hash_record_extended(row(t.item_no, t.event, t.attempt, t.run_no, t.actor_no, t.at, t.detail), 0)) as digest
  from ledger.transition t
  where t.effective_date >= $1::date and t.effective_date < $2::date
  group by t.effective_date
)
select effective_date, concat_ws(
    '/', coalesce(i.items, 0), coalesce(i.digest, 0), coalesce(j.transitions, 0), coalesce(j.digest, 0)) as digest
from item i
full join journal j using (effective_date)
order by effective_date
