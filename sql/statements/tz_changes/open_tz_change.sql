-- Open a tz change whose steps the transaction has recorded.
-- returns: one
-- roles: operator
-- $1 change_no bigint
-- $2 digest text
-- $3 tzdata text
-- $4 tzdata_before text[]
-- $5 from_at timestamptz
-- $6 actor_no bigint
-- index: none
-- locks: none (the caller has locked the changes)
insert into ledger.tz_change as c (change_no, digest, tzdata, tzdata_before, from_at, opened_at, actor_no)
values ($1::bigint, $2::text, $3::text, $4::text[], $5::timestamptz, ledger.now(), $6::bigint)
returning c.change_no
