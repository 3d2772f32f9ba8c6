-- List every kind with its topic, and whether no item of it may be worked twice.
-- returns: zero or more
-- roles: reconciler
-- index: none
-- locks: none
select k.tenant, k.name as kind, k.topic, k.no_replay
from ledger.kind k
