-- Read what changes whenever another set of event rules comes into force: how many have, and the newest of all.
-- returns: one
-- index: none
-- locks: none
select count(*) filter (where d.effective_from <= ledger.now()) as in_force, max(d.definition_no) as newest
from ledger.definition d
where d.event_type is not null
