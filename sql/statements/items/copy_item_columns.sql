-- Give the items of a range of effective dates as columns of fixed width, for COPY in binary form; what is null has a value that no item has.
-- returns: zero or more
-- roles: reconciler
-- $1 from_date date
-- $2 to_date date
-- index: none
-- locks: none
with locked_default as (select from ledger.due_item_default)
select i.effective_date, i.item_no, i.id, i.flow_no, i.due_at, coalesce(i.complete_by, '-infinity') as complete_by, i.emitted_at,
  coalesce(i.definition_no, -1) as definition_no, coalesce(i.event_no, -1) as event_no,
  hashtextextended(i.business_key, i.flow_no) as key_hash,
  -- As reconciler.expect.item_terms.terms_digest computes it of what is expected.
  substr(sha256(
    timestamptz_send(coalesce(i.start_by, '-infinity')) || timestamptz_send(coalesce(i.complete_by, '-infinity'))
    || float8send(coalesce(i.smear_seconds, -1))
    || convert_to(
      concat_ws(
        chr(31), i.business_key, i.cycle, coalesce(i.partition_key, chr(30)), coalesce(i.labels::text, chr(30)),
        coalesce(i.nominal, chr(30)), coalesce(i.zone, chr(30)), coalesce(i.decision, chr(30)), i.payload::text),
      'UTF8')), 1, 8) as terms_digest,
  -- Of an item that a source names, the digest has key and cycle; of another, the id is computed again.
  coalesce(i.definition_no, i.event_no) is not null
    or i.id = ledger.item_id(k.tenant, k.name, i.business_key, i.cycle, i.effective_date) as is_named
from ledger.due_item i
join ledger.flow f on f.flow_no = i.flow_no
join ledger.kind k on k.kind_no = f.kind_no
where i.effective_date >= $1::date and i.effective_date < $2::date
