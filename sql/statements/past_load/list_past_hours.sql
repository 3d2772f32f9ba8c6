-- List the results of the items that were due in spans of past_sum, by so many minutes from an origin, of tenants or all, of the kinds of a name or all, which is the empty one.
-- returns: zero or more
-- roles: auditor
-- $1 tenants text[]
-- $2 kind text
-- $3 span_minutes smallint[]
-- $4 span_begins timestamptz[]
-- $5 span_ends timestamptz[]
-- $6 minutes integer
-- $7 origin timestamptz
-- index: kind_name_idx, past_sum_pkey
-- locks: none
select date_bin(make_interval(mins => $6::integer), s.begins, $7::timestamptz) as begins, sum(s.items)::integer as items, sum(s.completed)::integer as completed, sum(s.completed_late)::integer as completed_late,
  sum(s.in_review)::integer as in_review, sum(s.withdrawn)::integer as withdrawn, sum(s.written_off)::integer as written_off,
  sum(s.had_failures)::integer as had_failures
from (
  select distinct n.tenant from unnest($1::text[]) n (tenant) where n.tenant <> ''
  union all
  select '' where $1::text[] is null and $2::text = ''
  union all
  select k.tenant from ledger.kind k where $1::text[] is null and $2::text <> '' and k.name collate "C" = $2::text
) t
cross join unnest($3::smallint[], $4::timestamptz[], $5::timestamptz[]) u (minutes, begins, ends)
cross join lateral (
  select s.* from ledger.past_sum s
  where s.tenant = t.tenant and s.kind = $2::text and s.minutes = u.minutes and s.begins >= u.begins and s.begins < u.ends
  offset 0
) s
group by 1
order by 1
