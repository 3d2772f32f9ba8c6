-- Emit one item as a service does; returns whether it is new.
-- returns: one
-- roles: owner
-- $1 tenant text
-- $2 kind text
-- $3 business_key text
-- $4 effective_date date
-- $5 due_at timestamptz
-- $6 payload text
-- index: none
-- locks: none
select created::integer
from ledger.emit($1::text, $2::text, $3::text, $4::date, $5::timestamptz, $6::text::json)
