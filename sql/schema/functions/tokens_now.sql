create function ledger.tokens_now(rate double precision, tokens double precision, tokens_at timestamptz)
  returns double precision language sql stable parallel safe
  return least(
    greatest(rate, 1),
    coalesce(tokens, greatest(rate, 1))
      + rate * greatest(extract(epoch from ledger.machine_now() - tokens_at), 0)::double precision);

comment on function ledger.tokens_now is
  'Tokens in the bucket of a flow now; the bucket holds one second of the rate, and at least one.';
