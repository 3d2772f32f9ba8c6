-- Count, for each definition, the pending items not due yet that are on these local days or were moved from them.
-- returns: zero or more
-- roles: operator
-- $1 definition_nos bigint[]
-- $2 days date[]
-- $3 from_at timestamptz
-- $4 to_at timestamptz
-- $5 limit integer
-- index: none
-- locks: none
with locked_default as (select from ledger.due_item_default),
on_days as materialized (
  select i.item_no, i.definition_no
  from ledger.due_item i
  where i.due_at >= greatest($3::timestamptz, ledger.now()) and i.due_at < $4::timestamptz
    and i.definition_no = any ($1::bigint[])
    and ((i.due_at at time zone coalesce(i.zone, 'UTC'))::date = any ($2::date[])
      or left(i.nominal, 10) = any ($2::date[]::text[]))
  order by i.due_at
  limit $5::integer
)
select d.definition_no, count(*) as items
from on_days d
where exists (select from ledger.pending p where p.item_no = d.item_no)
group by d.definition_no
