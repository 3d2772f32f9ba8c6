-- One function and no CHECK for each rule: Postgres parses each CHECK of a table again in each statement that writes to it.
-- It raises under the name of the rule, and so says more than the name of one CHECK would.
create function ledger.due_item_valid(
  effective_date date, due_at timestamptz, business_key text, cycle text, partition_key text, payload json, labels jsonb
) returns boolean
  language plpgsql immutable parallel safe
as $$
declare
  broken text;
  reason text;
begin
  if effective_date >= date '1970-01-01' and effective_date < date '2200-01-01'
    and due_at >= timestamptz '1970-01-01T00:00:00Z' and due_at < timestamptz '2200-01-01T00:00:00Z'
    and octet_length(payload::text) <= 262144
    and char_length(business_key) between 1 and 512
    and char_length(cycle) <= 200
    and (partition_key is null or char_length(partition_key) between 1 and 512)
    and (labels is null or octet_length(labels::text) <= 8192)
    and strpos(business_key || cycle, chr(31)) = 0
  then
    return true;
  end if;
  select rule.name, rule.reason into broken, reason
  from (values
    ('effective_date_range', 'effective_date lies outside 1970–2199',
      effective_date < date '1970-01-01' or effective_date >= date '2200-01-01'),
    ('due_at_range', 'due_at lies outside 1970–2199',
      due_at < timestamptz '1970-01-01T00:00:00Z' or due_at >= timestamptz '2200-01-01T00:00:00Z'),
    ('payload_bytes_max', 'payload is larger than 256 KiB (262,144 bytes)', octet_length(payload::text) > 262144),
    ('business_key_length', 'business_key must have 1 to 512 characters', char_length(business_key) not between 1 and 512),
    ('cycle_length', 'cycle must have at most 200 characters', char_length(cycle) > 200),
    ('partition_key_length', 'partition_key must have 1 to 512 characters', char_length(partition_key) not between 1 and 512),
    ('labels_bytes_max', 'labels are larger than 8 KiB (8,192 bytes)', octet_length(labels::text) > 8192),
    ('separator_free', 'U+001F is not allowed in business_key or cycle', strpos(business_key || cycle, chr(31)) > 0)
  ) rule (name, reason, breaks)
  where rule.breaks
  limit 1;
  if broken is null then
    return true;  -- a value is missing, which NOT NULL refuses
  end if;
  raise exception using
    errcode = 'check_violation', schema = 'ledger', table = 'due_item', constraint = 'due_item_' || broken, message = reason;
end $$;

comment on function ledger.due_item_valid is
  'Whether the values of an item are within their bounds; raises 23514 with the name of the rule, as due_item_cycle_length.';
