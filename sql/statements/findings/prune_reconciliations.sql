-- Delete the oldest passes that are older than some days, what they read of each source before them. What others delete at the same time is not counted.
-- returns: one
-- roles: upkeep
-- $1 keep_days integer
-- $2 limit integer
-- index: reconciliation_as_of_idx, reconciliation_pkey, report_as_of_idx, report_row_pkey, population_reconciliation_idx, population_name_idx, population_pkey
-- locks: population rows, then reconciliation rows (for update)
with old as materialized (
  select r.reconciliation_no
  from ledger.reconciliation r
  where r.as_of < ledger.now() - make_interval(days => $1::integer)
    and not exists (select from ledger.report t where t.as_of = r.as_of and t.reconciliation_no = r.reconciliation_no)
    and not exists (select from ledger.report_row w where w.reconciliation_no = r.reconciliation_no)
    -- The next pass begins after the latest, with the credit of the last.
    and r.as_of < (select max(l.as_of) from ledger.reconciliation l)
    and r.reconciliation_no < (select max(l.reconciliation_no) from ledger.reconciliation l)
    -- The next one compares its rows with those that `last_row_count` reads.
    and not exists (
      select
      from ledger.population p
      where p.reconciliation_no = r.reconciliation_no and p.failure is null
        and p.population_no = (
          select n.population_no
          from ledger.population n
          join ledger.reconciliation a on a.reconciliation_no = n.reconciliation_no
          where n.name = p.name and n.failure is null
            and a.scope ->> 'from_date' <= '1970-01-01' and a.scope ->> 'to_date' >= '2200-01-01'
          order by n.population_no desc
          limit 1))
  order by r.as_of, r.reconciliation_no limit $2::integer
),
old_population as materialized (
  select p.population_no
  from old o
  cross join lateral (
    select p.population_no
    from ledger.population p where p.reconciliation_no = o.reconciliation_no
    order by p.population_no limit $2::integer
  ) p
  limit $2::integer
),
deleted_population as (
  delete from ledger.population p using old_population o where p.population_no = o.population_no
  returning p.population_no
),
deleted as (
  delete from ledger.reconciliation r using old o
  where r.reconciliation_no = o.reconciliation_no
    and (select count(*) from old_population) < $2::integer  -- with the last of them
  returning r.reconciliation_no
)
select ((select count(*) from deleted_population) + (select count(*) from deleted))::integer as deleted
