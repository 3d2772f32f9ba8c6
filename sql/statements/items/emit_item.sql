-- Emit one item in the caller's transaction; an existing key changes nothing.
-- returns: one
-- roles: emitter
-- $1 tenant text
-- $2 kind text
-- $3 business_key text
-- $4 effective_date date
-- $5 due_at timestamptz
-- $6 payload text
-- $7 cycle text
-- $8 lane text
-- $9 partition_key text
-- $10 labels text
-- $11 traceparent text
-- index: none
-- locks: none
select (e.item).id, (e.item).created
from (
  -- A function in the list of columns is called, one after `from` fills a table first; with `offset 0` it is called once.
  select ledger.emit(
    cast($1 as text), cast($2 as text), cast($3 as text), cast($4 as date), cast($5 as timestamptz), cast($6 as text)::json,
    cast($7 as text), cast($8 as text), cast($9 as text), cast($10 as text)::jsonb, cast($11 as text)) as item
  offset 0
) e
