-- List the items that somebody who may decide expedited, and whether one triggered it, as recorded, beside a schedule's occurrences.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 after_item_no bigint
-- $2 limit integer
-- index: expedited_pkey, due_item_id_effective_date_key, definition_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default)
select x.item_no, exists (
    select from ledger.due_item i
    join ledger.triggered t on t.id = i.id and t.cycle = i.cycle
    join ledger.definition d on d.definition_no = i.definition_no and d.tenant = t.tenant and d.name = t.definition
    where i.item_no = x.item_no and i.effective_date = x.effective_date) as is_triggered
from ledger.expedited x
join ledger.actor a on a.actor_no = x.actor_no and ledger.is_decider(a.kind, a.name)
where x.item_no > $1::bigint
order by x.item_no
limit $2::integer
