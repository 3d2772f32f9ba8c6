-- The maker of a partition keeps its lock on this table until other sessions know of the partition, so a statement
-- after this one has a plan with everything that its snapshot shows.
create function ledger.lock_partitions() returns boolean
  language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  lock table ledger.partition_span in share row exclusive mode nowait;
  return true;
exception when lock_not_available then
  return false;
end $$;

comment on function ledger.lock_partitions is
  'Let no table partition be made until the transaction ends; false where one is being made.';
revoke execute on function ledger.lock_partitions from public;
