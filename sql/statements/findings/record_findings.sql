-- Record the findings of a pass: new ones open, known ones are seen again, cleared and repaired ones reopen.
-- returns: exactly one per input
-- $1 reconciliation_no bigint
-- $2 ids uuid[]
-- $3 types text[]
-- $4 severities text[]
-- $5 tenants text[]
-- $6 kinds text[]
-- $7 subjects text[]
-- $8 item_ids uuid[]
-- $9 business_keys text[]
-- $10 effective_dates date[]
-- $11 due_ats timestamptz[]
-- $12 sentences text[]
-- $13 expecteds text[]
-- $14 actuals text[]
-- $15 terms text[]
-- $16 resolutions text[]
-- index: finding_pkey
-- locks: finding rows (for update, id ascending)
insert into ledger.finding as f (
  reconciliation_no, id, type, severity, tenant, kind, subject, item_id, business_key, effective_date, due_at, sentence,
  expected, actual, terms, resolution, reason, first_seen_at, last_seen_at, closed_at)
select $1::bigint, u.id, u.type, u.severity, u.tenant, u.kind, u.subject, u.item_id, u.business_key, u.effective_date,
  u.due_at, u.sentence, u.expected::jsonb, u.actual::jsonb, u.terms::jsonb, u.resolution,
  case when u.resolution <> 'open' then u.severity end, ledger.now(), ledger.now(),
  case when u.resolution <> 'open' then ledger.now() end
from unnest(
  $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::uuid[], $9::text[], $10::date[],
  $11::timestamptz[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[]
) u (
  id, type, severity, tenant, kind, subject, item_id, business_key, effective_date, due_at, sentence, expected, actual,
  terms, resolution)
order by u.id
on conflict (id) do update set
  reconciliation_no = greatest(f.reconciliation_no, excluded.reconciliation_no),
  last_seen_at = greatest(f.last_seen_at, excluded.last_seen_at),
  severity = excluded.severity,
  sentence = excluded.sentence,
  expected = excluded.expected,
  actual = excluded.actual,
  terms = excluded.terms,
  opened_count = f.opened_count + (f.resolution = 'repaired' or f.reason is not distinct from 'cleared')::integer,
  resolution = case when f.resolution = 'repaired' or f.reason = 'cleared' then excluded.resolution else f.resolution end,
  closed_at = case when f.resolution = 'repaired' or f.reason = 'cleared' then excluded.closed_at else f.closed_at end,
  resolved_by = case when f.resolution = 'repaired' or f.reason = 'cleared' then null else f.resolved_by end,
  reason = case when f.resolution = 'repaired' or f.reason = 'cleared' then excluded.reason else f.reason end
returning f.id, f.opened_count, f.resolution, f.first_seen_at, f.xmax = 0 as created
