-- Read the pace of floods, how many claims count for its next step, how many of these are late or near it, and the latest of them.
-- returns: exactly one
-- roles: allocator
-- $1 seconds double precision
-- $2 target_seconds double precision
-- $3 claims_max integer
-- index: claim_lag_idx, flow_pkey
-- locks: none
select p.share, p.stepped_at,
  coalesce(extract(epoch from ledger.machine_now() - p.stepped_at)::double precision, 'infinity') as age_seconds,
  m.claims, m.late, m.near, m.flow_no, m.lag_seconds, m.lag_target_seconds
from ledger.flood_pace p
cross join lateral (
  select count(*) filter (where l.is_started or l.lag_seconds > l.lag_target_seconds / 2)::integer as claims,
    count(*) filter (where l.lag_seconds > l.lag_target_seconds)::integer as late,
    count(*) filter (where l.lag_seconds > l.lag_target_seconds / 2)::integer as near,
    (array_agg(l.flow_no order by l.lag_seconds / l.lag_target_seconds desc))[1] as flow_no,
    (array_agg(l.lag_seconds order by l.lag_seconds / l.lag_target_seconds desc))[1] as lag_seconds,
    (array_agg(l.lag_target_seconds order by l.lag_seconds / l.lag_target_seconds desc))[1] as lag_target_seconds
  from (
    -- Of a claim that was not started yet the lag is this at least. One that was released, or started in part, does not count.
    select f.flow_no, f.lag_target_seconds, c.closed_at is not null as is_started,
      (extract(epoch from coalesce(c.closed_at, ledger.now()) - c.available_since) / ledger.clock_rate())::double precision
        as lag_seconds
    from ledger.claim c
    join ledger.flow f on f.flow_no = c.lag_flow_no and f.lag_target_seconds is not null
    where c.lag_flow_no is not null
      and c.claimed_at > ledger.now() - make_interval(secs => ($1::double precision + $2::double precision) * ledger.clock_rate())
      -- By when its lag became known.
      and coalesce(c.closed_at, ledger.now()) > ledger.now() - make_interval(secs => $1::double precision * ledger.clock_rate())
      and (p.counted_from is null or c.available_since >= p.counted_from) and c.started = case when c.closed_at is null then 0 else c.size end
    order by c.claimed_at desc
    limit $3::integer
  ) l
) m
