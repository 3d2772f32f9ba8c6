-- Say how long until a row becomes available, a claim passes its deadline or a lease lapses; null when nothing waits.
-- returns: one
-- index: pending_available_idx, claim_deadline_idx, run_lease_idx
-- locks: none
with recursive waiting (flow_no) as (
  (select p.flow_no from ledger.pending p order by p.flow_no limit 1)
  union all
  select (
    select p.flow_no from ledger.pending p where p.flow_no > w.flow_no order by p.flow_no limit 1)
  from waiting w where w.flow_no is not null
)
select least(
  extract(epoch from (
    select min((
      select p.available_at from ledger.pending p
      where p.flow_no = w.flow_no order by p.available_at limit 1))
    from waiting w
    join ledger.flow f on f.flow_no = w.flow_no and f.paused_at is null
  ) - ledger.now()) / ledger.clock_rate(),
  extract(epoch from (
    select c.deadline from ledger.claim c where c.closed_at is null order by c.deadline limit 1
  ) - ledger.machine_now()),
  extract(epoch from (
    select r.lease_until from ledger.run r where r.closed_at is null order by r.lease_until limit 1
  ) - ledger.machine_now())
)::double precision as seconds
