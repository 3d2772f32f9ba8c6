-- Record missed ranges of occurrences; one that begins where a definition's last range ends extends it.
-- returns: zero
-- roles: materialiser
-- $1 definition_nos bigint[]
-- $2 from_ats timestamptz[]
-- $3 until_ats timestamptz[]
-- $4 occurrences bigint[]
-- $5 reason text
-- $6 actor_no bigint
-- index: missed_range_pkey
-- locks: missed_range rows (for update)
with given as materialized (
  select * from unnest($1::bigint[], $2::timestamptz[], $3::timestamptz[], $4::bigint[])
    g (definition_no, from_at, until_at, occurrences)
),
continued as (
  update ledger.missed_range m
  set until_at = g.until_at, occurrences = m.occurrences + g.occurrences, recorded_at = ledger.now()
  from given g
  where m.definition_no = g.definition_no and m.until_at = g.from_at and m.reason = $5::text
  returning m.definition_no
)
insert into ledger.missed_range (definition_no, from_at, until_at, occurrences, reason, recorded_at, actor_no)
select g.definition_no, g.from_at, g.until_at, g.occurrences, $5::text, ledger.now(), $6::bigint
from given g
where not exists (select from continued c where c.definition_no = g.definition_no)
