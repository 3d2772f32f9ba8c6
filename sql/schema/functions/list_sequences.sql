create function ledger.list_sequences() returns table (name text, used double precision, seconds_ahead double precision)
  language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select c.relname::text,
    (coalesce(n.last, s.seqmin - 1) - s.seqmin + 1) / (s.seqmax - s.seqmin + 1.0),
    case when c.relname in ('fence', 'run_run_no_seq') then
      (n.last - s.seqmin) / 8192.0 - extract(epoch from clock_timestamp() - '2026-01-01 00:00Z'::timestamptz) end
  from pg_sequence s
  join pg_class c on c.oid = s.seqrelid and c.relnamespace = 'ledger'::regnamespace and c.relname <> 'sleep_until'
  cross join lateral (select pg_sequence_last_value(s.seqrelid)) n (last)
  order by c.relname;
$$;

comment on function ledger.list_sequences is
  'Which part of its stripe each sequence has given, and how far those that follow the clock are ahead of it.';
revoke execute on function ledger.list_sequences from public;
