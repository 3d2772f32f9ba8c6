create function ledger.is_same_difference(
  type text, expected jsonb, actual jsonb, found_expected jsonb, found_actual jsonb
) returns boolean
  language sql immutable
return case
  -- Their evidence has the days that follow, and what arrived meanwhile.
  when type in ('DISAGREES', 'EVENT_UNMATCHED') then true
  when actual ? 'difference' then actual -> 'difference' is not distinct from found_actual -> 'difference'
  else expected is not distinct from found_expected and actual is not distinct from found_actual
end;

comment on function ledger.is_same_difference is
  'Whether a finding that a pass found again is the difference that it was, though time went on: by type, and its evidence then and now.';
