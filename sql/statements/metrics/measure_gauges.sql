-- Measure the metrics of the whole ledger.
-- returns: zero or more
-- roles: alerter, upkeep
-- index: none
-- locks: none
select g.metric, g.labels, g.value from ledger.measure_gauges() g
