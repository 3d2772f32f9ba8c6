create function ledger.available_from(due_at timestamptz, due_before timestamptz, available_at timestamptz) returns timestamptz
  language sql stable parallel safe
  return greatest(due_at, ledger.now(),
    case when available_at > greatest(due_before, ledger.now()) and available_at < 'infinity' then available_at end);

comment on function ledger.available_from is
  'From when an item may be handed out that is due at another time than before. One that was put off beyond its due time stays so.';
