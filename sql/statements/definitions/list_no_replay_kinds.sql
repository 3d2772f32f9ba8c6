-- List the kinds of which no item may be worked twice.
-- returns: zero or more
-- roles: reconciler
-- index: none
-- locks: none
select k.tenant, k.name as kind
from ledger.kind k
where k.no_replay
