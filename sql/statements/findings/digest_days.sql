-- Digest what items and journal say of each effective date of a range, as far as it is compared in columns: counts, and sums of hashes.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 from_date date
-- $2 to_date date
-- index: none
-- locks: none
with locked_default as (select from ledger.due_item_default),
item as (
  select i.effective_date, count(*) as items,
    -- Each hash is the seed of the next: the result depends on all columns, and which of them has what.
    sum(
      hashtextextended(concat_ws(chr(31), i.business_key, i.cycle),
        timestamptz_hash_extended(i.due_at,
          timestamptz_hash_extended(coalesce(i.start_by, '-infinity'),
            timestamptz_hash_extended(coalesce(i.complete_by, '-infinity'),
              timestamptz_hash_extended(i.emitted_at,
                hashint8extended(coalesce(i.definition_no, -1),
                  hashint8extended(coalesce(i.event_no, -1),
                    hashint8extended(i.flow_no, uuid_hash_extended(i.id, i.item_no)))))))))) as digest
  from ledger.due_item i
  where i.effective_date >= $1::date and i.effective_date < $2::date
  group by i.effective_date
),
journal as (
  select t.effective_date, count(*) as transitions,
    sum(
      timestamptz_hash_extended(t.at,
        hashint8extended(t.actor_no,
          hashint8extended(coalesce(t.run_no, -1),
            hashint8extended(t.attempt, hashint8extended(t.event, t.item_no)))))) as digest
  from ledger.transition t
  where t.effective_date >= $1::date and t.effective_date < $2::date
  group by t.effective_date
)
select effective_date, greatest(i.items, j.transitions) as row_count, concat_ws(
    '/', coalesce(i.items, 0), coalesce(i.digest, 0), coalesce(j.transitions, 0), coalesce(j.digest, 0)) as digest
from item i
full join journal j using (effective_date)
order by effective_date
