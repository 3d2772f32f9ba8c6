-- Lock names of topics until the transaction ends, so that one transaction at a time decides which kinds share them.
-- returns: zero or more
-- roles: operator
-- $1 topics text[]
-- index: none
-- locks: lock_row, one a topic
select ledger.lock_name('topic', t.topic)
from unnest($1::text[]) t (topic)
