-- Read from when on the overview has read what ended (null: all), and whether more items are in flight than it counts, and up to when minutes are counted.
-- returns: zero or one
-- roles: auditor
-- index: none
-- locks: none
select nullif(r.read_from, '-infinity') as read_from, r.is_cut, ledger.overview_begin() as begins, r.minutes_from, r.minutes_to
from ledger.overview_reader r
