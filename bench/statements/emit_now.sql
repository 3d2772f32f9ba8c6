-- Emit one item that is due now, as a service does in SQL.
-- returns: one
-- roles: owner
-- $1 tenant text
-- $2 kind text
-- $3 business_key text
-- $4 effective_date date
-- $5 payload json
-- index: none
-- locks: none
select e.created
from ledger.emit($1::text, $2::text, $3::text, $4::date, ledger.now(), $5::json, '2027') e
