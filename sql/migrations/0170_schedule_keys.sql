-- A schedule's business key names its rounds: who defines one looks for others of its kind that have the same.
-- Nothing is released yet, so no ledger with data waits for these locks.
-- squawk-ignore-file require-concurrent-index-creation

create index definition_schedule_key_idx on ledger.definition (kind, tenant, (document ->> 'business_key'))
  where event_type is null;
