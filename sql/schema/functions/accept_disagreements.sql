create function ledger.accept_disagreements(
  ids uuid[], tenants text[], kinds text[], subjects text[], sentences text[], expecteds text[], actuals text[],
  reason text, actor bigint
) returns setof uuid
  language sql security definer set search_path = pg_catalog, pg_temp
as $$
  insert into ledger.finding as f (
    id, type, severity, tenant, kind, subject, sentence, expected, actual, resolution, reason, resolved_by, first_seen_at,
    last_seen_at, closed_at)
  select u.id, 'DISAGREES', 'error', u.tenant, u.kind, u.subject, u.sentence, u.expected::jsonb, u.actual::jsonb,
    'accepted', accept_disagreements.reason, actor, ledger.now(), ledger.now(), ledger.now()
  from unnest(ids, tenants, kinds, subjects, sentences, expecteds, actuals)
    u (id, tenant, kind, subject, sentence, expected, actual)
  order by u.id
  on conflict (id) do update set
    last_seen_at = excluded.last_seen_at, sentence = excluded.sentence, expected = excluded.expected,
    actual = excluded.actual, resolution = excluded.resolution, reason = excluded.reason,
    resolved_by = excluded.resolved_by, closed_at = excluded.closed_at, taken_by = null, taken_at = null
  returning f.id;
$$;

comment on function ledger.accept_disagreements is
  'Record that a person defines schedules although a library expands them otherwise, and why: findings DISAGREES that are '
  'accepted from the beginning.';
revoke execute on function ledger.accept_disagreements from public;
