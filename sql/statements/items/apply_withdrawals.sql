-- Apply withdrawal requests whose item is pending again or was parked, and delete those whose item has ended.
-- returns: one
-- roles: upkeep
-- $1 limit integer
-- index: withdrawal_pkey, pending_pkey, review_pkey, transition_terminal_idx
-- locks: withdrawal, pending and review rows (for update, skip locked)
with locked_default as (select from ledger.due_item_default),
asked as materialized (
  select w.* from ledger.withdrawal w
  where exists (select from ledger.pending p where p.item_no = w.item_no)
    or exists (select from ledger.review r where r.item_no = w.item_no)
    or exists (
      select from ledger.transition t
      where t.item_no = w.item_no and t.effective_date = w.effective_date
        and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */))
  order by w.item_no limit $1::integer for update skip locked
),
finished as materialized (
  select a.item_no, a.actor_no, a.event
  from asked a
  join ledger.transition t on t.item_no = a.item_no and t.effective_date = a.effective_date
    and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
),
locked_pending as materialized (
  select p.item_no from asked a join ledger.pending p on p.item_no = a.item_no for update of p skip locked
),
locked_review as materialized (
  select r.item_no from asked a join ledger.review r on r.item_no = a.item_no for update of r skip locked
),
waiting as (
  delete from ledger.pending p using locked_pending l
  where p.item_no = l.item_no and p.state in (1 /* Scheduled */, 4 /* RetryableFailure */)
  returning p.item_no, p.attempt
),
parked as (
  delete from ledger.review r using locked_review l where r.item_no = l.item_no
  returning r.item_no, r.attempt
),
ended as materialized (
  select item_no, attempt from waiting union all select item_no, attempt from parked
),
journal as (
  insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at, detail)
  select a.effective_date, a.item_no, a.event, e.attempt, a.actor_no, ledger.now(),
    jsonb_strip_nulls(jsonb_build_object('reason', a.reason, 'replacement', a.replacement))
  from ended e join asked a on a.item_no = e.item_no
),
too_late as (
  insert into ledger.rejected_write (rejected_at, actor_no, verb, reason, item_no)
  select ledger.now(), f.actor_no, 'withdraw', 'finished', f.item_no from finished f
),
settled as (
  delete from ledger.withdrawal w
  using (select item_no from ended union all select item_no from finished) s
  where w.item_no = s.item_no
)
select count(*)::integer as applied from ended
