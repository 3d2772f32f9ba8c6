-- A function, because a search seldom asks for an id that the ledger does not have.
create function ledger.find_retired(ids uuid[]) returns setof uuid
  language plpgsql stable rows 10 set search_path = pg_catalog, pg_temp set enable_hashjoin = on
as $$
begin
  return query
  with gone as materialized (
    select d.effective_date
    from (select distinct ledger.effective_date_of(u.id) as effective_date from unnest(ids) u (id)) d
    left join ledger.partition_span p on p.parent = 'due_item' and p.starts_on = ledger.partition_start(d.effective_date)
    -- One that was made again has such a name.
    where p.has_retired and p.leaf::text like '%\_again' or pg_relation_size(p.leaf, 'init') is null
  )
  select r.id
  from gone g
  join unnest(ids) u (id) on ledger.effective_date_of(u.id) = g.effective_date
  cross join lateral (select k.id from ledger.retired_key k where k.id = u.id offset 0) r;
end $$;

comment on function ledger.find_retired is
  'Which of these ids are of items whose partition was dropped. It asks only for dates that have no partition, or '
  'one that was made again.';
