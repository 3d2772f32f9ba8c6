-- List what leads to the next item of a fixed delay and is no open item of its definition, or does so at another delay than given here, up to a limit.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 definition_nos bigint[]
-- $2 delay_seconds double precision[]
-- $3 limit integer
-- index: due_item_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default),
chain as (
  select f.item_no, f.effective_date, d.tenant, d.kind, d.name, i.id, i.business_key, i.due_at,
    case
      when i.item_no is null then 'no_item'
      when (o.tenant, o.name) is distinct from (d.tenant, d.name) then 'other'
      when ledger.find_ended_at(f.effective_date, f.item_no) is not null then 'ended'
      when f.delay_seconds <> u.delay_seconds then 'delay'
    end as fault
  from ledger.following f
  left join unnest($1::bigint[], $2::double precision[]) u (definition_no, delay_seconds) on u.definition_no = f.definition_no
  left join ledger.definition d on d.definition_no = f.definition_no
  -- One look-up for each: a join of some numbers may read all items.
  left join lateral (
    select i.item_no, i.id, i.business_key, i.due_at, i.definition_no
    from ledger.due_item i where i.effective_date = f.effective_date and i.item_no = f.item_no offset 0
  ) i on true
  left join ledger.definition o on o.definition_no = i.definition_no
)
select c.* from chain c where c.fault is not null
order by c.item_no
limit $3::integer
