-- Retries of serial items are found apart from first attempts, as plain ones are, or those that wait longest hide the others.
-- Nothing is released yet, so no ledger with data waits for these locks.
-- squawk-ignore-file require-concurrent-index-creation, require-concurrent-index-deletion

drop index ledger.pending_serial_idx;
create index pending_serial_idx on ledger.pending (flow_no, state, available_at) where serial is not null;
