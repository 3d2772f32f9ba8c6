-- Let pending items wait until a later time, in a named person's name (Scheduled, RetryableFailure to Scheduled); due_at and attempts do not change.
-- returns: exactly one per input
-- roles: operator, upkeep
-- $1 ids uuid[]
-- $2 reason text
-- $3 actor_no bigint
-- $4 until timestamptz
-- index: due_item_id_effective_date_key, pending_pkey
-- locks: pending rows (for update, item_no ascending)
with locked_default as (select from ledger.due_item_default),
asked as materialized (
  select a.id, a.ord, i.item_no
  from unnest($1::uuid[]) with ordinality a (id, ord) left join ledger.due_item i
    on i.id = a.id and i.effective_date = ledger.effective_date_of(a.id)
),
-- An item that waits for its key (infinity) is not put off, nor one that waits as long anyway.
locked as materialized (
  select p.item_no, p.state, p.available_at from asked a join ledger.pending p on p.item_no = a.item_no
  where p.state in (1 /* Scheduled */, 4 /* RetryableFailure */) and p.available_at < $4::timestamptz
    and $4::timestamptz > ledger.now() and $4::timestamptz < 'infinity'
  order by p.item_no for update of p
),
-- A retry is never skipped by overlap: as a redriven item, it waits for its key.
put_off as (
  update ledger.pending p
  set available_at = $4::timestamptz, state = 1 /* Scheduled */, snoozed_until = $4::timestamptz,
    overlap = case when p.serial is not null and p.state = 4 /* RetryableFailure */ then 1 else p.overlap end
  from locked l where p.item_no = l.item_no and p.state in (1 /* Scheduled */, 4 /* RetryableFailure */)
  returning p.item_no, p.effective_date, p.attempt, l.state, l.available_at
),
journal as (
  insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at, detail)
  select s.effective_date, s.item_no, 8 /* snoozed */, s.attempt, $3::bigint, ledger.now(),
    jsonb_build_object('reason', $2::text, 'until', $4::timestamptz)
  from put_off s
),
refused as (
  insert into ledger.rejected_write (rejected_at, actor_no, verb, reason, item_no)
  select ledger.now(), $3::bigint, 'snooze', 'illegal', a.item_no
  from asked a where a.item_no is not null and not exists (select from put_off s where s.item_no = a.item_no)
)
select a.id,
  case when a.item_no is null then 'unknown'
    when s.item_no is not null then 'done' else 'illegal' end as result, s.state, s.available_at
from asked a left join put_off s on s.item_no = a.item_no order by a.ord
