-- List the flows that have rows available now and are not paused, by a loose index scan.
-- returns: zero or more
-- $1 limit integer
-- index: pending_available_idx
-- locks: none
with recursive waiting (flow_no) as (
  (select p.flow_no from ledger.pending p order by p.flow_no limit 1)
  union all
  select (
    select p.flow_no from ledger.pending p where p.flow_no > w.flow_no order by p.flow_no limit 1)
  from waiting w where w.flow_no is not null
)
select f.flow_no, k.tenant, k.name as kind, f.lane, k.topic, f.weight, k.queue_seconds
from waiting w
join ledger.flow f on f.flow_no = w.flow_no
join ledger.kind k on k.kind_no = f.kind_no
where f.paused_at is null
  and exists (
    select from ledger.pending p where p.flow_no = w.flow_no and p.available_at <= ledger.now())
limit $1::integer
