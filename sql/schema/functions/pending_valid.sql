-- As ledger.due_item_valid: the only CHECK of its table.
create function ledger.pending_valid(state smallint, serial bigint, serial_due_at timestamptz, overlap smallint) returns boolean
  language plpgsql immutable parallel safe
as $$
begin
  if state in (1 /* Scheduled */, 4 /* RetryableFailure */) and (
    serial is null and serial_due_at is null and overlap is null
    or serial is not null and serial_due_at is not null and overlap between 1 and 4)
  then
    return true;
  end if;
  raise exception using
    errcode = 'check_violation', schema = 'ledger', table = 'pending',
    constraint = 'pending_' || case
      when state not in (1 /* Scheduled */, 4 /* RetryableFailure */) then 'state_waits'
      when overlap not between 1 and 4 then 'overlap_known'
      else 'serial_whole'
    end,
    message = 'a pending row needs a state that waits, and serial, serial_due_at and overlap all or none';
end $$;

comment on function ledger.pending_valid is
  'Whether a pending row is whole: its state waits, and it has all that makes it serial, or nothing of it. Raises 23514.';
