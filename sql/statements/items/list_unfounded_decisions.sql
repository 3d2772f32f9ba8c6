-- List expedited items and pauses that nobody decided who may, withdrawals that nobody registered asked for, and those not so as their rows say, up to a limit.
-- returns: zero or more
-- roles: auditor, reconciler
-- $1 limit integer
-- index: due_item_pkey
-- locks: none
with locked_default as (select from ledger.due_item_default),
decider as materialized (
  select a.actor_no from ledger.actor a where ledger.is_decider(a.kind, a.name)
),
decision as (
  select 'expedited' as what, x.item_no as number, x.effective_date, i.id, i.flow_no, i.business_key, i.due_at,
    null as tenant, null as kind,
    case
      when i.item_no is null then 'no_item'
      when not exists (select from decider d where d.actor_no = x.actor_no) then 'nobody'
      when x.expedited_at < i.emitted_at or x.expedited_at > ledger.now() then 'time'
    end as fault
  from ledger.expedited x
  left join ledger.due_item i on i.item_no = x.item_no and i.effective_date = x.effective_date
  union all
  select 'withdrawal', w.item_no, w.effective_date, i.id, i.flow_no, i.business_key, i.due_at, null, null,
    case
      when i.item_no is null then 'no_item'
      when not exists (
        select from ledger.actor a
        where a.actor_no = w.actor_no and (a.kind <> 'person' or lower(split_part(a.name, ':', 1)) = 'person')) then 'unasked'
      when w.requested_at < i.emitted_at or w.requested_at > ledger.now() then 'time'
    end
  from ledger.withdrawal w
  left join ledger.due_item i on i.item_no = w.item_no and i.effective_date = w.effective_date
  union all
  select 'pause', p.pause_no, null, null, null, null, null, p.tenant, p.kind,
    case
      when p.actor_no not in (select actor_no from decider) or p.resumed_by not in (select actor_no from decider) then 'nobody'
      when p.paused_at > ledger.now() or p.resumed_at < p.paused_at or p.paused_until <= p.paused_at
        or (p.resumed_at is null and p.resumed_by is not null)
        -- One that nobody ended is over by its own end, not before it.
        or (p.resumed_at is not null and p.resumed_by is null and (p.resumed_at >= p.paused_until) is not true) then 'time'
      -- Upkeep pauses a flow that was made beside the transaction that paused.
      when p.resumed_at is null and p.paused_at < ledger.now() - interval '1 minute' and exists (
        select from ledger.flow f
        where f.tenant = p.tenant and coalesce(p.kind = f.kind, true) and coalesce(p.lane = f.lane, true)
          and f.paused_at is null) then 'not_paused'
    end
  from ledger.pause p
  union all
  -- Upkeep resumes a flow that was made, and paused, beside the transaction that ended its pause.
  select 'paused flow', f.flow_no, null, null, null, null, null, f.tenant, f.kind,
    case when not exists (
      select from ledger.pause p
      where p.tenant = f.tenant and coalesce(p.kind = f.kind, true) and coalesce(p.lane = f.lane, true)
        and coalesce(p.resumed_at between ledger.now() - interval '1 minute' and ledger.now() + interval '1 minute', true))
      then 'no_pause' end
  from ledger.flow f
  where f.paused_at is not null
)
select d.* from decision d where d.fault is not null
limit $1::integer
