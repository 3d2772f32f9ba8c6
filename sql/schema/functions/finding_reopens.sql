create function ledger.finding_reopens(
  closed_at timestamptz, resolution text, reason text, is_decided boolean, found_as text, is_same boolean
) returns boolean
  language sql immutable
return closed_at is not null and (resolution = 'repaired' or reason = 'cleared' or found_as = 'open' and not (is_decided and is_same));

comment on function ledger.finding_reopens is
  'Whether a finding that a pass found again reopens: cleared and repaired ones do, those that nobody resolved who may decide, and those that are another difference.';
