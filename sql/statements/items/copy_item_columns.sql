-- Give the items of a range of effective dates as columns of fixed width and one text at the end, for COPY in binary form; what is null has a value that no item has.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 from_date date
-- $2 to_date date
-- $3 key bigint
-- $4 since xid
-- index: none
-- locks: none
with locked_default as (select from ledger.due_item_default)
select i.effective_date, i.item_no, i.id, i.flow_no, i.due_at, coalesce(i.start_by, '-infinity') as start_by,
  coalesce(i.complete_by, '-infinity') as complete_by, i.emitted_at,
  coalesce(i.definition_no, -1) as definition_no, coalesce(i.event_no, -1) as event_no,
  hashtextextended(i.business_key, i.flow_no) as key_hash, coalesce(i.smear_seconds, -1) as smear_seconds,
  case when age(i.xmin) <= age($4::xid) then ledger.row_version($3::bigint, i.tableoid, i.ctid, i.xmin) else 0 end as version,
  -- Of an item that a source names, the terms have key and cycle; of another, the id is computed again.
  f.kind is not null and (coalesce(i.definition_no, i.event_no) is not null
    or i.id = ledger.item_id(f.tenant, f.kind, i.business_key, i.cycle, i.effective_date)) as is_named,
  -- With start_by, complete_by and smear_seconds: what reconciler.expect.item_terms.terms_digest digests of a draft.
  concat_ws(
    chr(31), i.business_key, i.cycle, coalesce(i.partition_key, chr(30)), coalesce(i.labels::text, chr(30)),
    coalesce(i.nominal, chr(30)), coalesce(i.zone, chr(30)), coalesce(i.decision, chr(30)), f.lane,
    coalesce(nullif(i.overlap, 1 /* waits, as items of an ordered kind do */)::text, chr(30)), i.payload::text) as terms
from ledger.due_item i
left join ledger.flow f on f.flow_no = i.flow_no
where i.effective_date >= $1::date and i.effective_date < $2::date
