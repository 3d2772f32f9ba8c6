create function ledger.needs_person(type text) returns boolean
  language plpgsql immutable
as $$
begin
  -- Not inlined: a query of some of these types would seem to be one of the index of all of them.
  return type in (
    'UNEXPECTED', 'DUPLICATE', 'WRONG_DATE', 'WRONG_TERMS', 'UNEXCUSED', 'PREMATURE', 'OUTCOME_CONFLICT', 'EFFECT_MISSING',
    'EFFECT_REPEATED', 'EVENT_UNMATCHED', 'UNBALANCED', 'ORPHAN_RECORD', 'RECORD_MISSING', 'TAMPERED', 'SOURCE_FAILED',
    'DEFINITION_FAILED', 'DISAGREES');
end $$;

comment on function ledger.needs_person is 'Whether a person decides about findings of a type: no repair is applied to them.';
