-- Ask a process to drain and stop: the incarnation of this name, if it lives and takes such requests. The first request stays.
-- returns: zero or one
-- roles: operator
-- $1 name text
-- $2 reason text
-- $3 actor_no bigint
-- index: process_pkey
-- locks: process row (for update)
with named as materialized (
  select s.process_no, s.status from ledger.process_status s where s.name = $1::text
),
locked as materialized (
  select p.process_no, p.ended_at, p.drains, p.drain_asked_at, n.status
  from named n join ledger.process p on p.process_no = n.process_no
  for update of p
),
asked as (
  update ledger.process p
  set drain_asked_at = ledger.machine_now(), drain_asked_by = $3::bigint, drain_reason = $2::text
  from locked l
  where p.process_no = l.process_no and p.ended_at is null and p.drains and p.drain_asked_at is null
    and l.status in ('live', 'silent')
  returning p.process_no
)
select case
    when a.process_no is not null then 'done'
    when l.ended_at is not null then 'ended'
    when l.status = 'gone' then 'gone'
    when not l.drains then 'unable'
    else 'asked'
  end as result
from locked l
left join asked a on a.process_no = l.process_no
