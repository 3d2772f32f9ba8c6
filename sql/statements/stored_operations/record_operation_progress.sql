-- Record how far an open operation has got, from where it was; it ends where no item is left.
-- returns: zero or one
-- roles: upkeep
-- $1 operation_no bigint
-- $2 from_item_no bigint
-- $3 reached_item_no bigint
-- $4 done bigint
-- $5 requested bigint
-- $6 step_seconds double precision
-- index: operation_open_idx
-- locks: operation row (for update)
update ledger.operation o
set reached_item_no = coalesce($3::bigint, o.item_no_max), done = o.done + $4::bigint, requested = o.requested + $5::bigint,
  advanced_at = ledger.now(), ended_at = case when $3::bigint is null then ledger.now() end,
  -- Upkeep steps many times a minute: a longer gap is one in which no process carried operations out.
  worked_seconds = o.worked_seconds + greatest($6::double precision,
    extract(epoch from least(ledger.machine_now() - coalesce(o.stepped_at, ledger.machine_now()), interval '1 minute'))
      ::double precision),
  stepped_at = ledger.machine_now()
where o.operation_no = $1::bigint and o.ended_at is null and o.paused_at is null and o.reached_item_no = $2::bigint
returning o.operation_no, o.verb, o.matched, o.matched_capped, o.done, o.requested, o.ended_at is not null as is_ended
