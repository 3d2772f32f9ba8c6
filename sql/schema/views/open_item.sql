create view ledger.open_item as
  select c.item_no[p] as item_no, c.effective_date[p] as effective_date, 2::smallint /* Claimed */ as state,
    c.fence, c.claimed_at, p as position, null::bigint as run_no, null::timestamptz as started_at,
    c.attempt[p] as attempt
  from ledger.claim c cross join lateral generate_series(c.started + 1, c.size) p
  where c.closed_at is null
  union all
  select c.item_no[p], c.effective_date[p], 3::smallint /* Running */, c.fence, c.claimed_at, p, r.run_no, r.started_at,
    c.attempt[p]
  from ledger.run r
  join ledger.claim c on c.fence = r.fence and c.claimed_at = r.claimed_at
  cross join lateral generate_series(r.from_position, least(r.to_position, r.from_position + bit_length(r.ended) - 1)) p
  where r.closed_at is null and get_bit(r.ended, p - r.from_position) = 0;

comment on view ledger.open_item is 'Items that are claimed or running, with claim, position and run.';
