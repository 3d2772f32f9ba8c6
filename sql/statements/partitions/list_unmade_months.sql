-- List the months of these dates that have no table partition. This session can insert into the other ones from its next transaction on.
-- returns: zero or more
-- roles: intake, materialiser
-- $1 parent text
-- $2 days date[]
-- index: none
-- locks: the partitions of these months (access share) for an instant: the transaction that made one has committed then
select m.starts_on
from (
  select distinct ledger.partition_start(d) as starts_on from unnest($2::date[]) d
  where d >= date '1970-01-01' and d < date '2200-01-01'  -- others are refused with their field's name
) m
left join ledger.partition_span p on p.parent = $1::text and p.starts_on = m.starts_on
where pg_relation_size(p.leaf, 'init') is null
order by m.starts_on
