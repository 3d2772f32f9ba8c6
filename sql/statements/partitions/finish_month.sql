-- Finish one month of claims or runs that is over and has no open row, in two calls; false where there is none.
-- returns: one
-- roles: upkeep
-- index: none
-- locks: partition_span row (for update, skip locked); one month of claims or runs (access exclusive, 100 ms at most, or share update exclusive)
select ledger.finish_month() as is_finished
