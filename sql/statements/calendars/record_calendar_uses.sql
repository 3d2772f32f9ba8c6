-- Record the calendar with which each definition is expanded from an instant on; existing rows do not change.
-- returns: zero
-- roles: materialiser
-- $1 definition_nos bigint[]
-- $2 from_ats timestamptz[]
-- $3 calendar_nos bigint[]
-- $4 actor_no bigint
-- index: calendar_use_pkey
-- locks: none (the caller holds the definitions' watermarks)
insert into ledger.calendar_use (definition_no, from_at, calendar_no, recorded_at, actor_no)
select used.definition_no, used.from_at, used.calendar_no, ledger.now(), $4::bigint
from unnest($1::bigint[], $2::timestamptz[], $3::bigint[]) used (definition_no, from_at, calendar_no)
on conflict (definition_no, from_at) do nothing
