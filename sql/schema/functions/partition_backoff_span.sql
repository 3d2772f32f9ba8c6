create function ledger.partition_backoff_span(expirations integer) returns interval
  language sql immutable parallel safe
  return make_interval(secs => least(8, power(2, least(expirations, 10) - 1)));

comment on function ledger.partition_backoff_span is
  'How long the items of a partition wait after their claims expired unstarted so many times in a row: 1, 2, 4, then 8 seconds.';
