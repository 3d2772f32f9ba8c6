-- The COMMIT of a handler's transaction is in the same message as the settlement: an error is what keeps it from happening.
create function ledger.refuse_completion(run_no bigint) returns boolean
  language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception using
    errcode = 'DL006',
    message = format('run %s has ended, or is not this worker''s', run_no);
end $$;

comment on function ledger.refuse_completion is
  'Raise DL006 where the item of a handler''s transaction cannot complete, so that the transaction does not commit.';
