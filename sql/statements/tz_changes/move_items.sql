-- Move or end pending items that were never handed out (Scheduled), by a newer tz database.
-- returns: zero or more, one an input that moved or ended
-- roles: operator
-- $1 definition_no bigint
-- $2 ids uuid[]
-- $3 due_ats timestamptz[]
-- $4 decisions text[]
-- $5 skip_reasons text[]
-- $6 tzdata text
-- $7 actor_no bigint
-- $8 change_no bigint
-- index: none
-- locks: pending rows (for update, item_no ascending)
select ord
from ledger.move_items($1::bigint, $2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text, $7::bigint,
  $8::bigint)
