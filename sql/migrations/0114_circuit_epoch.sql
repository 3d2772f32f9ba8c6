-- A circuit is judged by calls that began after it last changed. Which those are, the numbers of the runs say: they are
-- drawn when a run begins, and stand still where a clock is set back.
alter table ledger.flow add column circuit_run_no bigint;

-- The lowest number of the runs that were counted together; what was counted without one judges nothing.
alter table ledger.flow_outcome add column run_no bigint not null default 0;
