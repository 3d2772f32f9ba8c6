-- Where a flow's first waiting row stands can be remembered, and looked for from there on. Rows taken while somebody
-- holds a snapshot stay in the index, and a look from the flow's beginning would pass them all: a million due at
-- one instant too, so a thousand numbers share a place, in a key that is still as short as it was.
-- Nothing is released yet, so no ledger with data waits for these locks.
-- squawk-ignore-file require-concurrent-index-creation, require-concurrent-index-deletion

drop index ledger.pending_available_idx;
create index pending_available_idx on ledger.pending (flow_no, available_at, (item_no >> 10))
  where state = 1 /* Scheduled */ and serial is null;
