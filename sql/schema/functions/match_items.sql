create type ledger.item_filter as (
  verb text,
  tenant text,
  kind text,
  lane text,
  parked_reason text,
  error text,
  since timestamptz,
  in_flight boolean,
  as_of timestamptz,
  item_no_max bigint,
  snapshot pg_snapshot,
  state smallint,
  due_from timestamptz,
  due_before timestamptz,
  until timestamptz
);

comment on type ledger.item_filter is 'Which items a verb is applied to, with the bounds of ledger.operation. Null: all.';

create type ledger.matched_item as (
  item_no bigint,
  id uuid,
  tenant text,
  kind text,
  lane text,
  business_key text,
  state smallint,
  entered_at timestamptz
);

comment on type ledger.matched_item is 'An item that a filter matches, with the time at which it came into its state.';

create function ledger.examine_items(wanted ledger.item_filter, after_item_no bigint, examined_max integer) returns table (
  item_no bigint, effective_date date, flow_no integer, state smallint, available_at timestamptz, entered_at timestamptz,
  parked_reason text
)
  language sql stable rows 1000 set search_path = pg_catalog, pg_temp
as $$
  select u.*
  from (
    (
      select p.item_no, p.effective_date, p.flow_no, p.state, p.available_at, null::timestamptz as entered_at,
        null::text as parked_reason
      from ledger.pending p
      where p.item_no > after_item_no and p.item_no <= wanted.item_no_max
        and exists (
          select from ledger.operation_state v
          where v.verb = wanted.verb and v.state in (1 /* Scheduled */, 4 /* RetryableFailure */)
            and (wanted.state is null or v.state = wanted.state))
      order by p.item_no limit examined_max
    )
    union all
    (
      select r.item_no, r.effective_date, r.flow_no, 5::smallint /* ManualReview */, null, r.parked_at, r.reason
      from ledger.review r
      where r.item_no > after_item_no and r.item_no <= wanted.item_no_max
        and exists (
          select from ledger.operation_state v
          where v.verb = wanted.verb and v.state = 5 /* ManualReview */ and (wanted.state is null or wanted.state = 5 /* ManualReview */))
      order by r.item_no limit examined_max
    )
    union all
    (
      select c.item_no, c.effective_date, (
          select i.flow_no from ledger.due_item i where i.effective_date = c.effective_date and i.item_no = c.item_no),
        c.state, null, coalesce(c.started_at, c.claimed_at), null
      from (
        select o.* from ledger.open_item o
        where wanted.in_flight and o.item_no > after_item_no and o.item_no <= wanted.item_no_max
        order by o.item_no limit examined_max
      ) c
    )
  ) u (item_no, effective_date, flow_no, state, available_at, entered_at, parked_reason)
  order by u.item_no limit examined_max
$$;

comment on function ledger.examine_items is
  'The next open items by number that may be in a state to which the verb is applied, at most examined_max. The time at '
  'which a pending item came into its state is in the journal.';

create function ledger.examine_flow_items(wanted ledger.item_filter, examined_max integer) returns table (
  item_no bigint, effective_date date, flow_no integer, state smallint, available_at timestamptz, entered_at timestamptz,
  parked_reason text
)
  language sql stable rows 1000 set search_path = pg_catalog, pg_temp
as $$
  with scope as materialized (
    select f.flow_no
    from ledger.flow f
    where (wanted.tenant is null or f.tenant = wanted.tenant) and (wanted.kind is null or f.kind = wanted.kind)
      and (wanted.lane is null or f.lane = wanted.lane)
  ),
  moved as materialized (
    select coalesce(bool_or(v.state = 1 /* Scheduled */), false) as scheduled,
      coalesce(bool_or(v.state = 4 /* RetryableFailure */), false) as failed,
      coalesce(bool_or(v.state = 5 /* ManualReview */), false) as parked,
      -- What was not expedited is available when it is due, or later.
      greatest(case when wanted.verb = 'trigger' then ledger.now() end, wanted.due_from, '-infinity') as after_at
    from ledger.operation_state v where v.verb = wanted.verb and (wanted.state is null or v.state = wanted.state)
  )
  select u.*
  from (
    -- The limit below ends all of it, so that no flow is read after enough items are found.
    select x.item_no, x.effective_date, s.flow_no, x.state, x.available_at, x.entered_at, x.parked_reason
    from scope s
    cross join lateral (
      (select p.item_no, p.effective_date, p.state, p.available_at, null::timestamptz as entered_at, null::text as parked_reason
       from ledger.pending p
       where (select m.scheduled from moved m) and p.flow_no = s.flow_no and p.state = 1 /* Scheduled */ and p.serial is null
        and p.available_at >= (select m.after_at from moved m)
       order by p.available_at limit examined_max)
      union all
      (select p.item_no, p.effective_date, p.state, p.available_at, null, null
       from ledger.pending p
       where (select m.failed from moved m) and p.flow_no = s.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null
        and p.available_at >= (select m.after_at from moved m)
       order by p.available_at limit examined_max)
      union all
      (select p.item_no, p.effective_date, p.state, p.available_at, null, null
       from ledger.pending p
       where (select m.scheduled from moved m) and p.flow_no = s.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null
        and p.available_at >= (select m.after_at from moved m)
       order by p.state, p.available_at limit examined_max)
      union all
      (select p.item_no, p.effective_date, p.state, p.available_at, null, null
       from ledger.pending p
       where (select m.failed from moved m) and p.flow_no = s.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is not null
        and p.available_at >= (select m.after_at from moved m)
       order by p.state, p.available_at limit examined_max)
      union all
      (select r.item_no, r.effective_date, 5::smallint /* ManualReview */, null, r.parked_at, r.reason
       from ledger.review r
       where (select m.parked from moved m) and r.flow_no = s.flow_no and r.parked_at >= coalesce(wanted.since, '-infinity')
       order by r.parked_at, r.item_no limit examined_max)
      union all
      -- What was expedited is available before it is due. What has ended has no state, and is examined all the same.
      (select x.item_no, x.effective_date, p.state, p.available_at, null, null
       from (
         select x.item_no, x.effective_date from ledger.expedited x
         where wanted.due_from is not null and x.flow_no = s.flow_no and x.due_at >= wanted.due_from
         order by x.due_at, x.item_no limit examined_max
       ) x
       left join lateral (
         select p.state, p.available_at from ledger.pending p
         where p.item_no = x.item_no
           and case p.state when 1 /* Scheduled */ then (select m.scheduled from moved m) else (select m.failed from moved m) end
         offset 0
       ) p on true
       where p.available_at < wanted.due_from or p.available_at is null)
    ) x
    union all
    select c.item_no, c.effective_date, i.flow_no, c.state, null, c.entered_at, null
    from ledger.list_in_flight(case when wanted.in_flight then array(select s.flow_no from scope s) end) c
    cross join lateral (
      select i.flow_no from ledger.due_item i where i.effective_date = c.effective_date and i.item_no = c.item_no offset 0
    ) i
    where wanted.in_flight and (i.flow_no in (select s.flow_no from scope s)) is true
  ) u
  limit examined_max
$$;

comment on function ledger.examine_flow_items is
  'Open items of the flows of a filter that may be in a state to which the verb is applied, at most examined_max, in no order. '
  'What others have is not read, but for items that were handed out together with these.';

create function ledger.was_committed(wanted ledger.item_filter, written_by xid, at timestamptz) returns boolean
  language plpgsql immutable set search_path = pg_catalog, pg_temp
as $$
declare
  next bigint;
begin
  -- Rows that are moved to a partition of their own are written again; nobody emits for an hour in one transaction.
  if wanted.snapshot is null or at < wanted.as_of - interval '1 hour' then
    return true;
  end if;
  -- Of the number of a transaction, a row has the last 32 bits.
  next := pg_snapshot_xmax(wanted.snapshot)::text::bigint;
  return pg_visible_in_snapshot(
    (next + ((written_by::text::bigint - next + 2147483648) & 4294967295) - 2147483648)::text::xid8, wanted.snapshot);
end $$;

comment on function ledger.was_committed is
  'Whether a row that was written at a time, by a transaction, was committed when the items of a filter were asked for.';

create function ledger.match_items(
  wanted ledger.item_filter, after_item_no bigint, examined_max integer, matched_max integer,
  out items ledger.matched_item[], out reached_item_no bigint
)
  language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
  examined bigint;
begin
  -- Only items of the flows are looked up, in order of number, one by one until there are enough.
  select array_agg(row(
      m.item_no, m.id, m.tenant, m.kind, m.lane, m.business_key, m.state, m.entered_at)::ledger.matched_item order by m.item_no),
    max(m.item_no)
  into items, reached_item_no
  from (
    select e.item_no, i.id, e.tenant, e.kind, e.lane, i.business_key, e.state, n.entered_at
    from (
      select x.item_no, x.effective_date, x.state, x.entered_at, f.tenant, f.kind, f.lane
      from (
        select e.* from ledger.examine_items(wanted, after_item_no, examined_max) e where after_item_no is not null
        union all
        select e.* from ledger.examine_flow_items(wanted, examined_max) e where after_item_no is null
      ) x
      join ledger.flow f on f.flow_no = x.flow_no
      where exists (select from ledger.operation_state v where v.verb = wanted.verb and v.state = x.state)
        and (wanted.state is null or x.state = wanted.state)
        and (wanted.tenant is null or f.tenant = wanted.tenant)
        and (wanted.kind is null or f.kind = wanted.kind)
        and (wanted.lane is null or f.lane = wanted.lane)
        and (wanted.parked_reason is null or x.parked_reason = wanted.parked_reason)
        and (wanted.verb <> 'trigger' or (x.available_at > ledger.now() and x.available_at < 'infinity'))
        and (wanted.verb <> 'snooze' or (x.available_at < coalesce(wanted.until, 'infinity') and (wanted.until > ledger.now()) is not false))
      order by x.item_no
      offset 0
    ) e
    cross join lateral (
      select i.id, i.business_key, i.emitted_at,
        wanted.snapshot is null or ledger.was_committed(wanted, i.xmin, i.emitted_at) as is_committed
      from ledger.due_item i
      where i.effective_date = e.effective_date and i.item_no = e.item_no
        and (wanted.due_from is null or i.due_at >= wanted.due_from)
        and (wanted.due_before is null or i.due_at < wanted.due_before)
      offset 0
    ) i
    cross join lateral (
      select max(t.at) as last_at, bool_and(wanted.snapshot is null or ledger.was_committed(wanted, t.xmin, t.at)) as is_committed
      from ledger.transition t
      where t.item_no = e.item_no and t.effective_date = e.effective_date
        and t.event not in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
    ) j
    cross join lateral (select coalesce(e.entered_at, j.last_at, i.emitted_at) as entered_at) n
    where (wanted.error is null or wanted.error = (
        select t.detail ->> 'error'
        from ledger.transition t
        where t.item_no = e.item_no and t.effective_date = e.effective_date and t.detail ? 'error'
          and t.event not in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
        order by t.at desc limit 1))
      and (wanted.since is null or n.entered_at >= wanted.since)
      -- Where items in flight are meant, each that was open then is, whatever it went through since.
      and case when wanted.in_flight then i.emitted_at <= wanted.as_of and (i.is_committed or j.last_at is not null)
        else n.entered_at <= wanted.as_of and coalesce(j.is_committed, i.is_committed) end
    order by e.item_no limit matched_max
  ) m;
  items := coalesce(items, '{}');
  if cardinality(items) < matched_max then
    select count(*), max(e.item_no) into examined, reached_item_no
    from (
      select e.item_no from ledger.examine_items(wanted, after_item_no, examined_max) e where after_item_no is not null
      union all
      select e.item_no from ledger.examine_flow_items(wanted, examined_max) e where after_item_no is null
    ) e;
    if examined < examined_max then
      reached_item_no := null;
    end if;
  end if;
end $$;

comment on function ledger.match_items is
  'The next items by number that a filter matches: at most matched_max, among at most examined_max open ones. '
  'reached_item_no: number up to which items were examined; null where no open item is left. Without after_item_no, items are '
  'examined by the flows of the filter, in no order: that counts, and names no place from which to go on.';

create function ledger.approval_above(wanted ledger.item_filter, items ledger.matched_item[], is_capped boolean) returns integer
  language sql stable set search_path = pg_catalog, pg_temp
as $$
  select min(k.operation_approval_above)
  from ledger.kind k
  where k.operation_approval_above is not null and (
    -- Those that were not counted may be of any kind that the filter reaches.
    is_capped and (wanted.tenant is null or k.tenant = wanted.tenant) and (wanted.kind is null or k.name = wanted.kind)
    or exists (select from unnest(items) m where m.tenant = k.tenant and m.kind = k.name))
$$;

comment on function ledger.approval_above is
  'Above how many items an operation waits for a second person, by the policies of the kinds of its items; null: never. '
  'One that matches more than were counted (is_capped) waits if there is such a policy.';
