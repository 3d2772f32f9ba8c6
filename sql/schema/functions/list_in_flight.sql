create function ledger.list_in_flight(flow_nos integer[]) returns table (
  item_no bigint, effective_date date, state smallint, entered_at timestamptz, attempt smallint, worker_no bigint
)
  language sql stable rows 1000 set search_path = pg_catalog, pg_temp
as $$
  with asked as materialized (
    select n.flow_no from unnest(list_in_flight.flow_nos) n (flow_no)
  ),
  handed as materialized (
    select c.item_no, c.effective_date, c.attempt, c.started, c.claimed_at
    from ledger.claim c
    where c.closed_at is null and (c.flow_nos is null or exists (
      select from unnest(c.flow_nos) n (flow_no) where (n.flow_no in (select a.flow_no from asked a)) is true))
  ),
  running as materialized (
    select r.ended, r.started_at, r.worker_no, c.item_no[r.from_position:r.to_position] as item_no,
      c.effective_date[r.from_position:r.to_position] as effective_date, c.attempt[r.from_position:r.to_position] as attempt
    from ledger.run r
    join ledger.claim c on c.fence = r.fence and c.claimed_at = r.claimed_at
    where r.closed_at is null and (c.flow_nos is null or exists (
      select from unnest(c.flow_nos) n (flow_no) where (n.flow_no in (select a.flow_no from asked a)) is true))
  )
  select u.item_no, u.effective_date, 2::smallint /* Claimed */, h.claimed_at, u.attempt, null::bigint
  from handed h
  cross join lateral unnest(h.item_no, h.effective_date, h.attempt) with ordinality u (item_no, effective_date, attempt, position)
  where u.position > h.started
  union all
  select u.item_no, u.effective_date, 3::smallint /* Running */, r.started_at, u.attempt, r.worker_no
  from running r
  cross join lateral unnest(r.item_no, r.effective_date, r.attempt) with ordinality u (item_no, effective_date, attempt, place)
  where get_bit(r.ended, u.place::integer - 1) = 0
$$;

comment on function ledger.list_in_flight is
  'Items that are claimed or running, of the claims that have items of these flows. Others may be among them.';
