create function ledger.completed_since(flow_no integer, business_key text, since timestamptz) returns boolean
  language sql stable parallel safe
  return exists (
    select from ledger.due_item i
    join ledger.transition t on t.item_no = i.item_no and t.effective_date = i.effective_date
    where i.business_key = completed_since.business_key and i.flow_no = completed_since.flow_no
      and t.event = 5 /* completed */ and t.at > since);

comment on function ledger.completed_since is
  'Whether an item of the business key was completed after an instant, which ends a failure streak.';
