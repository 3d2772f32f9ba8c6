-- List pending items that were never handed out, are not due yet, and were placed by another tz database; from an instant on, and emitted until one, if they are given.
-- returns: zero or more
-- roles: operator
-- $1 tzdata text
-- $2 from_at timestamptz
-- $3 emitted_until timestamptz
-- $4 after_item_no bigint
-- $5 limit integer
-- index: pending_pkey, due_item_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default)
select w.item_no, i.id, i.definition_no, i.effective_date, i.cycle, i.due_at, i.smear_seconds, i.decision, i.tzdata, i.zone
from (
  select p.item_no, p.effective_date
  from ledger.pending p
  where p.item_no > $4::bigint and p.state = 1 /* Scheduled */ and p.attempt = 0 and p.starts = 0
  order by p.item_no
  limit $5::integer
) w
left join lateral (
  select i.* from ledger.due_item i
  where i.effective_date = w.effective_date and i.item_no = w.item_no
    and i.due_at > ledger.now() and ($2::timestamptz is null or i.due_at >= $2::timestamptz)
    and ($3::timestamptz is null or i.emitted_at <= $3::timestamptz)
    and i.tzdata <> $1::text and i.nominal is not null and i.definition_no is not null
  offset 0
) i on true
order by w.item_no
