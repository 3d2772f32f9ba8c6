create function ledger.skip_detail(reason text) returns jsonb
  language sql immutable parallel safe
return jsonb_strip_nulls(jsonb_build_object(
  'reason', split_part(reason, ' ', 1), 'into', nullif(split_part(reason, ' ', 2), '')));

comment on function ledger.skip_detail is
  'The journal''s detail of a skipped occurrence; empty without a reason. `merged 2027-03-14T03:30` names the cycle of the '
  'item that is owed in its place, which becomes `into`.';
revoke execute on function ledger.skip_detail from public;
