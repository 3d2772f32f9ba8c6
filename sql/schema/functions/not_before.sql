create function ledger.not_before(item_no bigint, due_at timestamptz) returns timestamptz
  language sql stable parallel safe
  return case
    when exists (select from ledger.expedited e where e.item_no = not_before.item_no) then ledger.now()
    else greatest(due_at, ledger.now())
  end;

comment on function ledger.not_before is 'From when an item may be handed out again.';
