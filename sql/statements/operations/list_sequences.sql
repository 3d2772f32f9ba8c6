-- List each sequence with the part of its stripe that it has given, and how far it is ahead of the clock that it follows.
-- returns: zero or more
-- roles: auditor, operator
-- index: none
-- locks: none
select s.name, s.used, s.seconds_ahead from ledger.list_sequences() s
