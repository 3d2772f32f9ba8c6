-- Record alerts as they are now; delete those that ended and that no channel waits for the end of.
-- returns: zero or more
-- roles: alerter
-- $1 name text[]
-- $2 labels text[]
-- $3 value double precision[]
-- $4 since timestamptz[]
-- $5 ended_at timestamptz[]
-- $6 sent_to text[]
-- index: alert_pkey
-- locks: alert rows (for update)
with given as materialized (
  select u.name, u.labels::jsonb as labels, u.value, u.since, u.ended_at, u.sent_to::jsonb as sent_to
  from unnest($1::text[], $2::text[], $3::double precision[], $4::timestamptz[], $5::timestamptz[], $6::text[])
    u (name, labels, value, since, ended_at, sent_to)
),
deleted as (
  delete from ledger.alert a using given g
  where a.name = g.name and a.labels = g.labels and g.ended_at is not null and g.sent_to = '[]'
)
insert into ledger.alert as a (name, labels, value, since, ended_at, sent_to)
select g.name, g.labels, g.value, g.since, g.ended_at, g.sent_to
from given g
where g.ended_at is null or g.sent_to <> '[]'
on conflict (name, labels) do update
set value = excluded.value, since = excluded.since, ended_at = excluded.ended_at, sent_to = excluded.sent_to
returning a.name
