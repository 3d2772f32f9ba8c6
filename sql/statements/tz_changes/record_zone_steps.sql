-- Record a part of a change by a tz database: one version, why it cannot be expanded, and some items.
-- returns: zero
-- $1 change_no bigint
-- $2 definition_no bigint
-- $3 superseded_at timestamptz
-- $4 failure text
-- $5 ats timestamptz[]
-- $6 ids uuid[]
-- $7 steps text[]
-- $8 cycles text[]
-- $9 zones text[]
-- $10 due_ats timestamptz[]
-- $11 decisions text[]
-- $12 skip_reasons text[]
-- $13 tzdatas_before text[]
-- $14 drafts text[]
-- index: none
-- locks: none (the change is the caller's own)
with part as (
  insert into ledger.zone_change_part as p (change_no, definition_no, superseded_at, failure)
  values ($1::bigint, $2::bigint, $3::timestamptz, $4::text)
  on conflict (change_no, definition_no) do update set failure = coalesce(p.failure, excluded.failure)
)
insert into ledger.zone_change_step (
  change_no, definition_no, at, id, step, cycle, zone, due_at, decision, skip_reason, tzdata_before, draft)
select $1::bigint, $2::bigint, s.at, s.id, s.step, s.cycle, s.zone, s.due_at, s.decision, s.skip_reason, s.tzdata_before,
  s.draft::jsonb
from unnest(
  $5::timestamptz[], $6::uuid[], $7::text[], $8::text[], $9::text[], $10::timestamptz[], $11::text[], $12::text[],
  $13::text[], $14::text[])
  s (at, id, step, cycle, zone, due_at, decision, skip_reason, tzdata_before, draft)
