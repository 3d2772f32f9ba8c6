create function ledger.record_findings(
  reconciliation_no bigint, ids uuid[], types text[], severities text[], tenants text[],
  kinds text[], subjects text[], item_ids uuid[], business_keys text[], effective_dates date[],
  due_ats timestamptz[], sentences text[], expecteds text[], actuals text[], terms text[],
  resolutions text[]
) returns table (id uuid, opened_count integer, resolution text, first_seen_at timestamptz, created boolean)
  language sql security definer set search_path = pg_catalog, pg_temp
as $$
  insert into ledger.finding as f (
    reconciliation_no, id, type, severity, tenant, kind, subject, item_id, business_key, effective_date, due_at, sentence,
    expected, actual, terms, resolution, reason, first_seen_at, last_seen_at, closed_at)
  select record_findings.reconciliation_no, u.id, u.type, u.severity, u.tenant, u.kind, u.subject, u.item_id,
    u.business_key, u.effective_date, u.due_at, u.sentence, u.expected::jsonb, u.actual::jsonb, u.terms::jsonb, u.resolution,
    case when u.resolution <> 'open' then u.severity end, ledger.now(), ledger.now(),
    case when u.resolution <> 'open' then ledger.now() end
  from unnest(
    ids, types, severities, tenants, kinds, subjects, item_ids, business_keys, effective_dates, due_ats, sentences,
    expecteds, actuals, record_findings.terms, resolutions
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
    (opened_count, resolution, closed_at, resolved_by, reason) = (
      select f.opened_count + r.reopens::integer,
        case when r.reopens then excluded.resolution else f.resolution end,
        case when r.reopens then excluded.closed_at else f.closed_at end,
        case when r.reopens then null else f.resolved_by end,
        case when r.reopens then excluded.reason else f.reason end
      from (
        select ledger.finding_reopens(
          f.closed_at, f.resolution, f.reason,
          exists (select from ledger.actor a where a.actor_no = f.resolved_by and ledger.is_decider(a.kind, a.name)),
          excluded.resolution, ledger.is_same_difference(f.type, f.expected, f.actual, excluded.expected, excluded.actual))
      ) r (reopens))
  returning f.id, f.opened_count, f.resolution, f.first_seen_at, f.xmax = 0 as created;
$$;

comment on function ledger.record_findings is
  'Record the findings of a pass: new ones open, known ones are seen again, cleared and repaired ones reopen, '
  'and so do those that nobody resolved who may decide, and those whose evidence is another. No role may change the evidence of a finding otherwise.';
revoke execute on function ledger.record_findings from public;
