-- Flag business keys that failed as often as their kind's limit, once a streak, or start anew if one completed since.
-- returns: zero or more, one a key that is newly flagged
-- roles: upkeep
-- $1 limit integer
-- index: failure_streak_unjudged_idx
-- locks: failure_streak rows (for update, skip locked)
with found as materialized (
  select s.flow_no, s.business_key, k.tenant, k.name as kind, s.flagged_at is null as fresh,
    ledger.completed_since(s.flow_no, s.business_key, s.first_at) as broken
  from ledger.failure_streak s
  join ledger.flow f on f.flow_no = s.flow_no
  join ledger.kind k on k.kind_no = f.kind_no
  where (s.judged_at is null or s.last_at > s.judged_at) and s.failures >= k.streak_max
    and s.failures >= (select min(l.streak_max) from ledger.kind l)  -- nearly every key has failed less often
  order by s.failures desc
  limit $1::integer
  for update of s skip locked
),
judged as (
  update ledger.failure_streak s
  set judged_at = s.last_at,
    failures = case when f.broken then 1 else s.failures end,
    first_at = case when f.broken then s.last_at else s.first_at end,
    flagged_at = case when f.broken then null else coalesce(s.flagged_at, ledger.now()) end
  from found f
  where s.flow_no = f.flow_no and s.business_key = f.business_key
  returning f.tenant, f.kind, s.business_key, s.failures, s.reason, f.fresh and not f.broken as flagged
)
select j.tenant, j.kind, j.business_key, j.failures, j.reason from judged j where j.flagged
