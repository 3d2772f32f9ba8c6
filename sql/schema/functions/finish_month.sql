-- Statements look for open claims and runs in every month: leases may be extended for ever. A month that is long over and
-- has no open row gets the constraint that none opens again. Postgres then leaves it out of their plans: it is neither
-- locked nor opened, however many such months are kept. A month that is not over has it only if the clock was ahead once.
create function ledger.finish_month() returns boolean
  language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '100ms'
as $$
declare
  month record;
  is_open boolean;
begin
  for month in
    select p.parent, p.starts_on, p.leaf, c.oid is not null as has_constraint, o.is_over
    from ledger.partition_span p
    left join pg_constraint c on c.conrelid = p.leaf and c.conname = 'month_finished'
    -- A simulated clock may be ahead of the real one, and the next session's behind it.
    cross join lateral (
      select p.ends_before < least(ledger.now(), clock_timestamp()) - interval '32 days') o (is_over)
    where p.parent in ('claim', 'run')
      and case when o.is_over then p.finished_at is null else c.oid is not null end
    order by o.is_over, p.starts_on, p.parent
    for update of p skip locked
  loop
    if month.is_over then
      execute format('select exists (select from %s where closed_at is null)', month.leaf) into is_open;
      continue when is_open;
    end if;
    begin
      if not month.is_over then
        execute format('alter table %s drop constraint month_finished', month.leaf);
        update ledger.partition_span p set finished_at = null
        where p.parent = month.parent and p.starts_on = month.starts_on;
      elsif month.has_constraint then
        -- This reads the whole month, beside all other statements.
        execute format('alter table %s validate constraint month_finished', month.leaf);
        update ledger.partition_span p set finished_at = clock_timestamp()
        where p.parent = month.parent and p.starts_on = month.starts_on;
      else
        execute format('alter table %s add constraint month_finished check (closed_at is not null) not valid', month.leaf);
      end if;
      return true;
    exception when lock_not_available or check_violation then
      null;  -- a long transaction uses it, or opened a row: the next pass tries again
    end;
  end loop;
  return false;
end $$;

comment on function ledger.finish_month is
  'Finish one month of claims or runs that is over and has no open row, in two calls, or open one that is not over again; '
  'false where there is none.';
revoke execute on function ledger.finish_month from public;
