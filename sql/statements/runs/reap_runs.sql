-- Close runs past their lease: items not ended go from Running to RetryableFailure, or to ManualReview at their cap; items settled by topic without any reported outcome go back to Scheduled.
-- returns: one
-- roles: reconciler, upkeep
-- $1 run_nos bigint[]
-- $2 started_ats timestamptz[]
-- $3 lost_counts bigint[]
-- $4 actor_no bigint
-- $5 first_started_at timestamptz
-- $6 last_started_at timestamptz
-- $7 first_claimed_at timestamptz
-- $8 last_claimed_at timestamptz
-- index: run_pkey, claim_pkey
-- locks: none (its runs are locked by lock_lapsed_runs, in a statement before); silent_topic rows (topic ascending)
with locked_default as (select from ledger.due_item_default),
closed as (
  update ledger.run r
  set closed_at = ledger.now()
  from unnest($1::bigint[], $2::timestamptz[], $3::bigint[]) l (run_no, started_at, lost_count)
  where r.run_no = l.run_no and r.started_at is not distinct from l.started_at and r.started_at between $5::timestamptz and $6::timestamptz
    and r.claimed_at between $7::timestamptz and $8::timestamptz and r.closed_at is null
  returning r.run_no, r.fence, r.claimed_at, r.from_position, r.to_position, r.ended, r.extended_at, r.isolated_in, r.overran,
    r.run_until <= ledger.machine_now() as is_over, l.lost_count
),
lost as materialized (
  select c.run_no, u.item_no, u.effective_date, u.attempt, u.starts, o.overran, c.isolated_in, k.batch_max,
    k.topic, k.topic_actor_no, k.topic_actor_no is not null and c.extended_at is null as unreported,
    case when k.topic_actor_no is not null then 1 else c.lost_count end as beside
  from closed c
  join ledger.claim k on k.fence = c.fence and k.claimed_at is not distinct from c.claimed_at
    and k.claimed_at between $7::timestamptz and $8::timestamptz
  cross join lateral unnest(
    k.item_no[c.from_position:c.to_position], k.effective_date[c.from_position:c.to_position],
    k.attempt[c.from_position:c.to_position], k.starts[c.from_position:c.to_position]
  ) with ordinality u (item_no, effective_date, attempt, starts, ord)
  cross join lateral (
    select coalesce(case when k.topic_actor_no is not null then c.is_over else get_bit(c.overran, u.ord::integer - 1) = 1 end, false) as overran
  ) o
  where get_bit(c.ended, u.ord::integer - 1) = 0
),
-- Items settled by topic without any reported outcome may never have been read: they are released and no start is counted.
-- The end of a worker blames no item, except one in its slot for suspects, which most likely caused it: a deployment ends workers,
-- too. No attempt is counted, and the item is claimed again in a smaller batch, as a suspect. A hard end blames the items that were
-- with their handlers then.
-- The batch is smaller than its own was, too: a worker that starts many small batches at once would die of them for ever.
recorded as materialized (
  select r.*
  from (
    select array_agg(row(
      l.item_no, l.effective_date, l.run_no, case when l.unreported then 3 /* released */ else 7 /* timed_out */ end,
      l.attempt, l.starts, l.blamed, l.overran, null,
      case when l.unreported then l.batch_max when l.blamed then 1
        else greatest(1, least(l.beside / 8, l.batch_max / 8, 32000)) end,
      case when l.overran then 'it ran longer than its kind may' else 'its worker died or lost its lease each time it ran' end,
      case when l.unreported then jsonb_build_object('reason', 'no outcome was reported within the lease')
        else jsonb_build_object(
          'reason', case when l.overran then 'overran' else 'lease lapsed' end, 'beside', l.beside, 'starts', l.starts) end
    )::ledger.item_outcome) as outcomes
    from (
      select l.*, not l.unreported and (l.overran or l.isolated_in is not distinct from 'slot' or l.topic_actor_no is not null) as blamed
      from lost l) l
  ) u
  cross join lateral ledger.record_outcomes(u.outcomes, $4::bigint) r
),
silent as (
  insert into ledger.silent_topic (topic, topic_actor_no, since)
  select distinct l.topic, l.topic_actor_no, ledger.now() from lost l where l.unreported order by l.topic
  on conflict do nothing
)
select (select count(*) from closed)::integer as runs, r.retried::integer, r.released::integer, r.parked::integer
from recorded r
where ledger.none_lost((select count(*) from lost), r.items)
