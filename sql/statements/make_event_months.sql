-- Make the inbox partitions that these months need.
-- returns: one
-- $1 months date[]
-- index: none
-- locks: the event table (share update exclusive) where a month is missing
select count(*) filter (where ledger.make_month('event', u.month))::integer as made
from unnest($1::date[]) u (month)
where not exists (
  select from ledger.partition_month p where p.parent = 'event' and p.month = u.month)
