create view ledger.depth as select * from ledger.measure_depth();

comment on view ledger.depth is
  'How much is due, waits, is in flight and is parked, of each flow. A count equal to count_max means that many or more.';
comment on column ledger.depth.count_max is 'The most that due, waiting, blocked, retrying and parked count.';
comment on column ledger.depth.due is 'Items that may be claimed now, retries included.';
comment on column ledger.depth.available_since is 'Since when the first of the due items may be claimed.';
comment on column ledger.depth.waiting is 'Items that may be claimed later, retries included.';
comment on column ledger.depth.blocked is 'Items that wait for another one of their key.';
comment on column ledger.depth.retrying is 'Those of the due and the waiting items whose last attempt failed.';
comment on column ledger.depth.claimed is
  'Items that are handed out and not started; null while more are in flight than are counted.';
comment on column ledger.depth.running is
  'Items that a worker or a consumer has started; null while more are in flight than are counted.';
comment on column ledger.depth.parked is 'Items that wait for a person.';
