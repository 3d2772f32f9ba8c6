-- Record alerts as they are now and renew the lead; delete those that are over. Nothing is recorded under another term.
-- returns: one
-- roles: alerter
-- $1 task text
-- $2 holder text
-- $3 term bigint
-- $4 seconds double precision
-- $5 name text[]
-- $6 labels text[]
-- $7 value double precision[]
-- $8 since timestamptz[]
-- $9 ended_at timestamptz[]
-- $10 sent_to text[]
-- $11 end_sent_to text[]
-- $12 is_over boolean[]
-- index: alert_pkey
-- locks: leader row (for update); alert rows (for update)
with lead as materialized (
  select coalesce(ledger.take_lead($1::text, $2::text, $4::double precision) = $3::bigint, false) as is_held
),
given as materialized (
  select u.name, u.labels::jsonb as labels, u.value, u.since, u.ended_at, u.sent_to::jsonb as sent_to,
    u.end_sent_to::jsonb as end_sent_to, u.is_over
  from unnest($5::text[], $6::text[], $7::double precision[], $8::timestamptz[], $9::timestamptz[], $10::text[],
    $11::text[], $12::boolean[])
    u (name, labels, value, since, ended_at, sent_to, end_sent_to, is_over)
  where (select l.is_held from lead l)
),
deleted as (
  delete from ledger.alert a using given g
  where a.name = g.name and a.labels = g.labels and g.is_over
),
recorded as (
  insert into ledger.alert as a (name, labels, value, since, ended_at, sent_to, end_sent_to)
  select g.name, g.labels, g.value, g.since, g.ended_at, g.sent_to, g.end_sent_to
  from given g
  where not g.is_over
  on conflict (name, labels) do update
  set value = excluded.value, since = excluded.since, ended_at = excluded.ended_at, sent_to = excluded.sent_to,
    end_sent_to = excluded.end_sent_to
)
select l.is_held from lead l
