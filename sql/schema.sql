-- What the migrations make, as pg_dump prints it; monthly partitions left out.
-- Written by `make schema`, and compared by `make check`.


CREATE SCHEMA ledger;

CREATE TYPE ledger.emission AS (
	id uuid,
	created boolean
);

COMMENT ON TYPE ledger.emission IS 'An emitted item, and whether it is new.';

CREATE TYPE ledger.item_filter AS (
	verb text,
	tenant text,
	kind text,
	lane text,
	parked_reason text,
	error text,
	since timestamp with time zone,
	in_flight boolean,
	as_of timestamp with time zone,
	item_no_max bigint,
	snapshot pg_snapshot,
	state smallint,
	due_from timestamp with time zone,
	due_before timestamp with time zone,
	until timestamp with time zone
);

COMMENT ON TYPE ledger.item_filter IS 'Which items a verb is applied to, with the bounds of ledger.operation. Null: all.';

CREATE TYPE ledger.item_group AS (
	effective_date date,
	item_nos bigint[],
	attempt smallint,
	starts smallint,
	batch_max smallint
);

COMMENT ON TYPE ledger.item_group IS 'Items with the same date, attempt, starts and batch_max.';

CREATE TYPE ledger.item_outcome AS (
	item_no bigint,
	effective_date date,
	run_no bigint,
	event smallint,
	attempt smallint,
	starts smallint,
	blamed boolean,
	overran boolean,
	after_seconds double precision,
	batch_max smallint,
	reason text,
	detail jsonb
);

COMMENT ON TYPE ledger.item_outcome IS 'How an item of a run ended, where it is not done: released, failed, timed_out, snoozed or parked. blamed: an attempt is counted, and a failure of its business key; null where the recorded event decides. after_seconds: null for the kind''s backoff, or for no wait.';

CREATE TYPE ledger.matched_item AS (
	item_no bigint,
	id uuid,
	tenant text,
	kind text,
	lane text,
	business_key text,
	state smallint,
	entered_at timestamp with time zone
);

COMMENT ON TYPE ledger.matched_item IS 'An item that a filter matches, with the time at which it came into its state.';

CREATE FUNCTION ledger.accept_disagreements(ids uuid[], tenants text[], kinds text[], subjects text[], sentences text[], expecteds text[], actuals text[], reason text, actor bigint) RETURNS SETOF uuid
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  insert into ledger.finding as f (
    id, type, severity, tenant, kind, subject, sentence, expected, actual, resolution, reason, resolved_by, first_seen_at,
    last_seen_at, closed_at)
  select u.id, 'DISAGREES', 'error', u.tenant, u.kind, u.subject, u.sentence, u.expected::jsonb, u.actual::jsonb,
    'accepted', accept_disagreements.reason, actor, ledger.now(), ledger.now(), ledger.now()
  from unnest(ids, tenants, kinds, subjects, sentences, expecteds, actuals)
    u (id, tenant, kind, subject, sentence, expected, actual)
  order by u.id
  on conflict (id) do update set
    last_seen_at = excluded.last_seen_at, sentence = excluded.sentence, expected = excluded.expected,
    actual = excluded.actual, resolution = excluded.resolution, reason = excluded.reason,
    resolved_by = excluded.resolved_by, closed_at = excluded.closed_at, taken_by = null, taken_at = null
  returning f.id;
$$;

COMMENT ON FUNCTION ledger.accept_disagreements(ids uuid[], tenants text[], kinds text[], subjects text[], sentences text[], expecteds text[], actuals text[], reason text, actor bigint) IS 'Record that a person defines schedules although a library expands them otherwise, and why: findings DISAGREES that are accepted from the beginning.';

CREATE FUNCTION ledger.accounting(from_date date DEFAULT '-infinity'::date, to_date date DEFAULT 'infinity'::date) RETURNS TABLE(tenant text, kind text, items bigint, pending bigint, handed_out bigint, running bigint, reviews bigint, completed bigint, cancelled bigint, superseded bigint, skipped bigint, written_off bigint)
    LANGUAGE sql STABLE
    SET enable_hashjoin TO 'on'
    SET enable_nestloop TO 'off'
    AS $$
  with locked_default as (select from ledger.due_item_default),
  item_counts as (
    select i.flow_no,
      count(*) as items,
      count(*) filter (where t.event = 5 /* completed */) as completed,
      count(*) filter (where t.event = 11 /* cancelled */) as cancelled,
      count(*) filter (where t.event = 12 /* superseded */) as superseded,
      count(*) filter (where t.event = 13 /* skipped */) as skipped,
      count(*) filter (where t.event = 14 /* written_off */) as written_off
    from ledger.due_item i
    left join ledger.transition t
      on t.effective_date = i.effective_date and t.item_no = i.item_no
      and t.effective_date >= from_date and t.effective_date < to_date
      and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
    where i.effective_date >= from_date and i.effective_date < to_date
    group by i.flow_no
  ),
  waiting as (
    select p.flow_no, count(*) as pending from ledger.pending p
    where p.effective_date >= from_date and p.effective_date < to_date
    group by p.flow_no
  ),
  parked as (
    select r.flow_no, count(*) as reviews from ledger.review r
    where r.effective_date >= from_date and r.effective_date < to_date
    group by r.flow_no
  ),
  open_counts as (
    select i.flow_no,
      count(*) filter (where o.state = 2 /* Claimed */) as handed_out,
      count(*) filter (where o.state = 3 /* Running */) as running
    from ledger.open_item o
    join ledger.due_item i on i.effective_date = o.effective_date and i.item_no = o.item_no
    where o.effective_date >= from_date and o.effective_date < to_date
      and i.effective_date >= from_date and i.effective_date < to_date
    group by i.flow_no
  )
  select f.tenant, f.kind,
    coalesce(sum(c.items), 0)::bigint,
    coalesce(sum(w.pending), 0)::bigint,
    coalesce(sum(h.handed_out), 0)::bigint,
    coalesce(sum(h.running), 0)::bigint,
    coalesce(sum(p.reviews), 0)::bigint,
    coalesce(sum(c.completed), 0)::bigint,
    coalesce(sum(c.cancelled), 0)::bigint,
    coalesce(sum(c.superseded), 0)::bigint,
    coalesce(sum(c.skipped), 0)::bigint,
    coalesce(sum(c.written_off), 0)::bigint
  from ledger.flow f
  left join item_counts c on c.flow_no = f.flow_no
  left join waiting w on w.flow_no = f.flow_no
  left join parked p on p.flow_no = f.flow_no
  left join open_counts h on h.flow_no = f.flow_no
  group by f.tenant, f.kind
$$;

COMMENT ON FUNCTION ledger.accounting(from_date date, to_date date) IS 'The accounting identity of each kind, of a half-open range of effective dates: items = pending + handed out + running + reviews + terminal.';

CREATE FUNCTION ledger.add_overview_flows(flows_max integer) RETURNS integer
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
  with added as (
    insert into ledger.overview_flow (flow_no)
    -- The order of numbers is not that of commits.
    select f.flow_no from ledger.flow f
    where f.flow_no > (select coalesce(max(o.flow_no), 0) - 1000 from ledger.overview_flow o)
    order by f.flow_no limit flows_max + 1000
    on conflict (flow_no) do nothing
    returning flow_no
  )
  select count(*)::integer from added
$$;

COMMENT ON FUNCTION ledger.add_overview_flows(flows_max integer) IS 'Let the overview count flows that are new. Returns how many.';

CREATE FUNCTION ledger.add_overview_runs(run_nos bigint[], first_started_at timestamp with time zone, last_started_at timestamp with time zone) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
  with locked_default as (select from ledger.due_item_default)
  insert into ledger.overview as o (flow_no, quarter, completed, completed_late)
  select i.flow_no, date_bin('15 minutes', i.due_at, '2000-01-01T00:00:00Z'), count(*)::integer,
    (count(*) filter (where t.at > coalesce(i.complete_by, i.due_at + make_interval(secs => k.grace_seconds))))::integer
  from ledger.run r
  cross join lateral (
    select c.item_no[r.from_position:r.to_position] as item_nos, c.effective_date[r.from_position:r.to_position] as dates
    from ledger.claim c where c.fence = r.fence and c.claimed_at = r.claimed_at
  ) c
  cross join lateral unnest(c.item_nos, c.dates) u (item_no, effective_date)
  cross join lateral (  -- `offset 0`: each is found by its key, however few rows the plan was made for
    select i.flow_no, i.due_at, i.complete_by from ledger.due_item i
    where i.effective_date = u.effective_date and i.item_no = u.item_no offset 0
  ) i
  cross join lateral (
    select t.at from ledger.transition t
    where t.item_no = u.item_no and t.effective_date = u.effective_date and t.event = 5 /* completed */ and t.run_no = r.run_no offset 0
  ) t
  cross join lateral (
    select k.grace_seconds from ledger.flow f join ledger.kind k on k.kind_no = f.kind_no where f.flow_no = i.flow_no offset 0
  ) k
  where r.run_no = any (run_nos) and r.started_at between first_started_at and last_started_at
    and i.due_at >= ledger.overview_begin()
  group by 1, 2
  order by 1, 2
  on conflict (flow_no, quarter) do update
  set completed = o.completed + excluded.completed, completed_late = o.completed_late + excluded.completed_late
$$;

COMMENT ON FUNCTION ledger.add_overview_runs(run_nos bigint[], first_started_at timestamp with time zone, last_started_at timestamp with time zone) IS 'Add what these runs completed to the overview. Each run is added once.';

CREATE FUNCTION ledger.add_past_load() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  sign constant integer := tg_argv[0];
begin
  insert into ledger.past_sum (tenant, kind, minutes, begins, items, completed, completed_late, in_review, withdrawn, written_off, had_failures)
  select c.tenant, c.kind, m.minutes, date_bin(make_interval(mins => m.minutes), c.quarter, '2000-01-01T00:00:00Z') as begins,
    sign * sum(c.items), sign * sum(c.completed), sign * sum(c.completed_late), sign * sum(c.in_review), sign * sum(c.withdrawn),
    sign * sum(c.written_off), sign * sum(c.had_failures)
  from changed c
  cross join (values (15), (60), (360), (1440)) m (minutes)
  group by 1, 2, 3, 4
  order by 1, 2, 3, 4
  on conflict (tenant, kind, minutes, begins) do update
  set items = past_sum.items + excluded.items, completed = past_sum.completed + excluded.completed,
    completed_late = past_sum.completed_late + excluded.completed_late, in_review = past_sum.in_review + excluded.in_review,
    withdrawn = past_sum.withdrawn + excluded.withdrawn, written_off = past_sum.written_off + excluded.written_off,
    had_failures = past_sum.had_failures + excluded.had_failures;
  if sign < 0 then
    delete from ledger.past_sum s where s.items = 0;
  end if;
  return null;
end $$;

COMMENT ON FUNCTION ledger.add_past_load() IS 'Add rows of past_load to past_sum, or subtract them, as the argument of the trigger says.';

CREATE FUNCTION ledger.simulated_time(setting text) RETURNS timestamp with time zone
    LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
    AS $$
begin
  if not pg_has_role(session_user, 'ledger_simulator', 'usage') then
    raise exception using
      errcode = 'DL001',
      message = 'a simulated clock is set, and ' || session_user || ' may not use one',
      hint = 'unset ledger.clock and ledger.machine_clock, or grant ledger_simulator (never in production)';
  end if;
  return split_part(setting, '|', 1)::timestamptz
    + (statement_timestamp() - split_part(setting, '|', 2)::timestamptz)
      * split_part(setting, '|', 3)::double precision;
end $$;

COMMENT ON FUNCTION ledger.simulated_time(setting text) IS 'The instant of a simulated clock: ''origin|anchor|rate'' means origin + (real time - anchor) * rate. Only for members of ledger_simulator.';

CREATE FUNCTION ledger.now() RETURNS timestamp with time zone
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE WHEN (COALESCE(current_setting('ledger.clock'::text, true), ''::text) = ''::text) THEN statement_timestamp() ELSE ledger.simulated_time(current_setting('ledger.clock'::text, true)) END;

COMMENT ON FUNCTION ledger.now() IS 'The business clock: what is due, available and effective.';

CREATE SEQUENCE ledger.sleep_until
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    MAXVALUE 8589934591
    CACHE 1;

COMMENT ON SEQUENCE ledger.sleep_until IS 'No numbers: seconds of the epoch, of business time, until which a process may sleep. Other sessions read it without a query, and before the transaction that sets it is committed.';

CREATE FUNCTION ledger.announce_sleep(until timestamp with time zone) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    RETURN (setval('ledger.sleep_until'::regclass, LEAST((date_part('epoch'::text, (until + (until - ledger.now()))))::bigint, '8589934591'::bigint)) > 0);

COMMENT ON FUNCTION ledger.announce_sleep(until timestamp with time zone) IS 'Let emissions of items due before then ask who sleeps; true. Before the row of the process is committed.';

CREATE FUNCTION ledger.approval_above(wanted ledger.item_filter, items ledger.matched_item[], is_capped boolean) RETURNS integer
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  select min(k.operation_approval_above)
  from ledger.kind k
  where k.operation_approval_above is not null and (
    -- Those that were not counted may be of any kind that the filter reaches.
    is_capped and (wanted.tenant is null or k.tenant = wanted.tenant) and (wanted.kind is null or k.name = wanted.kind)
    or exists (select from unnest(items) m where m.tenant = k.tenant and m.kind = k.name))
$$;

COMMENT ON FUNCTION ledger.approval_above(wanted ledger.item_filter, items ledger.matched_item[], is_capped boolean) IS 'Above how many items an operation waits for a second person, by the policies of the kinds of its items; null: never. One that matches more than were counted (is_capped) waits if there is such a policy.';

CREATE FUNCTION ledger.assign_cell(wanted integer) RETURNS smallint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
declare
  cell smallint;
  command text;
begin
  insert into ledger.cell (cell_no) select coalesce(wanted, 0) where not exists (select from ledger.cell);
  select c.cell_no into strict cell from ledger.cell c;
  for command in
    select format('alter sequence %s minvalue %s maxvalue %s start %2$s', w.seqrelid::regclass, w.seqmin, w.seqmax)
      || case when w.seqmin > w.seqstart then format(' restart %s', w.seqmin) else '' end
    from (
      select s.seqrelid, s.seqstart, greatest(cell * b.width, 1) as seqmin, (cell + 1) * b.width - 1 as seqmax
      from pg_sequence s
      join pg_class c on c.oid = s.seqrelid and c.relnamespace = 'ledger'::regnamespace and c.relname <> 'sleep_until'
      join (values ('bigint'::regtype, 1::bigint << 43), ('integer', 1::bigint << 21)) b (type, width) on b.type = s.seqtypid
    ) w
    join pg_sequence s on s.seqrelid = w.seqrelid and (s.seqmin, s.seqmax) <> (w.seqmin, w.seqmax)
    order by w.seqrelid
  loop
    execute command;
  end loop;
  return cell;
end $_$;

COMMENT ON FUNCTION ledger.assign_cell(wanted integer) IS 'Make each sequence begin and end within the stripe of the cell. The first call decides the cell; returns it.';

CREATE FUNCTION ledger.available_from(due_at timestamp with time zone, due_before timestamp with time zone, available_at timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN GREATEST(due_at, ledger.now(), CASE WHEN ((available_at > GREATEST(due_before, ledger.now())) AND (available_at < 'infinity'::timestamp with time zone)) THEN available_at ELSE NULL::timestamp with time zone END);

COMMENT ON FUNCTION ledger.available_from(due_at timestamp with time zone, due_before timestamp with time zone, available_at timestamp with time zone) IS 'From when an item may be handed out that is due at another time than before. One that was put off beyond its due time stays so.';

CREATE FUNCTION ledger.calling_role() RETURNS name
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN COALESCE((NULLIF(current_setting('role'::text, true), 'none'::text))::name, SESSION_USER);

COMMENT ON FUNCTION ledger.calling_role() IS 'The role that `set role` chose, else the login: within a function with its owner''s rights, current_user is the owner.';

CREATE FUNCTION ledger.clock_rate() RETURNS double precision
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN GREATEST((COALESCE(NULLIF(split_part(COALESCE(current_setting('ledger.clock'::text, true), ''::text), '|'::text, 3), ''::text), '1'::text))::double precision, (0.000000001)::double precision);

COMMENT ON FUNCTION ledger.clock_rate() IS 'How many business seconds pass in a real one; nearly none while business time stands still.';

CREATE FUNCTION ledger.due_item_valid(effective_date date, due_at timestamp with time zone, business_key text, cycle text, partition_key text, payload json, labels jsonb) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $$
declare
  broken text;
  reason text;
begin
  if effective_date >= date '1970-01-01' and effective_date < date '2200-01-01'
    and due_at >= timestamptz '1970-01-01T00:00:00Z' and due_at < timestamptz '2200-01-01T00:00:00Z'
    and octet_length(payload::text) <= 262144
    and char_length(business_key) between 1 and 512
    and char_length(cycle) <= 200
    and (partition_key is null or char_length(partition_key) between 1 and 512)
    and (labels is null or octet_length(labels::text) <= 8192)
    and strpos(business_key || cycle, chr(31)) = 0
  then
    return true;
  end if;
  select rule.name, rule.reason into broken, reason
  from (values
    ('effective_date_range', 'effective_date lies outside 1970–2199',
      effective_date < date '1970-01-01' or effective_date >= date '2200-01-01'),
    ('due_at_range', 'due_at lies outside 1970–2199',
      due_at < timestamptz '1970-01-01T00:00:00Z' or due_at >= timestamptz '2200-01-01T00:00:00Z'),
    ('payload_bytes_max', 'payload is larger than 256 KiB (262,144 bytes)', octet_length(payload::text) > 262144),
    ('business_key_length', 'business_key must have 1 to 512 characters', char_length(business_key) not between 1 and 512),
    ('cycle_length', 'cycle must have at most 200 characters', char_length(cycle) > 200),
    ('partition_key_length', 'partition_key must have 1 to 512 characters', char_length(partition_key) not between 1 and 512),
    ('labels_bytes_max', 'labels are larger than 8 KiB (8,192 bytes)', octet_length(labels::text) > 8192),
    ('separator_free', 'U+001F is not allowed in business_key or cycle', strpos(business_key || cycle, chr(31)) > 0)
  ) rule (name, reason, breaks)
  where rule.breaks
  limit 1;
  if broken is null then
    return true;  -- a value is missing, which NOT NULL refuses
  end if;
  raise exception using
    errcode = 'check_violation', schema = 'ledger', table = 'due_item', constraint = 'due_item_' || broken, message = reason;
end $$;

COMMENT ON FUNCTION ledger.due_item_valid(effective_date date, due_at timestamp with time zone, business_key text, cycle text, partition_key text, payload json, labels jsonb) IS 'Whether the values of an item are within their bounds; raises 23514 with the name of the rule, as due_item_cycle_length.';

CREATE TABLE ledger.due_item (
    effective_date date NOT NULL,
    flow_no integer NOT NULL,
    item_no bigint NOT NULL,
    id uuid NOT NULL,
    business_key text NOT NULL,
    cycle text NOT NULL,
    due_at timestamp with time zone NOT NULL,
    start_by timestamp with time zone,
    complete_by timestamp with time zone,
    partition_key text,
    payload json NOT NULL,
    labels jsonb,
    definition_no bigint,
    event_no bigint,
    tzdata text,
    nominal text,
    zone text,
    decision text,
    smear_seconds double precision,
    traceparent text,
    emitted_at timestamp with time zone NOT NULL,
    actor_no bigint NOT NULL,
    serial bigint,
    overlap smallint,
    CONSTRAINT due_item_valid CHECK (ledger.due_item_valid(effective_date, due_at, business_key, cycle, partition_key, payload, labels))
)
PARTITION BY RANGE (effective_date);

COMMENT ON TABLE ledger.due_item IS 'What is owed. A row changes only while its item was never handed out, and the journal then has what it was before. Partitioned by month.';

COMMENT ON COLUMN ledger.due_item.effective_date IS 'The business date that the item is for.';

COMMENT ON COLUMN ledger.due_item.item_no IS 'Number of the item within the ledger; other tables name items by it.';

COMMENT ON COLUMN ledger.due_item.id IS 'Public id: a hash of tenant, kind, business key, cycle and effective date (ledger.item_id).';

COMMENT ON COLUMN ledger.due_item.cycle IS 'Name that tells the occurrences of one business key apart.';

COMMENT ON COLUMN ledger.due_item.due_at IS 'When the business owes the item.';

COMMENT ON COLUMN ledger.due_item.start_by IS 'SLA: when it must be started.';

COMMENT ON COLUMN ledger.due_item.complete_by IS 'SLA: when it must be completed.';

COMMENT ON COLUMN ledger.due_item.partition_key IS 'Key of the Kafka record; null: the business key.';

COMMENT ON COLUMN ledger.due_item.definition_no IS 'Version of the definition that owes it; null for an item emitted directly.';

COMMENT ON COLUMN ledger.due_item.event_no IS 'Domain event that implied it.';

COMMENT ON COLUMN ledger.due_item.tzdata IS 'Version of the tz database that placed due_at.';

COMMENT ON COLUMN ledger.due_item.nominal IS 'Local time that the rule names, before gaps, folds, calendars and smear.';

COMMENT ON COLUMN ledger.due_item.zone IS 'Time zone of the nominal time.';

COMMENT ON COLUMN ledger.due_item.decision IS 'Why due_at is not the nominal time: gap, fold or roll.';

COMMENT ON COLUMN ledger.due_item.smear_seconds IS 'Delay by smear, contained in due_at.';

COMMENT ON COLUMN ledger.due_item.traceparent IS 'W3C trace context of the emitter.';

COMMENT ON COLUMN ledger.due_item.serial IS 'For serial items: hash of kind and key (ledger.serial_of). Two keys with one hash only wait for each other.';

COMMENT ON COLUMN ledger.due_item.overlap IS 'For serial items, while another of the key is handed out: 1 wait in order, 2 skip, 3 keep one waiting and skip the rest, 4 cancel the running one.';

CREATE TABLE ledger.transition (
    effective_date date NOT NULL,
    event smallint NOT NULL,
    attempt smallint NOT NULL,
    item_no bigint NOT NULL,
    run_no bigint,
    actor_no bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    detail jsonb
)
PARTITION BY RANGE (effective_date);

COMMENT ON TABLE ledger.transition IS 'The journal: what ended each attempt and each item. Append only. Partitioned as due_item. Emission, claim and start are not repeated here: due_item, claim and run have them.';

COMMENT ON COLUMN ledger.transition.attempt IS 'Number of the attempt, from 1; 0 before the first.';

COMMENT ON COLUMN ledger.transition.detail IS 'Reason, evidence, or what a revised item was before.';

CREATE FUNCTION ledger.completed_since(flow_no integer, business_key text, since timestamp with time zone) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN (EXISTS (SELECT FROM (ledger.due_item i JOIN ledger.transition t ON (((t.item_no = i.item_no) AND (t.effective_date = i.effective_date)))) WHERE ((i.business_key = completed_since.business_key) AND (i.flow_no = completed_since.flow_no) AND (t.event = 5) AND (t.at > completed_since.since))));

COMMENT ON FUNCTION ledger.completed_since(flow_no integer, business_key text, since timestamp with time zone) IS 'Whether an item of the business key was completed after an instant, which ends a failure streak.';

CREATE FUNCTION ledger.count_outcomes(flow_nos integer[], run_nos bigint[], completed bigint[], failed bigint[]) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  if flow_nos is not null then
    insert into ledger.flow_outcome (flow_no, at, run_no, completed, failed)
    select f.flow_no, ledger.machine_now(), min(o.run_no), sum(o.completed), sum(o.failed)
    from unnest(flow_nos, run_nos, count_outcomes.completed, count_outcomes.failed) o (flow_no, run_no, completed, failed)
    join ledger.flow f on f.flow_no = o.flow_no and f.circuit_failure_ratio is not null
    group by f.flow_no;
  end if;
  return true;
end $$;

COMMENT ON FUNCTION ledger.count_outcomes(flow_nos integer[], run_nos bigint[], completed bigint[], failed bigint[]) IS 'Record how many items of runs of limited flows completed and failed, for those with a circuit; true.';

CREATE FUNCTION ledger.count_overview_in_flight(items_max integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
declare
  counted integer;
begin
  perform from ledger.overview_reader for update;
  with locked_default as (select from ledger.due_item_default),
  found as materialized (
    select o.* from (
      select u.item_no, u.effective_date, null::bigint as ended_by
      from ledger.claim c
      cross join lateral unnest(c.item_no[c.started + 1:], c.effective_date[c.started + 1:]) u (item_no, effective_date)
      where c.closed_at is null and c.deadline > '-infinity'
      union all
      select u.item_no, u.effective_date, case when get_bit(r.ended, u.n::integer - 1) = 1 then r.run_no end
      from ledger.run r
      join ledger.claim c on c.fence = r.fence and c.claimed_at = r.claimed_at
      cross join lateral unnest(
        c.item_no[r.from_position:r.to_position], c.effective_date[r.from_position:r.to_position]
      ) with ordinality u (item_no, effective_date, n)
      where r.closed_at is null and r.lease_until > '-infinity'
    ) o
    limit items_max + 1
  ),
  recounted as materialized (
    select n.flow_no, n.quarter, sum(n.in_flight)::integer as in_flight, sum(n.completed)::integer as completed
    from (
      select i.flow_no, date_bin('15 minutes', i.due_at, '2000-01-01T00:00:00Z') as quarter, (f.ended_by is null)::integer as in_flight,
        (f.ended_by is not null and exists (
          select from ledger.transition t
          where t.item_no = f.item_no and t.effective_date = f.effective_date and t.event = 5 /* completed */ and t.run_no = f.ended_by
        ))::integer as completed
      from (select f.* from found f limit items_max) f
      cross join lateral (
        select i.flow_no, i.due_at from ledger.due_item i
        where i.effective_date = f.effective_date and i.item_no = f.item_no offset 0
      ) i
      where i.due_at >= ledger.overview_begin() and i.due_at < ledger.overview_begin() + interval '48 hours 15 minutes'
      union all
      select o.flow_no, o.quarter, 0, 0 from ledger.overview o where o.in_flight > 0 or o.completed_in_flight > 0
    ) n
    group by n.flow_no, n.quarter
  ),
  written as (
    insert into ledger.overview as o (flow_no, quarter, in_flight, completed_in_flight)
    select r.flow_no, r.quarter, r.in_flight, r.completed from recounted r order by 1, 2
    on conflict (flow_no, quarter) do update
    set in_flight = excluded.in_flight, completed_in_flight = excluded.completed_in_flight
    where (o.in_flight, o.completed_in_flight) <> (excluded.in_flight, excluded.completed_in_flight)
  )
  select count(*)::integer into counted from found;
  update ledger.overview_reader r set is_cut = counted > items_max where r.is_cut <> (counted > items_max);
  return counted;
end $$;

COMMENT ON FUNCTION ledger.count_overview_in_flight(items_max integer) IS 'Count the items in flight for the overview again, at most so many. Returns how many were found; more: the count is cut.';

CREATE FUNCTION ledger.count_overview_minutes(runs_max integer, sampled_runs_max integer, items_max integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_memoize TO 'off'
    SET join_collapse_limit TO '1'
    AS $$
declare
  reader ledger.overview_reader;
  -- Numbers are drawn before they can be seen: runs of statements that may still go on are left for later.
  until constant timestamptz := ledger.now() - make_interval(secs => 10 * ledger.clock_rate());
  begins constant timestamptz := date_bin('1 minute', until, '2000-01-01T00:00:00Z') - interval '60 minutes';
  month constant timestamptz := date_trunc('month', begins - interval '10 minutes', 'UTC');
  earlier record;
  run_nos bigint[];
  last_started_at timestamptz;
  step integer;
begin
  select * into reader from ledger.overview_reader for update;
  if not found then
    return 0;
  end if;
  delete from ledger.overview_minute o where o.minute < begins or o.minute > until;
  if reader.minutes_to is null or reader.minutes_to < begins or reader.minutes_to > until then
    delete from ledger.overview_minute;
    delete from ledger.overview_minute_run;
    -- What was completed in this hour may have been started before it.
    reader.minutes_from := begins;
    reader.minutes_to_run := 0;
    for earlier in
      select r.run_no, r.started_at, row_number() over (order by r.run_no desc) as place
      from ledger.run r where r.started_at >= month order by r.run_no desc limit 5 * runs_max
    loop
      reader.minutes_to_run := earlier.run_no;
      exit when earlier.started_at < begins - interval '10 minutes';
      reader.minutes_to_run := earlier.run_no - 1;
      if earlier.place = 5 * runs_max then
        reader.minutes_from := greatest(begins, earlier.started_at);
      end if;
    end loop;
    insert into ledger.overview_minute_run (run_no, started_at, ended, weight, checked_at)
    select r.run_no, r.started_at, r.ended & ~r.ended, 1, 'epoch'
    from ledger.run r
    where r.closed_at is null and r.lease_until > '-infinity' and r.run_no <= reader.minutes_to_run
    order by r.lease_until limit sampled_runs_max;
  end if;
  select array_agg(n.run_no order by n.run_no), max(n.started_at) into run_nos, last_started_at
  from (
    select r.run_no, r.started_at, bool_and(r.started_at <= until) over (order by r.run_no) as is_settled
    from (
      select r.run_no, r.started_at from ledger.run r
      where r.run_no > reader.minutes_to_run and r.started_at >= month order by r.run_no limit runs_max
    ) r
  ) n
  where n.is_settled;
  step := greatest(1, ceil(coalesce(cardinality(run_nos), 0)::double precision / sampled_runs_max));

  with locked_default as (select from ledger.due_item_default),
  visited as materialized (
    select o.run_no, r.started_at, r.fence, r.claimed_at, r.from_position, r.to_position, r.ended, r.closed_at,
      r.ended & ~o.ended as fresh, o.weight, false as is_new
    from (select o.* from ledger.overview_minute_run o order by o.checked_at, o.run_no limit sampled_runs_max) o
    left join lateral (
      select r.* from ledger.run r where r.run_no = o.run_no and r.started_at = o.started_at offset 0
    ) r on true
    union all
    select r.run_no, r.started_at, r.fence, r.claimed_at, r.from_position, r.to_position, r.ended, r.closed_at, r.ended, step, true
    from generate_series(step, cardinality(run_nos), step) n
    cross join lateral (select r.* from ledger.run r where r.run_no = run_nos[n] and r.started_at >= month offset 0) r
  ),
  -- Of each run some items, at equal distances: all of them where they are few.
  chosen as materialized (
    select v.run_no, v.fence, v.claimed_at, v.from_position, v.to_position, v.fresh, v.size, v.weight,
      least(v.size, greatest(1, ceil(items_max * v.size / sum(v.size) over ())))::integer as looks
    from (
      select v.*, bit_length(v.fresh)::double precision as size from visited v where bit_count(v.fresh) > 0
    ) v
  ),
  looked as materialized (
    select c.run_no, c.weight * c.size / c.looks as items, l.item_nos[p.place + 1] as item_no, l.dates[p.place + 1] as effective_date
    from chosen c
    cross join lateral (
      select l.item_no[c.from_position:c.to_position] as item_nos, l.effective_date[c.from_position:c.to_position] as dates
      from ledger.claim l where l.fence = c.fence and l.claimed_at = c.claimed_at offset 0
    ) l
    cross join lateral generate_series(0, c.looks - 1) n
    cross join lateral (select floor((n + 0.5) * c.size / c.looks)::integer as place offset 0) p
    where get_bit(c.fresh, p.place) = 1
  ),
  completed as materialized (
    select i.flow_no, date_bin('1 minute', t.at, '2000-01-01T00:00:00Z') as minute,
      ceil(8 * ln(greatest(1, 1000 * extract(epoch from t.at - i.due_at)::double precision)) / ln(2::double precision))::smallint as bucket,
      sum(l.items) as items, count(*)::integer as sampled
    from looked l
    cross join lateral (  -- `offset 0`: each is found by its key, however few rows the plan was made for
      select i.flow_no, i.due_at from ledger.due_item i
      where i.effective_date = l.effective_date and i.item_no = l.item_no offset 0
    ) i
    cross join lateral (
      select t.at from ledger.transition t
      where t.item_no = l.item_no and t.effective_date = l.effective_date and t.event = 5 /* completed */ and t.run_no = l.run_no offset 0
    ) t
    where t.at >= begins
    group by 1, 2, 3
  ),
  written as (
    insert into ledger.overview_minute as o (tenant, minute, bucket, items, sampled)
    select u.tenant, c.minute, c.bucket, sum(c.items), sum(c.sampled)
    from completed c
    cross join lateral (select f.tenant from ledger.flow f where f.flow_no = c.flow_no offset 0) f
    cross join lateral (values (f.tenant), ('')) u (tenant)
    group by 1, 2, 3
    order by 1, 2, 3
    on conflict (tenant, minute, bucket) do update set items = o.items + excluded.items, sampled = o.sampled + excluded.sampled
  ),
  finished as (
    delete from ledger.overview_minute_run o
    where o.run_no = any (array(select v.run_no from visited v where not v.is_new and (v.started_at is null or v.closed_at is not null)))
  ),
  kept as (
    insert into ledger.overview_minute_run as o (run_no, started_at, ended, weight, checked_at)
    select v.run_no, v.started_at, v.ended, v.weight, ledger.machine_now()
    from visited v
    where v.started_at is not null and v.closed_at is null
    order by v.run_no
    on conflict (run_no) do update set ended = excluded.ended, checked_at = excluded.checked_at
  )
  select max(n) into step from generate_series(step, cardinality(run_nos), step) n;

  update ledger.overview_reader r
  set minutes_to = case when cardinality(run_nos) = runs_max then greatest(begins, last_started_at) else until end,
    minutes_from = reader.minutes_from, minutes_to_run = coalesce(run_nos[step], reader.minutes_to_run);
  return coalesce(step, 0);
end $$;

COMMENT ON FUNCTION ledger.count_overview_minutes(runs_max integer, sampled_runs_max integer, items_max integer) IS 'Count what was completed in each minute of the last hour by the next runs, at most runs_max, and those that were open: of at most sampled_runs_max, at equal distances, and of about items_max of their items. Returns by how many runs it has gone on.';

CREATE FUNCTION ledger.count_overview_waiting(flows_max integer, items_max integer, is_far boolean) RETURNS double precision
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'on'
    SET enable_mergejoin TO 'off'
    AS $$
declare
  first_quarter constant timestamptz := ledger.overview_begin();
  near_ends constant timestamptz := first_quarter + interval '25 hours';
  begins constant timestamptz := case when is_far then near_ends else first_quarter end;
  ends constant timestamptz := case when is_far then first_quarter + interval '48 hours 15 minutes' else near_ends end;
  flow_nos integer[];
  counted integer;
begin
  perform from ledger.overview_reader for update;
  if is_far then
    select array_agg(o.flow_no) into flow_nos
    from (select o.flow_no from ledger.overview_flow o order by o.far_counted_at, o.flow_no limit flows_max) o;
  else
    select array_agg(o.flow_no) into flow_nos
    from (select o.flow_no from ledger.overview_flow o order by o.counted_at, o.flow_no limit flows_max) o;
  end if;
  with locked_default as (select from ledger.due_item_default),
  chosen as materialized (
    select o.flow_no, k.grace_seconds, greatest(o.counted_to, begins) as from_quarter
    from unnest(flow_nos) n (flow_no)
    cross join lateral (
      select o.flow_no, case when is_far then o.far_counted_to else o.counted_to end as counted_to
      from ledger.overview_flow o where o.flow_no = n.flow_no offset 0
    ) o
    -- `offset 0`, here and below: what is looked up is found by its key; what was counted is joined by a hash
    cross join lateral (select f.kind_no from ledger.flow f where f.flow_no = o.flow_no offset 0) f
    cross join lateral (select k.grace_seconds from ledger.kind k where k.kind_no = f.kind_no offset 0) k
  ),
  -- In the order in which they may be claimed, up to a number: with more in one quarter hour its count is the least that it can be, with
  -- more in several the last one is left for the next time.
  sources as materialized (
    select c.flow_no, w.source, w.quarter, w.items,
      sum(w.items) over s as total, min(w.quarter) over s as first_quarter, max(w.quarter) over s as last_quarter
    from chosen c
    cross join lateral (
      select 1 as source, date_bin('15 minutes', p.available_at, '2000-01-01T00:00:00Z') as quarter, count(*)::integer as items
      from (
        select p.available_at from ledger.pending p
        where p.flow_no = c.flow_no and p.state = 1 /* Scheduled */ and p.serial is null
          and p.available_at >= c.from_quarter and p.available_at < ends
        order by p.available_at limit items_max
      ) p
      group by 2
      union all
      select 2, date_bin('15 minutes', p.available_at, '2000-01-01T00:00:00Z'), count(*)::integer
      from (
        select p.available_at from ledger.pending p
        where p.flow_no = c.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null
          and p.available_at >= c.from_quarter and p.available_at < ends
        order by p.available_at limit items_max
      ) p
      group by 2
    ) w
    window s as (partition by c.flow_no, w.source)
  ),
  reach as materialized (
    select c.flow_no, c.grace_seconds, c.from_quarter, coalesce(b.to_quarter, ends) as to_quarter
    from chosen c
    left join (
      select s.flow_no, min(
        case when s.last_quarter > s.first_quarter then s.last_quarter else s.first_quarter + interval '15 minutes' end) as to_quarter
      from sources s
      where s.total >= items_max
      group by s.flow_no
    ) b on b.flow_no = c.flow_no
  ),
  -- Of these few the time is asked at which each was due.
  held as materialized (
    select c.flow_no, date_bin('15 minutes', i.due_at, '2000-01-01T00:00:00Z') as quarter, h.failed
    from chosen c
    cross join lateral (
      (select p.item_no, p.effective_date, 1 as failed from ledger.pending p
       where p.flow_no = c.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null
       order by p.available_at limit least(items_max, 500))
      union all
      (select p.item_no, p.effective_date, 1 from ledger.pending p
       where p.flow_no = c.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is not null
       order by p.available_at limit least(items_max, 500))
      union all
      (select p.item_no, p.effective_date, 0 from ledger.pending p
       where p.flow_no = c.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null and p.available_at >= 'infinity'  -- not `=`: that would be the index of all flows
       limit least(items_max, 500))
      union all
      (select r.item_no, r.effective_date, 1 from ledger.review r
       where r.flow_no = c.flow_no order by r.parked_at desc limit least(items_max, 500))
    ) h
    cross join lateral (
      select i.due_at from ledger.due_item i
      where i.effective_date = h.effective_date and i.item_no = h.item_no offset 0
    ) i
    where not is_far and i.due_at >= first_quarter and i.due_at < first_quarter + interval '48 hours 15 minutes'
  ),
  recounted as materialized (
    select n.flow_no, n.quarter, sum(n.waiting)::integer as waiting, sum(n.blocked)::integer as blocked, sum(n.failed)::integer as failed,
      bool_or(n.is_capped) as is_capped, sum(n.ended)::integer as ended,
      -- What is not changed is not written: a conflict would lock each row.
      sum(n.waiting) <> sum(n.was_waiting) or sum(n.blocked) <> sum(n.was_blocked) or sum(n.failed) <> sum(n.was_failed)
        or bool_or(n.is_capped) <> bool_or(n.was_capped) as is_changed
    from (
      select s.flow_no, s.quarter, s.items as waiting, 0 as blocked, 0 as failed, s.items >= items_max as is_capped, 0 as ended,
        0 as was_waiting, 0 as was_blocked, 0 as was_failed, false as was_capped
      from sources s join reach r on r.flow_no = s.flow_no
      where s.quarter < r.to_quarter
      union all
      select h.flow_no, h.quarter, 0, 1 - h.failed, h.failed, false, 0, 0, 0, 0, false from held h
      union all
      select o.flow_no, o.quarter, case when k.is_kept then o.waiting else 0 end, case when is_far then o.blocked else 0 end,
        case when is_far then o.failed else 0 end, k.is_kept and o.is_capped,
        o.completed + o.completed_in_flight + o.in_flight, o.waiting, o.blocked, o.failed, o.is_capped
      from reach r
      cross join lateral (
        select o.* from ledger.overview o where o.flow_no = r.flow_no and o.quarter >= first_quarter offset 0
      ) o
      cross join lateral (select o.quarter < r.from_quarter or o.quarter >= r.to_quarter as is_kept) k
    ) n
    group by n.flow_no, n.quarter
  ),
  written as (
    insert into ledger.overview as o (flow_no, quarter, waiting, blocked, failed, is_capped)
    select r.flow_no, r.quarter, r.waiting, r.blocked, r.failed, r.is_capped from recounted r where r.is_changed order by 1, 2
    on conflict (flow_no, quarter) do update
    set waiting = excluded.waiting, blocked = excluded.blocked, failed = excluded.failed, is_capped = excluded.is_capped
  ),
  forgotten as (
    delete from ledger.overview o
    where o.flow_no = any (array(select c.flow_no from chosen c)) and o.quarter < first_quarter
  ),
  summed as (
    update ledger.overview_flow o
    set counted_at = case when not is_far and r.to_quarter >= ends then ledger.machine_now() else o.counted_at end,
      counted_to = case when is_far then o.counted_to else nullif(r.to_quarter, ends) end,
      far_counted_at = case when is_far and r.to_quarter >= ends then ledger.machine_now() else o.far_counted_at end,
      far_counted_to = case when is_far then nullif(r.to_quarter, ends) else o.far_counted_to end,
      late = coalesce(n.late, 0), failed = coalesce(n.failed, 0), items = coalesce(n.items, 0)
    from reach r
    left join (
      select n.flow_no, sum(n.failed)::integer as failed, sum(n.waiting + n.blocked + n.failed + n.ended)::integer as items,
        (sum(n.waiting + n.blocked + n.failed) filter (
          where n.quarter + interval '15 minutes' + make_interval(secs => r.grace_seconds) <= ledger.now()))::integer as late
      from recounted n join reach r on r.flow_no = n.flow_no
      group by n.flow_no
    ) n on n.flow_no = r.flow_no
    where o.flow_no = r.flow_no
    returning o.flow_no
  )
  select count(*)::integer into counted from summed;
  if is_far then
    return (
      select extract(epoch from ledger.machine_now() - o.far_counted_at)
      from ledger.overview_flow o order by o.far_counted_at, o.flow_no limit 1);
  end if;
  return (
    select extract(epoch from ledger.machine_now() - o.counted_at)
    from ledger.overview_flow o order by o.counted_at, o.flow_no limit 1);
end $$;

COMMENT ON FUNCTION ledger.count_overview_waiting(flows_max integer, items_max integer, is_far boolean) IS 'Count the waiting and failed items of some flows again, those that were counted longest ago: of each at most so many. Those of the last day and the next hour, with is_far only those that wait, of the hours after it. Returns the age of the oldest count in seconds; null: there is no flow.';

CREATE FUNCTION ledger.effective_date_of(id uuid) RETURNS date
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ('1970-01-01'::date + (((get_byte(uuid_send(id), 0) << 16) + (get_byte(uuid_send(id), 1) << 8)) + get_byte(uuid_send(id), 2)));

COMMENT ON FUNCTION ledger.effective_date_of(id uuid) IS 'The effective date in an item''s id: a look-up by id reads the one partition of due_item that may have it.';

CREATE FUNCTION ledger.emit(tenant text, kind text, business_key text, effective_date date, due_at timestamp with time zone, payload json DEFAULT '{}'::json, cycle text DEFAULT ''::text, lane text DEFAULT ''::text, partition_key text DEFAULT NULL::text, labels jsonb DEFAULT NULL::jsonb, traceparent text DEFAULT NULL::text) RETURNS ledger.emission
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
declare
  id uuid := ledger.item_id(tenant, kind, business_key, cycle, effective_date);
  created boolean;
  emitted_at timestamptz := ledger.now();
  available_at timestamptz := greatest(due_at, emitted_at);
  -- Computed here and not in the queries: each execution of a query sets up its expressions anew.
  emitter text := ledger.emitter_name();
  flow_no integer;
  kind_no integer;
  ordering text;
  actor_no bigint;
  tenants text[];
  item_no bigint;
  serial bigint;
  serial_due_at timestamptz;
  overlap smallint;
begin
  -- The partition of a month from 2020 to 2049 has this name (ledger.partition_name), and none of its keys is retired. Asking
  -- whether it is updatable takes and releases a lock of it, as asking for its size in ledger.emit_items, and so reads what
  -- other sessions did to it; 0 if it is gone. It asks no file system.
  if pg_relation_is_updatable(to_regclass(to_char(effective_date::timestamp, '"ledger.due_item_"YYYYMM')), false) > 0 then
    select f.flow_no, f.kind_no, f.ordering, a.actor_no, a.tenants into flow_no, kind_no, ordering, actor_no, tenants
    from ledger.flow f, ledger.actor a
    where f.tenant = emit.tenant and f.kind = emit.kind and f.lane = emit.lane and a.name = emitter;
  end if;
  if flow_no is null or not coalesce(tenant = any (tenants), tenants is null) then
    created := not exists (
      select from ledger.emit_items(
        array[tenant], array[kind], array[lane], array[1], array[business_key], array[cycle], array[effective_date],
        array[due_at], array[payload::text], ledger.emitting_actor(tenant), partition_keys => array[partition_key],
        labels => array[labels::text], traceparents => array[traceparent]));
    return (id, created);
  end if;

  if ordering = 'key' then
    serial := ledger.serial_of(kind_no, coalesce(partition_key, business_key));
    serial_due_at := due_at;
    overlap := 1;
  end if;
  if traceparent is not null then
    traceparent := ledger.usable_traceparent(traceparent);
  end if;
  -- Two statements: where an insert reads what another one returns, they take 4 % more.
  insert into ledger.due_item as i (
    effective_date, id, flow_no, business_key, cycle, due_at, partition_key, payload, labels, traceparent, emitted_at,
    actor_no, serial, overlap)
  values (
    effective_date, id, flow_no, business_key, cycle, due_at, partition_key, payload, labels, traceparent, emitted_at,
    actor_no, serial, overlap)
  on conflict do nothing
  returning i.item_no into item_no;
  created := found;
  if created then
    insert into ledger.pending (item_no, effective_date, flow_no, available_at, serial, serial_due_at, overlap)
    values (item_no, effective_date, flow_no, available_at, serial, serial_due_at, overlap);
    if to_timestamp(pg_sequence_last_value('ledger.sleep_until'::regclass)) >= available_at then
      perform ledger.wake_sleepers(array[flow_no], array[available_at]);
    end if;
  end if;
  return row(id, created)::ledger.emission;  -- else Postgres makes a type for it first
end $$;

COMMENT ON FUNCTION ledger.emit(tenant text, kind text, business_key text, effective_date date, due_at timestamp with time zone, payload json, cycle text, lane text, partition_key text, labels jsonb, traceparent text) IS 'Emit one item inside the caller''s own transaction, from any language. Emitting it again changes nothing.';

CREATE FUNCTION ledger.emit_arrays(tenants text[], kinds text[], business_keys text[], effective_dates date[], due_ats timestamp with time zone[], payloads text[] DEFAULT NULL::text[], cycles text[] DEFAULT NULL::text[], lanes text[] DEFAULT NULL::text[], partition_keys text[] DEFAULT NULL::text[], labels text[] DEFAULT NULL::text[], traceparents text[] DEFAULT NULL::text[]) RETURNS TABLE(ord bigint, id uuid, created boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'on'
    SET jit TO 'off'
    AS $$
declare
  actor bigint;
  flow_tenants text[];
  flow_kinds text[];
  flow_lanes text[];
  flow_of integer[];
  ids uuid[];
  known bigint[];
begin
  if (
    select count(distinct n) > 1
    from unnest(array[
      cardinality(tenants), cardinality(kinds), cardinality(business_keys), cardinality(effective_dates),
      cardinality(due_ats), cardinality(payloads), cardinality(cycles), cardinality(lanes), cardinality(partition_keys),
      cardinality(labels), cardinality(traceparents)]) n)
  then
    raise exception using
      errcode = 'DL002', column = 'tenants', message = 'the arrays differ in length',
      hint = 'give each array one element for each item, or leave it out';
  end if;
  if cardinality(tenants) = 1 then
    return query
    select 1::bigint, e.*
    from ledger.emit(
      tenants[1], kinds[1], business_keys[1], effective_dates[1], due_ats[1], coalesce(payloads[1], '{}')::json,
      coalesce(cycles[1], ''), coalesce(lanes[1], ''), partition_keys[1], labels[1]::jsonb, traceparents[1]) e;
    return;
  end if;

  with input as (
    select u.ord, u.tenant, u.kind, coalesce(u.lane, '') as lane,
      dense_rank() over (order by u.kind collate "C", u.tenant collate "C", coalesce(u.lane, '') collate "C") as flow
    from unnest(tenants, kinds, lanes) with ordinality u (tenant, kind, lane, ord)
  ),
  flow as (select distinct on (i.flow) i.flow, i.tenant, i.kind, i.lane from input i order by i.flow)
  select array_agg(f.tenant order by f.flow), array_agg(f.kind order by f.flow), array_agg(f.lane order by f.flow),
    (select array_agg(i.flow::integer order by i.ord) from input i)
  into flow_tenants, flow_kinds, flow_lanes, flow_of
  from flow f;
  select max(ledger.emitting_actor(t.tenant)) into actor from (select distinct unnest(flow_tenants)) t (tenant);
  cycles := case when cycles is null then array_fill(''::text, array[cardinality(tenants)]) else array_replace(cycles, null, '') end;
  payloads := case
    when payloads is null then array_fill('{}'::text, array[cardinality(tenants)]) else array_replace(payloads, null, '{}') end;

  -- Infinite dates have no id, and ledger.emit_items refuses them.
  select array_agg(
    case when isfinite(u.effective_date) then ledger.item_id(u.tenant, u.kind, u.business_key, u.cycle, u.effective_date) end
    order by u.ord) into ids
  from unnest(tenants, kinds, business_keys, cycles, effective_dates) with ordinality u (
    tenant, kind, business_key, cycle, effective_date, ord);
  select array_agg(e.ord) into known
  from ledger.emit_items(
    flow_tenants, flow_kinds, flow_lanes, flow_of, business_keys, cycles, effective_dates, due_ats, payloads, actor,
    partition_keys => partition_keys, labels => labels, traceparents => traceparents, ids => ids) e;
  return query
  select u.ord, u.id, k.ord is null
  from unnest(ids) with ordinality u (id, ord)
  left join unnest(known) k (ord) on k.ord = u.ord
  order by u.ord;
end $$;

COMMENT ON FUNCTION ledger.emit_arrays(tenants text[], kinds text[], business_keys text[], effective_dates date[], due_ats timestamp with time zone[], payloads text[], cycles text[], lanes text[], partition_keys text[], labels text[], traceparents text[]) IS 'Emit many items inside the caller''s own transaction, an element of each array for each. Arrays after `due_ats` may be left out, and so may their elements: null. Payloads and labels are JSON text. Returns a row for each input, in order.';

CREATE FUNCTION ledger.emit_follower() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  before ledger.due_item;
  flow record;
  due timestamptz := ledger.now() + make_interval(secs => old.delay_seconds);
  next_cycle text;
  effective date;
  name text := (select d.name from ledger.definition d where d.definition_no = old.definition_no);
  by_name boolean;
  known bigint;
  ends_at timestamptz;
begin
  with locked_default as (select from ledger.due_item_default)
  select i.* into before from ledger.due_item i
  where i.effective_date = old.effective_date and i.item_no = old.item_no;
  perform ledger.none_lost(1, case when found then 1 else 0 end);
  -- Locked until the commit: a transaction that supersedes the version waits, and then sees this item.
  select m.ends_at into ends_at from ledger.materialised m where m.definition_no = old.definition_no for share;
  if greatest(due, before.due_at) >= ends_at then
    return null;
  end if;

  select f.kind_no, f.tenant, f.kind, f.lane into flow from ledger.flow f where f.flow_no = before.flow_no;
  next_cycle := to_char(due at time zone coalesce(before.zone, 'UTC'), 'YYYY-MM-DD"T"HH24:MI:SS.US');
  effective := (due at time zone coalesce(before.zone, 'UTC'))::date;
  -- If its definition has no overlap policy, its kind decides again whether its partition key is ordered.
  by_name := coalesce(before.serial = ledger.serial_of(flow.kind_no, name), false);

  select e.ord into known
  from ledger.emit_items(
    array[flow.tenant], array[flow.kind], array[flow.lane], array[1], array[before.business_key],
    array[next_cycle], array[effective], array[due], array[before.payload::text], before.actor_no,
    partition_keys => array[before.partition_key], labels => array[before.labels::text],
    definition_nos => array[old.definition_no], tzdata => before.tzdata, nominals => array[next_cycle],
    start_bys => array[due + (before.start_by - before.due_at)],
    complete_bys => array[due + (before.complete_by - before.due_at)],
    zones => array[before.zone], overlap_rules => array[case when by_name then before.overlap end],
    overlap_keys => array[name]) e;

  if known is null then
    insert into ledger.following (item_no, effective_date, definition_no, delay_seconds)
    select i.item_no, i.effective_date, old.definition_no, old.delay_seconds
    from ledger.due_item i
    where i.effective_date = effective
      and i.id = ledger.item_id(flow.tenant, flow.kind, before.business_key, next_cycle, effective);
  end if;
  return null;
end $$;

COMMENT ON FUNCTION ledger.emit_follower() IS 'Emit the next item of a schedule with a fixed delay: the same terms, due `delay_seconds` after the item before it ended. Nothing where another version decides by then, or decided about the item before: it has a chain of its own.';

CREATE FUNCTION ledger.emit_items(flow_tenants text[], flow_kinds text[], flow_lanes text[], flow_of integer[], business_keys text[], cycles text[], effective_dates date[], due_ats timestamp with time zone[], payloads text[], actor bigint, partition_keys text[] DEFAULT NULL::text[], labels text[] DEFAULT NULL::text[], start_bys timestamp with time zone[] DEFAULT NULL::timestamp with time zone[], complete_bys timestamp with time zone[] DEFAULT NULL::timestamp with time zone[], definition_nos bigint[] DEFAULT NULL::bigint[], event_nos bigint[] DEFAULT NULL::bigint[], tzdata text DEFAULT NULL::text, nominals text[] DEFAULT NULL::text[], zones text[] DEFAULT NULL::text[], decisions text[] DEFAULT NULL::text[], smears double precision[] DEFAULT NULL::double precision[], traceparents text[] DEFAULT NULL::text[], skip_reasons text[] DEFAULT NULL::text[], overlap_rules smallint[] DEFAULT NULL::smallint[], overlap_keys text[] DEFAULT NULL::text[], ids uuid[] DEFAULT NULL::uuid[]) RETURNS TABLE(ord bigint)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_hashjoin TO 'on'
    SET jit TO 'off'
    AS $$
declare
  made boolean;
  retired boolean;
  known bigint;
begin
  if exists (
    select from unnest(effective_dates) d
    where d is null or d < date '1970-01-01' or d >= date '2200-01-01'
  ) then
    raise exception using
      errcode = 'DL002', column = 'effective_date',
      message = 'effective_date is missing or lies outside 1970–2199',
      hint = 'give each item the business date it is owed for';
  end if;

  -- No interleaving may route a row to a partition that this session does not know, or past one that it does not know.
  -- What a session knows is as old as its newest lock. Asking for the size takes and releases a lock of the month's
  -- partition; without one, the default partition is locked, so that none is made until this transaction ends.
  for attempt in 1..2 loop
    select bool_and(pg_relation_size(p.leaf, 'init') is not null), coalesce(bool_or(p.has_retired and p.leaf::text like '%\_again'), false)
    into made, retired
    from (
      select distinct ledger.partition_start(u.d) as starts_on
      from (select distinct d from unnest(effective_dates) d) u
    ) m
    left join ledger.partition_span p on p.parent = 'due_item' and p.starts_on = m.starts_on;
    exit when made;
    lock table ledger.due_item_default in row exclusive mode;
  end loop;

  return query
  with flow as materialized (
    select * from ledger.ensure_flows(flow_tenants, flow_kinds, flow_lanes)
  ),
  input as materialized (
    select n.*, f.flow_no,
      coalesce(n.given_id, ledger.item_id(f.tenant, f.kind, n.business_key, n.cycle, n.effective_date)) as id,
      case
        when n.overlap is not null then ledger.serial_of(f.kind_no, coalesce(n.overlap_key, n.business_key))
        when f.ordered then ledger.serial_of(f.kind_no, coalesce(n.partition_key, n.business_key))
      end as serial,
      case when n.overlap is not null then n.overlap when f.ordered then 1::smallint end as how
    from unnest(
      flow_of, business_keys, cycles, effective_dates, due_ats, payloads, partition_keys, labels,
      start_bys, complete_bys, definition_nos, event_nos, nominals, zones, decisions, smears, traceparents,
      skip_reasons, overlap_rules, overlap_keys, ids
    ) with ordinality n (
      flow_of, business_key, cycle, effective_date, due_at, payload, partition_key, labels,
      start_by, complete_by, definition_no, event_no, nominal, zone, decision, smear, traceparent,
      skip_reason, overlap, overlap_key, given_id, ord
    )
    left join flow f on f.ord = n.flow_of
  ),
  made as (
    insert into ledger.due_item (
      effective_date, id, flow_no, business_key, cycle, due_at, start_by, complete_by, partition_key, payload,
      labels, definition_no, event_no, tzdata, nominal, zone, decision, smear_seconds, traceparent,
      emitted_at, actor_no, serial, overlap)
    select n.effective_date, n.id, n.flow_no, n.business_key, n.cycle, n.due_at, n.start_by, n.complete_by,
      n.partition_key, n.payload::json, n.labels::jsonb, n.definition_no, n.event_no, emit_items.tzdata,
      n.nominal, n.zone, n.decision, n.smear, ledger.usable_traceparent(n.traceparent), (select ledger.now()), actor,
      n.serial, n.how
    from input n
    where (made and not retired) or not exists (select from ledger.retired_key r where r.id = n.id)
    order by n.id, n.ord  -- as everybody does: two who emit the same keys never wait for each other
    on conflict do nothing
    returning due_item.id, due_item.item_no, due_item.effective_date, due_item.flow_no, due_item.due_at,
      due_item.serial, due_item.overlap
  ),
  skipped as (
    insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at, detail)
    select s.effective_date, s.item_no, 13 /* skipped */, 0, actor, ledger.now(),
      ledger.skip_detail(s.skip_reason)
    from (
      select distinct on (m.item_no) m.effective_date, m.item_no, n.skip_reason
      from made m join input n on n.id = m.id
      where skip_reasons is not null
      order by m.item_no, n.ord  -- twice in the batch: the first gave the terms, and says whether it is owed
    ) s
    where s.skip_reason is not null
    returning transition.item_no
  ),
  waiting as (
    insert into ledger.pending (item_no, effective_date, flow_no, available_at, serial, serial_due_at, overlap)
    select m.item_no, m.effective_date, m.flow_no, greatest(m.due_at, (select ledger.now())), m.serial,
      case when m.serial is not null then m.due_at end, m.overlap
    from made m
    where skip_reasons is null or m.item_no not in (select s.item_no from skipped s)
  )
  select x.ord
  from (
    select n.ord, m.id is null or row_number() over (partition by n.id order by n.ord) > 1 as known
    from input n left join made m on m.id = n.id
  ) x
  where (select count(*) from made) < (select count(*) from input)  -- nearly always everything is new
    and x.known
  order by x.ord;

  get diagnostics known = row_count;
  if known < cardinality(flow_of) and pg_sequence_last_value('ledger.sleep_until'::regclass) >= date_part('epoch', ledger.now()) then
    perform ledger.wake_sleepers(array_agg(w.flow_no), array_agg(w.available_at))
    from (
      select f.flow_no, greatest(min(n.due_at), ledger.now()) as available_at
      from unnest(flow_of, due_ats, skip_reasons) n (flow_of, due_at, skip_reason)
      join ledger.ensure_flows(flow_tenants, flow_kinds, flow_lanes) f on f.ord = n.flow_of
      where n.skip_reason is null
      group by f.flow_no
    ) w;
  end if;
end $$;

COMMENT ON FUNCTION ledger.emit_items(flow_tenants text[], flow_kinds text[], flow_lanes text[], flow_of integer[], business_keys text[], cycles text[], effective_dates date[], due_ats timestamp with time zone[], payloads text[], actor bigint, partition_keys text[], labels text[], start_bys timestamp with time zone[], complete_bys timestamp with time zone[], definition_nos bigint[], event_nos bigint[], tzdata text, nominals text[], zones text[], decisions text[], smears double precision[], traceparents text[], skip_reasons text[], overlap_rules smallint[], overlap_keys text[], ids uuid[]) IS 'Emit a batch of items. `flow_of` points into the three arrays of flows; a new item with a reason in `skip_reasons` ends as Skipped; `overlap_rules` with `overlap_keys` say which items are serial, and a kind ordered by key makes them serial by partition key. `ids`, where the caller has them, are what ledger.item_id makes of each. Returns the inputs that made no row, in input order: identities emitted before, or twice in the batch.';

CREATE FUNCTION ledger.emit_many(items json) RETURNS TABLE(ord bigint, id uuid, created boolean)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  unknown text;
begin
  select k.name into unknown
  from json_array_elements(items) i (item) cross join lateral json_object_keys(i.item) k (name)
  where k.name not in (
    'tenant', 'kind', 'business_key', 'effective_date', 'due_at', 'payload', 'cycle', 'lane', 'partition_key', 'labels',
    'traceparent')
  limit 1;
  if found then
    raise exception using
      errcode = 'DL002', column = unknown, message = format('an item has no member %I', unknown),
      hint = 'its members are named as the parameters of ledger.emit';
  end if;
  return query
  select e.*
  from (
    select array_agg(i.tenant), array_agg(i.kind), array_agg(i.business_key), array_agg(i.effective_date),
      array_agg(i.due_at), array_agg(i.payload::text), array_agg(i.cycle), array_agg(i.lane), array_agg(i.partition_key),
      array_agg(i.labels::text), array_agg(i.traceparent)
    from json_to_recordset(items) i (
      tenant text, kind text, business_key text, effective_date date, due_at timestamptz, payload json, cycle text,
      lane text, partition_key text, labels json, traceparent text)
  ) a (
    tenants, kinds, business_keys, effective_dates, due_ats, payloads, cycles, lanes, partition_keys, labels, traceparents)
  cross join lateral ledger.emit_arrays(
    a.tenants, a.kinds, a.business_keys, a.effective_dates, a.due_ats, a.payloads, a.cycles, a.lanes, a.partition_keys,
    a.labels, a.traceparents) e
  where a.tenants is not null;
end $$;

COMMENT ON FUNCTION ledger.emit_many(items json) IS 'Emit many items, a JSON array of objects, inside the caller''s own transaction. Their members are named as the parameters of ledger.emit; a null counts as missing, and an unknown one is refused. Returns a row for each item, in order.';

CREATE FUNCTION ledger.emitter_name() RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE WHEN ((COALESCE(current_setting('ledger.key_name'::text, true), ''::text) <> ''::text) AND (current_setting('ledger.key_name'::text, true) ~ similar_to_escape('(key|oidc):%'::text)) AND pg_has_role(SESSION_USER, 'ledger_service'::name, 'member'::text)) THEN current_setting('ledger.key_name'::text, true) ELSE ('service:'::text || (SESSION_USER)::text) END;

COMMENT ON FUNCTION ledger.emitter_name() IS 'The name under which a login emits: its own, or that of the API key or of the subject of a token for which a service acts in this transaction.';

CREATE FUNCTION ledger.emitting_actor(tenant text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  known bigint;
  permitted boolean;
begin
  select a.actor_no, a.tenants is null or coalesce(emitting_actor.tenant = any (a.tenants), false)
    or ledger.token_has_tenant(emitting_actor.tenant)
  into known, permitted
  from ledger.actor a where a.name = ledger.emitter_name();
  if not permitted then
    raise exception using
      errcode = '42501', column = 'tenant',
      message = format('%s may not emit for tenant %L', session_user, emitting_actor.tenant),
      hint = 'it emits for the tenants named by `dueledger grant … TO … --tenant …` only';
  end if;
  return coalesce(known, ledger.register_actor(ledger.emitter_name(), 'service'));
end $$;

COMMENT ON FUNCTION ledger.emitting_actor(tenant text) IS 'The number of the login that emits. Refuses a tenant that is not one of those to which the login is bound.';

CREATE FUNCTION ledger.ensure_flows(tenants text[], kinds text[], lanes text[]) RETURNS TABLE(ord bigint, flow_no integer, tenant text, kind text, kind_no integer, ordered boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  insert into ledger.kind (tenant, name, topic, compression)
  select distinct u.tenant, u.kind, 'due.' || u.kind,
    -- The consumers of the topic may have no other.
    (select min(k.compression) from ledger.kind k where k.topic = 'due.' || u.kind)
  from unnest(tenants, kinds) u (tenant, kind)
  where not exists (select from ledger.kind k where k.tenant = u.tenant and k.name = u.kind)
  order by 1, 2
  on conflict do nothing;

  -- The kinds are locked, so that none has another ordering when its flow is inserted.
  with missing as materialized (
    select k.kind_no, k.tenant, k.name as kind, k.ordering, u.lane
    from unnest(tenants, kinds, lanes) u (tenant, kind, lane)
    join ledger.kind k on k.tenant = u.tenant and k.name = u.kind
    where not exists (select from ledger.flow f where f.tenant = u.tenant and f.kind = u.kind and f.lane = u.lane)
    order by k.kind_no
    for key share of k
  )
  insert into ledger.flow (kind_no, tenant, kind, ordering, lane, paused_at, paused_by, pause_reason)
  select distinct on (m.kind_no, m.lane) m.*, p.paused_at, p.actor_no, p.reason
  from missing m
  left join ledger.pause p on p.tenant = m.tenant and p.resumed_at is null
    and coalesce(p.kind = m.kind, true) and coalesce(p.lane = m.lane, true)
  order by m.kind_no, m.lane, p.paused_at, p.pause_no
  on conflict do nothing;

  return query
  select u.ord, f.flow_no, u.tenant, u.kind, f.kind_no, f.ordering = 'key'
  from unnest(tenants, kinds, lanes) with ordinality u (tenant, kind, lane, ord)
  join ledger.flow f on f.tenant = u.tenant and f.kind = u.kind and f.lane = u.lane;
end $$;

COMMENT ON FUNCTION ledger.ensure_flows(tenants text[], kinds text[], lanes text[]) IS 'Find or make the flow of each tenant, kind and lane, in the order given.';

CREATE FUNCTION ledger.examine_flow_items(wanted ledger.item_filter, examined_max integer) RETURNS TABLE(item_no bigint, effective_date date, flow_no integer, state smallint, available_at timestamp with time zone, entered_at timestamp with time zone, parked_reason text)
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

COMMENT ON FUNCTION ledger.examine_flow_items(wanted ledger.item_filter, examined_max integer) IS 'Open items of the flows of a filter that may be in a state to which the verb is applied, at most examined_max, in no order. What others have is not read, but for items that were handed out together with these.';

CREATE FUNCTION ledger.examine_items(wanted ledger.item_filter, after_item_no bigint, examined_max integer) RETURNS TABLE(item_no bigint, effective_date date, flow_no integer, state smallint, available_at timestamp with time zone, entered_at timestamp with time zone, parked_reason text)
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

COMMENT ON FUNCTION ledger.examine_items(wanted ledger.item_filter, after_item_no bigint, examined_max integer) IS 'The next open items by number that may be in a state to which the verb is applied, at most examined_max. The time at which a pending item came into its state is in the journal.';

CREATE FUNCTION ledger.find_claim(fence bigint, claimed_at timestamp with time zone, token text, OUT size integer, OUT started integer, OUT closed_at timestamp with time zone, OUT topic_actor_no bigint, OUT partition integer, OUT allocator_no bigint) RETURNS record
    LANGUAGE plpgsql STABLE STRICT
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  select c.size, c.started, c.closed_at, c.topic_actor_no, c.partition, c.allocator_no
  into size, started, closed_at, topic_actor_no, partition, allocator_no
  from ledger.claim c
  where c.fence = find_claim.fence and c.claimed_at = find_claim.claimed_at and c.token = find_claim.token;
end $$;

COMMENT ON FUNCTION ledger.find_claim(fence bigint, claimed_at timestamp with time zone, token text, OUT size integer, OUT started integer, OUT closed_at timestamp with time zone, OUT topic_actor_no bigint, OUT partition integer, OUT allocator_no bigint) IS 'The claim with this id; nulls where there is none.';

CREATE FUNCTION ledger.find_due_at(effective_date date, item_no bigint) RETURNS timestamp with time zone
    LANGUAGE plpgsql STABLE STRICT
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  return (
    select i.due_at from ledger.due_item i
    where i.effective_date = find_due_at.effective_date and i.item_no = find_due_at.item_no);
end $$;

COMMENT ON FUNCTION ledger.find_due_at(effective_date date, item_no bigint) IS 'When an item is due; null where it is not found.';

CREATE FUNCTION ledger.find_ended_at(effective_date date, item_no bigint) RETURNS timestamp with time zone
    LANGUAGE plpgsql STABLE STRICT
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  return (
    select t.at from ledger.transition t
    where t.effective_date = find_ended_at.effective_date and t.item_no = find_ended_at.item_no
      and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */));
end $$;

COMMENT ON FUNCTION ledger.find_ended_at(effective_date date, item_no bigint) IS 'When an item ended; null where it has not.';

CREATE FUNCTION ledger.find_endings(ords bigint[], effective_dates date[], item_nos bigint[], run_nos bigint[]) RETURNS TABLE(ord bigint, event smallint, detail jsonb)
    LANGUAGE plpgsql STABLE ROWS 100
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  first_date date;
  last_date date;
begin
  select min(d), max(d) into first_date, last_date from unnest(effective_dates) d;
  return query
  select u.ord, coalesce(e.event, o.event), coalesce(e.detail, o.detail)
  from unnest(ords, effective_dates, item_nos, run_nos) u (ord, effective_date, item_no, run_no)
  -- An index each: usually the first has it, and then the second is not read.
  left join lateral (
    select t.event, t.detail
    from ledger.transition t
    where t.effective_date = u.effective_date and t.item_no = u.item_no and t.run_no = u.run_no
      and t.event in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
      and t.effective_date between first_date and last_date
    offset 0
  ) e on true
  left join lateral (
    select t.event, t.detail
    from ledger.transition t
    where e.event is null and t.effective_date = u.effective_date and t.item_no = u.item_no and t.run_no = u.run_no
      and t.event not in (5 /* completed */, 11 /* cancelled */, 12 /* superseded */, 13 /* skipped */, 14 /* written_off */)
      and t.effective_date between first_date and last_date
    limit 1
  ) o on true;
end $$;

COMMENT ON FUNCTION ledger.find_endings(ords bigint[], effective_dates date[], item_nos bigint[], run_nos bigint[]) IS 'How items ended in runs, by ord; nulls where the journal does not say. It opens the months of these items only.';

CREATE FUNCTION ledger.find_item_columns(groups ledger.item_group[]) RETURNS TABLE(effective_date date, attempt smallint, starts smallint, batch_max smallint, item_nos bigint[], ids uuid[], flow_nos integer[], business_keys bytea[], partition_keys bytea[], cycles text[], due_ats bytea[], payloads bytea[], traceparents text[])
    LANGUAGE plpgsql STABLE ROWS 10
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  first_date date;
  last_date date;
begin
  select min(g.effective_date), max(g.effective_date) into first_date, last_date from unnest(groups) g;
  return query
  select g.effective_date, g.attempt, g.starts, g.batch_max, i.*
  from unnest(groups) g
  cross join lateral (
    select array_agg(i.item_no), array_agg(i.id), array_agg(i.flow_no), array_agg(textsend(i.business_key)),
      case when count(i.partition_key) > 0 then array_agg(textsend(i.partition_key)) end, array_agg(i.cycle),
      array_agg(timestamptz_send(i.due_at)), array_agg(json_send(i.payload)),
      case when count(i.traceparent) > 0 then array_agg(i.traceparent) end
    from ledger.due_item i
    where i.effective_date = g.effective_date and i.item_no = any (g.item_nos)
      and i.effective_date between first_date and last_date
    having count(*) > 0
  ) i;
end $$;

COMMENT ON FUNCTION ledger.find_item_columns(groups ledger.item_group[]) IS 'As find_items, one row a group: its items as columns, with the bytes of keys, times and payloads; null for a column of nulls.';

CREATE FUNCTION ledger.find_items(groups ledger.item_group[]) RETURNS TABLE(item_no bigint, id uuid, effective_date date, flow_no integer, business_key text, partition_key text, cycle text, due_at timestamp with time zone, payload json, traceparent text, serial bigint, overlap smallint, attempt smallint, starts smallint, batch_max smallint)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  first_date date;
  last_date date;
begin
  select min(g.effective_date), max(g.effective_date) into first_date, last_date from unnest(groups) g;
  -- Items of a group are read together: one index scan instead of one index descent an item.
  return query
  select i.*, g.attempt, g.starts, g.batch_max
  from unnest(groups) g
  cross join lateral (
    select i.item_no, i.id, i.effective_date, i.flow_no, i.business_key, i.partition_key, i.cycle, i.due_at, i.payload,
      i.traceparent, i.serial, i.overlap
    from ledger.due_item i
    where i.effective_date = g.effective_date and i.item_no = any (g.item_nos)
      and i.effective_date between first_date and last_date
    offset 0
  ) i;
end $$;

COMMENT ON FUNCTION ledger.find_items(groups ledger.item_group[]) IS 'The rows of these items, as many as are found, with what their group says. It opens the months of these items only.';

CREATE FUNCTION ledger.find_other_terms(items json, ords bigint[]) RETURNS TABLE(ord bigint, member text)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    AS $$
with locked_default as (select from ledger.due_item_default),
given as materialized (
  select g.*
  from rows from (json_to_recordset(items) as (
    tenant text, kind text, business_key text, effective_date date, due_at timestamptz, payload json, cycle text,
    lane text, partition_key text, labels json)) with ordinality g (
    tenant, kind, business_key, effective_date, due_at, payload, cycle, lane, partition_key, labels, ord)
  where g.ord = any (ords)
    and exists (
      select from ledger.actor a
      where a.name = ledger.emitter_name() and (a.tenants is null or g.tenant = any (a.tenants) or ledger.token_has_tenant(g.tenant)))
)
select g.ord, d.member
from given g
join ledger.due_item i
  on i.id = ledger.item_id(g.tenant, g.kind, g.business_key, coalesce(g.cycle, ''), g.effective_date)
  and i.effective_date = g.effective_date
join ledger.flow f on f.flow_no = i.flow_no
cross join lateral (values
  ('due_at', i.due_at is distinct from g.due_at),
  ('lane', f.lane is distinct from coalesce(g.lane, '')),
  ('partition_key', i.partition_key is distinct from g.partition_key),
  ('labels', i.labels is distinct from g.labels::jsonb),
  ('payload', case
    when i.payload::text = coalesce(g.payload::text, '{}') then false
    when strpos(concat(i.payload, g.payload), '\u0000') > 0 then true  -- no value of jsonb
    else i.payload::jsonb is distinct from coalesce(g.payload::text, '{}')::jsonb end)
) d (member, differs)
where d.differs
$$;

COMMENT ON FUNCTION ledger.find_other_terms(items json, ords bigint[]) IS 'Which members of items, a JSON array as for ledger.emit_many, differ from those of the items of the same identity. Of those at the places in `ords`, and of tenants for which the caller may emit.';

CREATE FUNCTION ledger.find_published_claim(fence bigint, claimed_at timestamp with time zone, OUT allocator_no bigint, OUT item_no bigint[], OUT attempt smallint[], OUT topic text, OUT partition integer, OUT base_offset bigint, OUT published_at timestamp with time zone) RETURNS record
    LANGUAGE plpgsql STABLE STRICT
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  select c.allocator_no, c.item_no, c.attempt, c.topic, c.partition, c.base_offset, c.published_at
  into allocator_no, item_no, attempt, topic, partition, base_offset, published_at
  from ledger.claim c
  where c.fence = find_published_claim.fence and c.claimed_at = find_published_claim.claimed_at;
end $$;

COMMENT ON FUNCTION ledger.find_published_claim(fence bigint, claimed_at timestamp with time zone, OUT allocator_no bigint, OUT item_no bigint[], OUT attempt smallint[], OUT topic text, OUT partition integer, OUT base_offset bigint, OUT published_at timestamp with time zone) IS 'The items of a claim and where they were published; nulls where there is no such claim. Its token is for workers alone.';

CREATE FUNCTION ledger.find_retired(ids uuid[]) RETURNS SETOF uuid
    LANGUAGE plpgsql STABLE ROWS 10
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_hashjoin TO 'on'
    AS $$
begin
  return query
  with gone as materialized (
    select d.effective_date
    from (select distinct ledger.effective_date_of(u.id) as effective_date from unnest(ids) u (id)) d
    left join ledger.partition_span p on p.parent = 'due_item' and p.starts_on = ledger.partition_start(d.effective_date)
    -- One that was made again has such a name.
    where p.has_retired and p.leaf::text like '%\_again' or pg_relation_size(p.leaf, 'init') is null
  )
  select r.id
  from gone g
  join unnest(ids) u (id) on ledger.effective_date_of(u.id) = g.effective_date
  cross join lateral (select k.id from ledger.retired_key k where k.id = u.id offset 0) r;
end $$;

COMMENT ON FUNCTION ledger.find_retired(ids uuid[]) IS 'Which of these ids are of items whose partition was dropped. It asks only for dates that have no partition, or one that was made again.';

CREATE FUNCTION ledger.find_run(run_no bigint, started_at timestamp with time zone, OUT fence bigint, OUT claimed_at timestamp with time zone, OUT from_position integer, OUT to_position integer, OUT worker_no bigint, OUT ended bit varying, OUT closed_at timestamp with time zone) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  select r.fence, r.claimed_at, r.from_position, r.to_position, r.worker_no, r.ended, r.closed_at
  into fence, claimed_at, from_position, to_position, worker_no, ended, closed_at
  from ledger.run r
  where r.run_no = find_run.run_no and r.started_at = find_run.started_at;
end $$;

COMMENT ON FUNCTION ledger.find_run(run_no bigint, started_at timestamp with time zone, OUT fence bigint, OUT claimed_at timestamp with time zone, OUT from_position integer, OUT to_position integer, OUT worker_no bigint, OUT ended bit varying, OUT closed_at timestamp with time zone) IS 'The run with this number and start; nulls where there is none.';

CREATE FUNCTION ledger.find_topic_run(fence bigint, started_at timestamp with time zone, topic_actor_no bigint, OUT run_no bigint, OUT from_position integer, OUT to_position integer, OUT ended bit varying, OUT lease_seconds double precision, OUT closed_at timestamp with time zone) RETURNS record
    LANGUAGE plpgsql STABLE STRICT
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  select r.run_no, r.from_position, r.to_position, r.ended, r.lease_seconds, r.closed_at
  into run_no, from_position, to_position, ended, lease_seconds, closed_at
  from ledger.run r
  where r.fence = find_topic_run.fence and r.started_at = find_topic_run.started_at
    and r.worker_no = find_topic_run.topic_actor_no;
end $$;

COMMENT ON FUNCTION ledger.find_topic_run(fence bigint, started_at timestamp with time zone, topic_actor_no bigint, OUT run_no bigint, OUT from_position integer, OUT to_position integer, OUT ended bit varying, OUT lease_seconds double precision, OUT closed_at timestamp with time zone) IS 'The run of a claim that is settled by topic; nulls where there is none.';

CREATE FUNCTION ledger.finding_reopens(closed_at timestamp with time zone, resolution text, reason text, is_decided boolean, found_as text, is_same boolean) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN ((closed_at IS NOT NULL) AND ((resolution = 'repaired'::text) OR (reason = 'cleared'::text) OR ((found_as = 'open'::text) AND (NOT (is_decided AND is_same)))));

COMMENT ON FUNCTION ledger.finding_reopens(closed_at timestamp with time zone, resolution text, reason text, is_decided boolean, found_as text, is_same boolean) IS 'Whether a finding that a pass found again reopens: cleared and repaired ones do, those that nobody resolved who may decide, and those that are another difference.';

CREATE FUNCTION ledger.finish_items() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  ended bigint[];
begin
  -- Usually nothing is written (claims, starts and emissions), or both tables are empty.
  if not exists (select from written)
    or not exists (select from ledger.held_key) and not exists (select from ledger.following)
  then
    return null;
  end if;
  -- Arrays: with a join, a plan made while there were few rows reads all of them for each item.
  ended := array(
    select w.item_no from written w
    where w.event = any (array(
      select e.event from ledger.transition_event e join ledger.state s on s.state = e.after_state where s.terminal)));

  if exists (select from ledger.held_key) then
    with freed_by_end as (
      delete from ledger.held_key h where h.item_no = any (ended)
      returning h.serial
    ),
    freed_by_failure as (
      delete from ledger.held_key h
      where h.item_no = any (array(
        select w.item_no from written w where w.event in (6 /* failed */, 7 /* timed_out */, 9 /* parked */)))
        and exists (
          select from ledger.flow f join ledger.kind k on k.kind_no = f.kind_no
          where f.flow_no = h.flow_no and not k.failure_holds)
      returning h.serial
    ),
    freed_by_revision as (
      delete from ledger.held_key h
      where h.item_no = any (array(select w.item_no from written w where w.event = 15 /* revised */))
        and exists (select from ledger.pending p where p.item_no = h.item_no and p.serial is distinct from h.serial)
      returning h.serial
    ),
    next as materialized (
      select n.item_no
      from (
        select serial from freed_by_end union all select serial from freed_by_failure
        union all select serial from freed_by_revision
      ) freed
      cross join lateral (
        select p.item_no from ledger.pending p
        where p.serial = freed.serial and p.available_at = 'infinity'
        order by p.serial_due_at, p.item_no limit 1
        for update skip locked
      ) n
    )
    update ledger.pending p set available_at = ledger.not_before(p.item_no, p.serial_due_at)
    where p.item_no = any (array(select n.item_no from next n)) and p.available_at = 'infinity';
  end if;

  delete from ledger.following f where f.item_no = any (ended);
  return null;
end $$;

COMMENT ON FUNCTION ledger.finish_items() IS 'What the end of an item entails, whichever statement writes it to the journal: its key is free, the next item that waits for the key is available, and its chain goes on. A failure frees the key too, unless its kind says that failures hold it; so does a revision by which the item has another key, or none.';

CREATE FUNCTION ledger.finish_month() RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET "TimeZone" TO 'UTC'
    SET lock_timeout TO '100ms'
    AS $$
declare
  month record;
  is_open boolean;
begin
  for month in
    select p.parent, p.starts_on, p.leaf, c.oid is not null as has_constraint, o.is_over
    from ledger.partition_span p
    left join pg_constraint c on c.conrelid = p.leaf and c.conname = 'month_finished'
    -- A simulated clock may be ahead of the real one, and the next session's behind it.
    cross join lateral (
      select p.ends_before < least(ledger.now(), clock_timestamp()) - interval '32 days') o (is_over)
    where p.parent in ('claim', 'run')
      and case when o.is_over then p.finished_at is null else c.oid is not null end
    order by o.is_over, p.starts_on, p.parent
    for update of p skip locked
  loop
    if month.is_over then
      execute format('select exists (select from %s where closed_at is null)', month.leaf) into is_open;
      continue when is_open;
    end if;
    begin
      if not month.is_over then
        execute format('alter table %s drop constraint month_finished', month.leaf);
        update ledger.partition_span p set finished_at = null
        where p.parent = month.parent and p.starts_on = month.starts_on;
      elsif month.has_constraint then
        -- This reads the whole month, beside all other statements.
        execute format('alter table %s validate constraint month_finished', month.leaf);
        update ledger.partition_span p set finished_at = clock_timestamp()
        where p.parent = month.parent and p.starts_on = month.starts_on;
      else
        execute format('alter table %s add constraint month_finished check (closed_at is not null) not valid', month.leaf);
      end if;
      return true;
    exception when lock_not_available or check_violation then
      null;  -- a long transaction uses it, or opened a row: the next pass tries again
    end;
  end loop;
  return false;
end $$;

COMMENT ON FUNCTION ledger.finish_month() IS 'Finish one month of claims or runs that is over and has no open row, in two calls, or open one that is not over again; false where there is none.';

CREATE FUNCTION ledger.fit_bytes(tids tid[], bytes_max bigint) RETURNS tid[]
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  fitting tid[] := '{}';
  bytes bigint := 0;
  found record;
begin
  for found in
    select u.tid, i.bytes
    from unnest(tids) u (tid)
    cross join lateral (select p.effective_date, p.item_no from ledger.pending p where p.ctid = u.tid offset 0) p
    cross join lateral (
      select octet_length(i.payload::text) as bytes
      from ledger.due_item i where i.effective_date = p.effective_date and i.item_no = p.item_no offset 0
    ) i
  loop
    bytes := bytes + found.bytes;
    exit when bytes > bytes_max;
    fitting := fitting || found.tid;
  end loop;
  return fitting;
end $$;

COMMENT ON FUNCTION ledger.fit_bytes(tids tid[], bytes_max bigint) IS 'The first of these rows of pending whose payloads have so many bytes together. No others are read.';

CREATE FUNCTION ledger.fits_one_move(first_day date, next_day date, rows_max integer) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  select rows_max is null or pg_relation_size('ledger.due_item_default') + pg_relation_size('ledger.transition_default') <= 33554432
    and (
      select count(*) <= rows_max
      from (
        select from ledger.due_item_default d
        where d.effective_date >= first_day and d.effective_date < next_day limit rows_max + 1
      ) i)
    and (
      select count(*) <= rows_max / 10 and coalesce(sum(pg_column_size(t.detail)), 0) <= 2097152
      from (
        select d.detail from ledger.transition_default d
        where d.effective_date >= first_day and d.effective_date < next_day limit rows_max / 10 + 1
      ) t);
$$;

COMMENT ON FUNCTION ledger.fits_one_move(first_day date, next_day date, rows_max integer) IS 'Whether the default partitions are small enough, and have few enough rows of these days, to make a partition while others wait.';

CREATE FUNCTION ledger.forget_past_load(before timestamp with time zone, row_max integer) RETURNS integer
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  select from ledger.lock_row l where l.subject = 'past_load' for update;
  with old as materialized (
    select l.tenant, l.kind, l.quarter, l.effective_date from ledger.past_load l
    where l.quarter < before order by l.quarter limit row_max
  ),
  forgotten as (
    delete from ledger.past_load l using old o
    where (l.tenant, l.kind, l.quarter, l.effective_date) = (o.tenant, o.kind, o.quarter, o.effective_date)
    returning 1
  )
  select count(*)::integer from forgotten
$$;

COMMENT ON FUNCTION ledger.forget_past_load(before timestamp with time zone, row_max integer) IS 'Delete the results of the items that were due before a time, up to a number of rows, and subtract them from their sums. Returns how many.';

CREATE FUNCTION ledger.grant_role(role text, login text, tenants text[] DEFAULT NULL::text[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  execute format('grant %I to %I', 'ledger_' || role, login);
  if tenants is not null then
    insert into ledger.actor (name, kind, tenants) values ('service:' || login, 'service', grant_role.tenants)
    on conflict on constraint actor_name_key do update set tenants = excluded.tenants;
  end if;
end $$;

COMMENT ON FUNCTION ledger.grant_role(role text, login text, tenants text[]) IS 'Grant a role to a login, with the caller''s rights; an emitter or relay may then emit for `tenants` only, where they are given.';

CREATE FUNCTION ledger.has_token(fence bigint, claimed_at timestamp with time zone, token text) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  return exists (
    select from ledger.claim c
    where c.fence = has_token.fence and c.claimed_at = has_token.claimed_at and c.token = has_token.token);
end $$;

COMMENT ON FUNCTION ledger.has_token(fence bigint, claimed_at timestamp with time zone, token text) IS 'Whether a claim has this token.';

CREATE FUNCTION ledger.is_decider(kind text, name text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ((kind = ANY (ARRAY['person'::text, 'key'::text, 'oidc'::text])) AND (lower(split_part(name, ':'::text, 1)) = kind));

COMMENT ON FUNCTION ledger.is_decider(kind text, name text) IS 'Whether an actor may decide what a person may: one registered by an operator''s login, an API key, or a subject of tokens, under its prefix.';

CREATE FUNCTION ledger.is_same_difference(type text, expected jsonb, actual jsonb, found_expected jsonb, found_actual jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN (type = ANY (ARRAY['DISAGREES'::text, 'EVENT_UNMATCHED'::text])) THEN true WHEN (actual ? 'difference'::text) THEN (NOT ((actual -> 'difference'::text) IS DISTINCT FROM (found_actual -> 'difference'::text))) ELSE ((NOT (expected IS DISTINCT FROM found_expected)) AND (NOT (actual IS DISTINCT FROM found_actual))) END;

COMMENT ON FUNCTION ledger.is_same_difference(type text, expected jsonb, actual jsonb, found_expected jsonb, found_actual jsonb) IS 'Whether a finding that a pass found again is the difference that it was, though time went on: by type, and its evidence then and now.';

CREATE FUNCTION ledger.item_id(tenant text, kind text, business_key text, cycle text, effective_date date) RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN (encode(set_bit(set_bit(set_bit(set_bit(set_bit(set_bit((substr(int4send((effective_date - '1970-01-01'::date)), 2) || substr(sha256(convert_to(((((((((tenant || chr(31)) || kind) || chr(31)) || business_key) || chr(31)) || cycle) || chr(31)) || to_char((effective_date)::timestamp without time zone, 'YYYY-MM-DD'::text)), 'UTF8'::name)), 1, 13)), (55)::bigint, 1), (54)::bigint, 0), (53)::bigint, 0), (52)::bigint, 0), (71)::bigint, 1), (70)::bigint, 0), 'hex'::text))::uuid;

COMMENT ON FUNCTION ledger.item_id(tenant text, kind text, business_key text, cycle text, effective_date date) IS 'The id of an item: UUIDv8 (RFC 9562) of three bytes of the effective date, then bytes of a SHA-256, so that the index by id grows where its dates are. docs/identity.md has vectors.';

CREATE FUNCTION ledger.kafka_partition(key text, partitions integer) RETURNS integer
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  bytes constant bytea := convert_to(key, 'UTF8');
  size constant integer := octet_length(bytes);
  whole constant integer := size / 4 * 4;
  mask constant bigint := 4294967295;
  factor constant bigint := 1540483477;
  digest bigint := 2538058380 # size;
  mixed bigint;
  at integer := 0;
begin
  while at < whole loop
    mixed := (get_byte(bytes, at) + get_byte(bytes, at + 1) * 256 + get_byte(bytes, at + 2) * 65536
      + get_byte(bytes, at + 3) * 16777216::bigint) * factor & mask;
    digest := (digest * factor & mask) # ((mixed # (mixed >> 24)) * factor & mask);
    at := at + 4;
  end loop;
  if size > whole then
    mixed := get_byte(bytes, whole);
    if size > whole + 1 then
      mixed := mixed + get_byte(bytes, whole + 1) * 256;
    end if;
    if size > whole + 2 then
      mixed := mixed + get_byte(bytes, whole + 2) * 65536;
    end if;
    digest := (digest # mixed) * factor & mask;
  end if;
  digest := (digest # (digest >> 13)) * factor & mask;
  return ((digest # (digest >> 15)) & 2147483647) % partitions;
end $$;

COMMENT ON FUNCTION ledger.kafka_partition(key text, partitions integer) IS 'Partition that Kafka''s clients give a key of a topic with so many partitions.';

CREATE FUNCTION ledger.least_id(effective_date date) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (encode((substr(int4send((effective_date - '1970-01-01'::date)), 2) || decode(repeat('00'::text, 13), 'hex'::text)), 'hex'::text))::uuid;

COMMENT ON FUNCTION ledger.least_id(effective_date date) IS 'An id before those of all items of an effective date, and after those of the dates before.';

CREATE FUNCTION ledger.lift_sequence(name text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET lock_timeout TO '50ms'
    AS $$
declare
  per_second constant bigint := 8192;  -- for 34 years within the 2^43 numbers of a cell
  tries constant integer := 40;
  target bigint;
begin
  if name not in ('fence', 'run_run_no_seq') then
    raise exception using errcode = '22023', message = format('no numbers of %L are lifted', name);
  end if;
  for try in 1..tries loop
    begin
      perform from ledger.cell for update;  -- one at a time: two would each hold what the other waits for
      select s.seqmin + floor(extract(epoch from clock_timestamp() - '2026-01-01 00:00Z'::timestamptz) * per_second) into target
      from pg_sequence s where s.seqrelid = format('ledger.%I', name)::regclass;
      if target - coalesce(pg_sequence_last_value(format('ledger.%I', name)::regclass), 0) <= per_second then
        return;
      end if;
      -- Changes nothing, but takes the lock that excludes nextval: setval beside one could give a number twice.
      execute format('alter sequence ledger.%I set logged', name);
      perform setval(s.seqrelid, least(target, s.seqmax))
      from pg_sequence s
      where s.seqrelid = format('ledger.%I', name)::regclass
        and least(target, s.seqmax) > coalesce(pg_sequence_last_value(s.seqrelid), 0);
      return;
    exception when lock_not_available then
      -- A session that holds it so long has taken a number, and had the sequence lifted before: after any restore.
      if try = tries then
        return;
      end if;
      -- Others take numbers meanwhile: who waits for the lock holds them up.
      perform pg_sleep(0.05);
    end;
  end loop;
end $$;

COMMENT ON FUNCTION ledger.lift_sequence(name text) IS 'Lift the fences or the run numbers to the clock, where they are more than a second''s worth behind it: what a restored copy or a promoted standby gave before is below. Called before the first number that a connection takes.';

CREATE FUNCTION ledger.list_in_flight(flow_nos integer[]) RETURNS TABLE(item_no bigint, effective_date date, state smallint, entered_at timestamp with time zone, attempt smallint, worker_no bigint)
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  with asked as materialized (
    select n.flow_no from unnest(list_in_flight.flow_nos) n (flow_no)
  ),
  handed as materialized (
    select c.item_no, c.effective_date, c.attempt, c.started, c.claimed_at
    from ledger.claim c
    where c.closed_at is null and (c.flow_nos is null or exists (
      select from unnest(c.flow_nos) n (flow_no) where (n.flow_no in (select a.flow_no from asked a)) is true))
  ),
  running as materialized (
    select r.ended, r.started_at, r.worker_no, c.item_no[r.from_position:r.to_position] as item_no,
      c.effective_date[r.from_position:r.to_position] as effective_date, c.attempt[r.from_position:r.to_position] as attempt
    from ledger.run r
    join ledger.claim c on c.fence = r.fence and c.claimed_at = r.claimed_at
    where r.closed_at is null and (c.flow_nos is null or exists (
      select from unnest(c.flow_nos) n (flow_no) where (n.flow_no in (select a.flow_no from asked a)) is true))
  )
  select u.item_no, u.effective_date, 2::smallint /* Claimed */, h.claimed_at, u.attempt, null::bigint
  from handed h
  cross join lateral unnest(h.item_no, h.effective_date, h.attempt) with ordinality u (item_no, effective_date, attempt, position)
  where u.position > h.started
  union all
  select u.item_no, u.effective_date, 3::smallint /* Running */, r.started_at, u.attempt, r.worker_no
  from running r
  cross join lateral unnest(r.item_no, r.effective_date, r.attempt) with ordinality u (item_no, effective_date, attempt, place)
  where get_bit(r.ended, u.place::integer - 1) = 0
$$;

COMMENT ON FUNCTION ledger.list_in_flight(flow_nos integer[]) IS 'Items that are claimed or running, of the claims that have items of these flows. Others may be among them.';

CREATE FUNCTION ledger.list_runs(run_nos bigint[], first_started_at timestamp with time zone, last_started_at timestamp with time zone) RETURNS TABLE(run_no bigint, started_at timestamp with time zone, fence bigint, claimed_at timestamp with time zone, from_position integer, to_position integer, worker_no bigint, ended bit varying, closed_at timestamp with time zone)
    LANGUAGE plpgsql STABLE ROWS 10
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  runs integer;
begin
  return query
  select r.run_no, r.started_at, r.fence, r.claimed_at, r.from_position, r.to_position, r.worker_no, r.ended, r.closed_at
  from ledger.run r
  where r.run_no = any (run_nos) and r.started_at between first_started_at and last_started_at;
  get diagnostics runs = row_count;
  if runs < cardinality(run_nos) then
    return query
    select r.run_no, r.started_at, r.fence, r.claimed_at, r.from_position, r.to_position, r.worker_no, r.ended, r.closed_at
    from ledger.run r
    where r.run_no = any (run_nos) and (r.started_at < first_started_at or r.started_at > last_started_at);
  end if;
end $$;

COMMENT ON FUNCTION ledger.list_runs(run_nos bigint[], first_started_at timestamp with time zone, last_started_at timestamp with time zone) IS 'Runs, looked for at these times first, and at all others only where one is missing.';

CREATE FUNCTION ledger.list_sequences() RETURNS TABLE(name text, used double precision, seconds_ahead double precision)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  select c.relname::text,
    (coalesce(n.last, s.seqmin - 1) - s.seqmin + 1) / (s.seqmax - s.seqmin + 1.0),
    case when c.relname in ('fence', 'run_run_no_seq') then
      (n.last - s.seqmin) / 8192.0 - extract(epoch from clock_timestamp() - '2026-01-01 00:00Z'::timestamptz) end
  from pg_sequence s
  join pg_class c on c.oid = s.seqrelid and c.relnamespace = 'ledger'::regnamespace and c.relname <> 'sleep_until'
  cross join lateral (select pg_sequence_last_value(s.seqrelid)) n (last)
  order by c.relname;
$$;

COMMENT ON FUNCTION ledger.list_sequences() IS 'Which part of its stripe each sequence has given, and how far those that follow the clock are ahead of it.';

CREATE FUNCTION ledger.lock_name(subject text, name text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  insert into ledger.lock_row (subject, key) values (lock_name.subject, lock_name.name) on conflict do nothing;
  perform ledger.lock_rows(lock_name.subject, array[lock_name.name]);
end $$;

COMMENT ON FUNCTION ledger.lock_name(subject text, name text) IS 'Lock a name until the transaction ends, whether or not there is a row of what it names.';

CREATE FUNCTION ledger.lock_partitions() RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  lock table ledger.partition_span in share row exclusive mode nowait;
  return true;
exception when lock_not_available then
  return false;
end $$;

COMMENT ON FUNCTION ledger.lock_partitions() IS 'Let no table partition be made until the transaction ends; false where one is being made.';

CREATE FUNCTION ledger.lock_rows(subject text, keys text[]) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  locked integer;
begin
  with locked_row as (
    select from ledger.lock_row l where l.subject = lock_rows.subject and l.key = any (keys) order by l.key for update
  )
  select count(*) into locked from locked_row;
  return locked;
end $$;

COMMENT ON FUNCTION ledger.lock_rows(subject text, keys text[]) IS 'Lock rows of lock_row until the transaction ends, one after another in the order of their keys; returns how many.';

CREATE FUNCTION ledger.machine_now() RETURNS timestamp with time zone
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE WHEN (COALESCE(current_setting('ledger.machine_clock'::text, true), ''::text) = ''::text) THEN statement_timestamp() ELSE ledger.simulated_time(current_setting('ledger.machine_clock'::text, true)) END;

COMMENT ON FUNCTION ledger.machine_now() IS 'The machine clock: leases, deadlines and heartbeats.';

CREATE FUNCTION ledger.make_partition(parent text, day date, rows_max integer DEFAULT 10000) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET "TimeZone" TO 'UTC'
    SET lock_timeout TO '25ms'
    SET enable_seqscan TO 'on'
    SET enable_hashjoin TO 'on'
    SET plan_cache_mode TO 'force_custom_plan'
    AS $_$
declare
  first_day date := ledger.partition_start(day);
  next_day date := ledger.partition_end(day);
  is_retired boolean := parent = 'due_item' and exists (
    select from ledger.retired_key r where r.id >= ledger.least_id(first_day) and r.id < ledger.least_id(next_day));
  suffix text := ledger.partition_name('', day) || case when is_retired then '_again' else '' end;
  tables text[] := case parent when 'due_item' then array['due_item', 'transition'] else array[parent] end;
  name text;
  copied tid[];
  fresh bigint[];
begin
  if parent not in ('due_item', 'event', 'claim', 'run')
    or day is null or day < date '1970-01-01' or day >= date '2200-01-01' then
    raise exception using errcode = 'DL003', message = format('no partition of %s holds %s', parent, day);
  end if;
  if parent <> 'due_item' or rows_max is null then
    perform set_config('lock_timeout', '10s', true);
  end if;
  -- One maker at a time; nobody but the ledger's owner may lock this table so.
  lock table ledger.partition_span in share row exclusive mode;
  if exists (
    select from ledger.partition_span p
    where p.parent = make_partition.parent and p.starts_on = first_day and p.leaf is not null
  ) then
    return false;
  end if;
  if parent = 'due_item' and not ledger.fits_one_move(first_day, next_day, rows_max) then
    insert into ledger.partition_span (parent, starts_on, ends_before)
    values (make_partition.parent, first_day, next_day)
    on conflict do nothing;
    return false;
  end if;

  foreach name in array tables loop
    execute format('create table ledger.%I (like ledger.%I including all excluding identity)', name || suffix, name);
  end loop;
  if parent in ('claim', 'run') then
    execute format(
      'alter table ledger.%I set (fillfactor = 70, autovacuum_vacuum_scale_factor = 0,'
      ' autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0)', parent || suffix);
  end if;
  if parent = 'due_item' then
    execute format(
      'with copy as (insert into ledger.%I'
      '  select * from ledger.due_item_default where effective_date >= $1 and effective_date < $2)'
      ' select coalesce(array_agg(ctid), %L) from ledger.due_item_default'
      ' where effective_date >= $1 and effective_date < $2', 'due_item' || suffix, '{}')
    into copied using first_day, next_day;

    lock table only ledger.due_item, only ledger.transition in share update exclusive mode;
    lock table ledger.due_item_default, ledger.transition_default in access exclusive mode;
    -- Rows that were emitted or changed since they were copied have another place in the table.
    select array_agg(d.item_no) into fresh from ledger.due_item_default d
    where d.effective_date >= first_day and d.effective_date < next_day
      and not exists (select from unnest(copied) c (tid) where c.tid = d.ctid);
    if cardinality(fresh) > rows_max / 10 or not ledger.fits_one_move(first_day, next_day, rows_max) then
      raise lock_not_available;
    end if;
    execute format('delete from ledger.%I where item_no = any ($1)', 'due_item' || suffix) using fresh;
    execute format(
      'insert into ledger.%I select * from ledger.due_item_default'
      ' where effective_date >= $1 and effective_date < $2 and item_no = any ($3)', 'due_item' || suffix)
    using first_day, next_day, fresh;
    delete from ledger.due_item_default d where d.effective_date >= first_day and d.effective_date < next_day;
    execute format(
      'with moved as ('
      '  delete from ledger.transition_default where effective_date >= $1 and effective_date < $2 returning *)'
      ' insert into ledger.%I select * from moved', 'transition' || suffix)
    using first_day, next_day;
  end if;
  foreach name in array tables loop
    execute format(
      'alter table ledger.%I attach partition ledger.%I for values from (%L) to (%L)',
      name, name || suffix, first_day, next_day);
  end loop;
  insert into ledger.partition_span as p (parent, starts_on, ends_before, leaf, has_retired)
  values (
    make_partition.parent, first_day, next_day, format('ledger.%I', parent || suffix)::regclass, is_retired)
  on conflict on constraint partition_span_pkey do update
  set leaf = excluded.leaf, made_at = excluded.made_at, has_retired = excluded.has_retired;
  return true;
exception when lock_not_available then
  if parent <> 'due_item' or rows_max is null then
    raise;
  end if;
  return false;
end $_$;

COMMENT ON FUNCTION ledger.make_partition(parent text, day date, rows_max integer) IS 'Make the table partition that holds a date, for due_item that of transition too, and move the rows that the default partitions have for it. False where it exists, or where it cannot be made now: somebody holds a default partition, or it has more than `rows_max` rows to move. Without `rows_max` it moves all, and everybody else waits.';

CREATE FUNCTION ledger.make_role(name text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  if to_regrole(name) is null then
    execute format('create role %I nologin', name);
  end if;
exception
  when duplicate_object or unique_violation then
    null;
  when insufficient_privilege then
    raise exception using
      errcode = '42501',
      message = format('%s lacks createrole, and there is no role %s yet', current_user, name),
      hint = format('let an administrator run: alter role %I createrole', current_user);
end $$;

COMMENT ON FUNCTION ledger.make_role(name text) IS 'Make a role without login, with the caller''s rights, unless there is one.';

CREATE FUNCTION ledger.match_items(wanted ledger.item_filter, after_item_no bigint, examined_max integer, matched_max integer, OUT items ledger.matched_item[], OUT reached_item_no bigint) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

COMMENT ON FUNCTION ledger.match_items(wanted ledger.item_filter, after_item_no bigint, examined_max integer, matched_max integer, OUT items ledger.matched_item[], OUT reached_item_no bigint) IS 'The next items by number that a filter matches: at most matched_max, among at most examined_max open ones. reached_item_no: number up to which items were examined; null where no open item is left. Without after_item_no, items are examined by the flows of the filter, in no order: that counts, and names no place from which to go on.';

CREATE FUNCTION ledger.measure_depth(up_to integer DEFAULT 10000, of_flows integer[] DEFAULT NULL::integer[], counts_waiting boolean DEFAULT true) RETURNS TABLE(tenant text, kind text, lane text, topic text, count_max integer, due integer, available_since timestamp with time zone, waiting integer, blocked integer, retrying integer, claimed integer, running integer, parked integer)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
  with locked_default as (select from ledger.due_item_default),
  asked as materialized (
    select n.flow_no from unnest(of_flows) n (flow_no)
  ),
  bounds as materialized (
    select least(greatest(up_to, 1), greatest(200000 / greatest(f.flows, 1), 100))::integer as count_max,
      100000 as open_max, ledger.now() as now
    from (select coalesce(cardinality(of_flows), (select count(*) from ledger.flow)) as flows) f
  ),
  open_items as materialized (
    select o.item_no, o.effective_date, o.is_running
    from (
      select u.item_no, u.effective_date, false as is_running
      from ledger.claim c
      cross join lateral unnest(c.item_no[c.started + 1:], c.effective_date[c.started + 1:]) u (item_no, effective_date)
      where c.closed_at is null and c.deadline > '-infinity' and c.flow_no is null
        and (of_flows is null or c.flow_nos is null or exists (
          select from unnest(c.flow_nos) n (flow_no) where (n.flow_no in (select a.flow_no from asked a)) is true))
      union all
      select u.item_no, u.effective_date, true
      from ledger.run r
      join ledger.claim c on c.fence = r.fence and c.claimed_at = r.claimed_at
      cross join lateral unnest(
        c.item_no[r.from_position:r.to_position], c.effective_date[r.from_position:r.to_position]
      ) with ordinality u (item_no, effective_date, n)
      where r.closed_at is null and r.lease_until > '-infinity' and r.flow_no is null
        and get_bit(r.ended, u.n::integer - 1) = 0
        and (of_flows is null or c.flow_nos is null or exists (
          select from unnest(c.flow_nos) n (flow_no) where (n.flow_no in (select a.flow_no from asked a)) is true))
    ) o
    limit (select open_max + 1 from bounds)
  ),
  in_flight as materialized (
    select o.flow_no, sum(o.claimed)::integer as claimed, sum(o.running)::integer as running
    from (
      select i.flow_no, (not o.is_running)::integer as claimed, o.is_running::integer as running
      from open_items o join ledger.due_item i on i.effective_date = o.effective_date and i.item_no = o.item_no
      where (select count(*) from open_items) <= (select open_max from bounds)
      union all
      select c.flow_no, c.size - c.started, 0
      from ledger.claim c
      where c.closed_at is null and c.flow_no is not null
      union all
      select r.flow_no, 0, bit_length(r.ended) - bit_count(r.ended)::integer
      from ledger.run r
      where r.closed_at is null and r.flow_no is not null
    ) o
    group by o.flow_no
  )
  select k.tenant, k.name, f.lane, k.topic, b.count_max,
    due.items, due.since, case when counts_waiting then later.items end, blocked.items, least(due.retries + later.retries, b.count_max),
    case when open.items <= b.open_max then coalesce(h.claimed, 0) end,
    case when open.items <= b.open_max then coalesce(h.running, 0) end,
    parked.items
  from bounds b
  join ledger.flow f on of_flows is null or (f.flow_no in (select a.flow_no from asked a)) is true
  join ledger.kind k on k.kind_no = f.kind_no
  left join in_flight h on h.flow_no = f.flow_no
  cross join (select count(*) as items from open_items) open
  cross join lateral (
    select least(count(*), b.count_max)::integer as items, min(p.available_at) as since,
      least(count(*) filter (where p.is_retry), b.count_max)::integer as retries
    from (
      (select p.available_at, false from ledger.pending p
       where p.flow_no = f.flow_no and p.state = 1 /* Scheduled */ and p.serial is null and p.available_at <= b.now
       order by p.available_at limit b.count_max)
      union all
      (select p.available_at, true from ledger.pending p
       where p.flow_no = f.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null and p.available_at <= b.now
       order by p.available_at limit b.count_max)
      union all
      (select p.available_at, false from ledger.pending p
       where p.flow_no = f.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null and p.available_at <= b.now
       order by p.available_at limit b.count_max)
      union all
      (select p.available_at, true from ledger.pending p
       where p.flow_no = f.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is not null and p.available_at <= b.now
       order by p.available_at limit b.count_max)
    ) p (available_at, is_retry)
  ) due
  cross join lateral (
    select least(count(*), b.count_max)::integer as items,
      least(count(*) filter (where p.is_retry), b.count_max)::integer as retries
    from (
      (select false from ledger.pending p
       where p.flow_no = f.flow_no and p.state = 1 /* Scheduled */ and p.serial is null and p.available_at > b.now
       limit case when counts_waiting then b.count_max else 0 end)
      union all
      (select true from ledger.pending p
       where p.flow_no = f.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null and p.available_at > b.now
       limit b.count_max)
      union all
      (select false from ledger.pending p
       where p.flow_no = f.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null
         and p.available_at > b.now and p.available_at < 'infinity'
       limit case when counts_waiting then b.count_max else 0 end)
      union all
      (select true from ledger.pending p
       where p.flow_no = f.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is not null
         and p.available_at > b.now and p.available_at < 'infinity'
       limit b.count_max)
    ) p (is_retry)
  ) later
  cross join lateral (
    select least(count(*), b.count_max)::integer as items
    from (
      (select from ledger.pending p
       where p.flow_no = f.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null and p.available_at = 'infinity'
       limit b.count_max)
      union all
      (select from ledger.pending p
       where p.flow_no = f.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is not null
         and p.available_at = 'infinity'
       limit b.count_max)
    ) p
  ) blocked
  cross join lateral (
    select count(*)::integer as items
    from (select from ledger.review r where r.flow_no = f.flow_no limit b.count_max) r
  ) parked
$$;

COMMENT ON FUNCTION ledger.measure_depth(up_to integer, of_flows integer[], counts_waiting boolean) IS 'Counts of the items of each flow that have not ended, read from indexes. A count equal to count_max means that many or more. count_max is up_to, or less for many flows: 200,000 divided by their number, at least 100. claimed and running are null while more than 100,000 items of flows without a limit are in flight. of_flows: these alone; null: all. Without counts_waiting, waiting is null: most items of a ledger may wait, and who wants the other counts need not read them.';

CREATE FUNCTION ledger.measure_gauges(series_max integer DEFAULT 8) RETURNS TABLE(metric text, labels text[], value double precision)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
  with locked_default as (select from ledger.due_item_default),
  flows as materialized (
    select d.*, f.flow_no, k.dispatch, k.settled_by, k.grace_seconds
    from ledger.measure_depth() d
    join ledger.flow f on f.tenant = d.tenant and f.kind = d.kind and f.lane = d.lane
    join ledger.kind k on k.kind_no = f.kind_no
  ),
  -- A claim is handed out as a whole, so the first of its items that have not ended are enough.
  in_flight as materialized (
    select u.item_no, u.effective_date
    from (
      select c.item_no, c.effective_date, c.started, c.size from ledger.claim c
      where c.closed_at is null and c.deadline > '-infinity' and c.started < c.size
      order by c.claimed_at limit 100
    ) c
    cross join lateral unnest(c.item_no[c.started + 1:c.started + 3], c.effective_date[c.started + 1:c.started + 3])
      u (item_no, effective_date)
    union all
    select c.item_no[p], c.effective_date[p]
    from (
      select r.fence, r.claimed_at, r.from_position, r.to_position, r.ended from ledger.run r
      where r.closed_at is null and r.lease_until > '-infinity'
      order by r.started_at limit 100
    ) r
    join ledger.claim c on c.fence = r.fence and c.claimed_at = r.claimed_at
    cross join lateral (
      select p from generate_series(r.from_position, r.to_position) p
      where get_bit(r.ended, p - r.from_position) = 0 limit 3
    ) p
  ),
  -- Of those that wait, some of each sort: first attempts, retries and serial items, that are due, in their backoff or behind
  -- another one of their key. The items that have waited longest are those due first, but for retries.
  late as materialized (
    select o.tenant, o.kind, o.topic, o.dispatch, extract(epoch from ledger.now() - min(o.sla_at)) as seconds
    from (
      select o.tenant, o.kind, o.topic, o.dispatch,
        coalesce(i.complete_by, i.due_at + make_interval(secs => o.grace_seconds)) as sla_at
      from (
        select f.* from flows f where f.due > 0 or f.retrying > 0 or f.blocked > 0 order by f.available_since limit 100
      ) o
      cross join lateral (
        (select p.item_no, p.effective_date from ledger.pending p
         where p.flow_no = o.flow_no and p.state = 1 /* Scheduled */ and p.serial is null and p.available_at <= ledger.now()
         order by p.available_at limit 10)
        union all
        (select p.item_no, p.effective_date from ledger.pending p
         where p.flow_no = o.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is null
         order by p.available_at limit 10)
        union all
        (select p.item_no, p.effective_date from ledger.pending p
         where p.flow_no = o.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null and p.available_at <= ledger.now()
         order by p.available_at limit 10)
        union all
        (select p.item_no, p.effective_date from ledger.pending p
         where p.flow_no = o.flow_no and p.state = 1 /* Scheduled */ and p.serial is not null and p.available_at = 'infinity'
         limit 10)
        union all
        (select p.item_no, p.effective_date from ledger.pending p
         where p.flow_no = o.flow_no and p.state = 4 /* RetryableFailure */ and p.serial is not null
         order by p.available_at limit 10)
      ) p
      cross join lateral (  -- `offset 0`: each is found by its key, however few rows the plan was made for
        select i.due_at, i.complete_by from ledger.due_item i
        where i.effective_date = p.effective_date and i.item_no = p.item_no offset 0
      ) i
      union all
      select k.tenant, k.name, k.topic, k.dispatch, coalesce(i.complete_by, i.due_at + make_interval(secs => k.grace_seconds))
      from in_flight o
      cross join lateral (
        select i.flow_no, i.due_at, i.complete_by from ledger.due_item i
        where i.effective_date = o.effective_date and i.item_no = o.item_no offset 0
      ) i
      join ledger.flow f on f.flow_no = i.flow_no
      join ledger.kind k on k.kind_no = f.kind_no
    ) o
    where o.sla_at < ledger.now()
    group by o.tenant, o.kind, o.topic, o.dispatch
  ),
  parked as materialized (
    select f.tenant, f.kind, count(*) filter (where r.reason = 'attempts exhausted') as exhausted, min(r.parked_at) as since
    from flows f
    cross join lateral (
      select r.reason, r.parked_at from ledger.review r where r.flow_no = f.flow_no order by r.parked_at limit f.count_max
    ) r
    where f.parked > 0
    group by f.tenant, f.kind
  ),
  kinds as materialized (
    select f.tenant, f.kind, f.topic, f.dispatch, sum(f.due) as due, min(f.available_since) as since,
      sum(f.retrying) as retrying, sum(f.parked) as parked, sum(f.claimed) as claimed, sum(f.running) as running
    from flows f
    group by f.tenant, f.kind, f.topic, f.dispatch
  ),
  processes as materialized (
    select s.role, s.status, s.kinds, s.failing_since, s.failed_service, s.certificate_expires_at
    from ledger.process_status s
    where s.status <> 'ended' and s.seen_at > ledger.machine_now() - interval '1 hour'
  ),
  topics as materialized (
    select f.topic, f.dispatch, sum(f.due) as due, min(f.available_since) as since
    from flows f
    cross join lateral (
      select exists (select from processes p where p.role = 'allocator' and p.status = 'live') as is_published,
        exists (select from ledger.credit c where c.topic = f.topic and c.granted_until > ledger.machine_now()) as is_read
    ) o
    where f.due > 0
      and not (f.dispatch <> 'direct' and o.is_published and (f.settled_by = 'topic' or o.is_read))
      and not exists (
        select from processes p
        where p.role in ('direct_worker', 'service') and p.status = 'live' and f.kind = any (p.kinds))
      -- A pull worker that is at work asks for nothing.
      and not ((f.dispatch = 'direct' or not o.is_published) and exists (
        select from kinds k where k.tenant = f.tenant and k.kind = f.kind and k.running > 0))
    group by f.topic, f.dispatch
  ),
  -- With is_max the others are shown by their greatest value, otherwise by their sum. The first by `place` have series of their own:
  -- where an alert stands, by an age, which grows for all alike, so that what is added elsewhere moves none of them to the others.
  named (metric, names, value, is_max, place) as materialized (
    select v.metric, array[k.tenant, k.kind], v.value, false, v.value
    from kinds k
    cross join lateral (values
      ('dueledger_due_items', k.due), ('dueledger_retrying_items', k.retrying), ('dueledger_claimed_items', k.claimed),
      ('dueledger_running_items', k.running)
    ) v (metric, value)
    union all
    select 'dueledger_oldest_due_seconds', array[k.tenant, k.kind, k.topic, k.dispatch],
      extract(epoch from ledger.now() - k.since), true, extract(epoch from ledger.now() - k.since)
    from kinds k
    union all
    select 'dueledger_late_seconds', array[l.tenant, l.kind, l.topic, l.dispatch], l.seconds, true, l.seconds from late l
    union all
    select 'dueledger_parked_items', array[k.tenant, k.kind], k.parked, false, extract(epoch from ledger.now() - r.since)
    from kinds k left join parked r on r.tenant = k.tenant and r.kind = k.kind
    union all
    select 'dueledger_exhausted_items', array[r.tenant, r.kind], r.exhausted, false, extract(epoch from ledger.now() - r.since)
    from parked r
    union all
    select 'dueledger_unserved_items', array[t.topic, t.dispatch], t.due, false, extract(epoch from ledger.now() - t.since)
    from topics t
    union all
    select 'dueledger_credit_items', array[c.topic], sum(c.items), false, sum(c.items)
    from ledger.credit c where c.granted_until > ledger.machine_now() group by c.topic
    union all
    select 'dueledger_silent_topic_seconds', array[s.topic], a.seconds, true, a.seconds
    from ledger.silent_topic s
    cross join lateral (select extract(epoch from ledger.machine_now() - s.since) as seconds) a
    union all
    select 'dueledger_stalled_topic_seconds', array[s.topic], extract(epoch from ledger.machine_now() - min(s.stalled_at)), true,
      extract(epoch from ledger.machine_now() - min(s.stalled_at))
    from ledger.stalled_partition s group by s.topic
    union all
    select 'dueledger_watermark_age_seconds', array[w.tenant, w.kind], a.seconds, true, a.seconds
    from ledger.watermark w
    cross join lateral (
      select extract(epoch from ledger.now() - coalesce(w.complete_before, w.first_as_of)) as seconds) a
  ),
  named_ranked as materialized (
    select n.*, row_number() over (partition by n.metric order by n.place desc nulls last, n.names) <= series_max as is_shown
    from named n
    where n.value is not null
  )
  select m.metric, m.labels, m.value::double precision
  from (
    select n.metric, case when n.is_shown then n.names else array_fill('other'::text, array[cardinality(n.names)]) end,
      case when bool_and(n.is_max) then max(n.value) else sum(n.value) end
    from named_ranked n
    group by 1, 2
    union all
    select 'dueledger_open_findings', array[f.type, f.severity], count(*)
    from (select f.type, f.severity from ledger.finding f where f.closed_at is null limit 100000) f
    group by f.type, f.severity
    union all
    -- Where no reconciler ever made a pass, since the ledger was made, if it has any kind.
    select 'dueledger_reconciled_seconds', '{}', coalesce(
      extract(epoch from ledger.now() - max(w.as_of)),
      (select extract(epoch from ledger.machine_now() - min(s.made_at)) from ledger.partition_span s
       where exists (select from ledger.kind)))
    from ledger.watermark w
    union all
    select 'dueledger_processes', array[p.role, p.status], count(*) from processes p group by p.role, p.status
    union all
    -- A service claims for pull workers; beside an allocator that was killed it is no replacement.
    select 'dueledger_claimers', array[p.role], count(*)
    from processes p
    where p.status = 'live' and (p.role in ('allocator', 'direct_worker') or p.role = 'service' and not exists (
      select from processes k where k.role in ('allocator', 'direct_worker') and k.status <> 'live'))
    group by p.role
    union all
    select 'dueledger_failing_processes', array[p.role, coalesce(p.failed_service, '')], count(*)
    from processes p where p.status = 'live' and p.failing_since is not null group by 2
    union all
    select 'dueledger_certificate_expiry_seconds', '{}', extract(epoch from min(p.certificate_expires_at) - ledger.machine_now())
    from processes p where p.status = 'live'
    union all
    select 'dueledger_oldest_transaction_seconds', '{}', coalesce(max(extract(epoch from clock_timestamp() - a.xact_start)), 0)
    from pg_stat_activity a where a.backend_type = 'client backend' and a.datname = current_database()
    union all
    select 'dueledger_oldest_snapshot_transactions', '{}', coalesce(max(age(a.backend_xmin)), 0) from pg_stat_activity a
    union all
    select 'dueledger_database_bytes', '{}', pg_database_size(current_database())
  ) m (metric, labels, value)
  where m.value is not null
$$;

COMMENT ON FUNCTION ledger.measure_gauges(series_max integer) IS 'Metrics of the whole ledger by name and labels, as docs/metrics.md describes them. Each has at most series_max names of tenants, kinds or topics, and ''other'' for the rest.';

CREATE FUNCTION ledger.measure_overview_rates(runs_max integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
declare
  reader ledger.overview_reader;
  begins constant timestamptz := ledger.now() - interval '5 minutes';
  measured_at constant timestamptz := ledger.machine_now();
  found_run bigint;
  flows integer;
begin
  select * into reader from ledger.overview_reader for update;
  if not found then
    return 0;
  end if;
  with locked_default as (select from ledger.due_item_default),
  latest as materialized (
    select r.run_no, r.started_at, r.fence, r.claimed_at, r.from_position, r.to_position, bit_count(r.ended)::integer as ended
    from ledger.run r
    where r.run_no >= reader.rated_from_run and r.started_at >= ledger.overview_begin()
    order by r.run_no desc limit runs_max
  ),
  recent as materialized (
    select l.*, c.flow_nos
    from latest l
    cross join lateral (
      select c.flow_nos from ledger.claim c where c.fence = l.fence and c.claimed_at = l.claimed_at offset 0
    ) c
    where l.started_at >= greatest(reader.rated_from, begins)
  ),
  span as materialized (
    select greatest(1, extract(epoch from ledger.now() - case when count(*) < runs_max then greatest(reader.rated_from, begins)
      else min(r.started_at) end))::double precision as seconds
    from recent r
  ),
  -- Of a run with items of several flows, sixteen items say whose they are.
  counted as materialized (
    select e.flow_no, sum(e.items) as items
    from (
      select r.flow_nos[1] as flow_no, r.ended::double precision as items from recent r where cardinality(r.flow_nos) = 1
      union all
      select i.flow_no, r.ended::double precision / least(cardinality(c.item_nos), 16)
      from recent r
      cross join lateral (
        select c.item_no[r.from_position:r.to_position] as item_nos, c.effective_date[r.from_position:r.to_position] as dates
        from ledger.claim c where c.fence = r.fence and c.claimed_at = r.claimed_at offset 0
      ) c
      cross join lateral generate_series(0, least(cardinality(c.item_nos), 16) - 1) n
      cross join lateral (select 1 + n * cardinality(c.item_nos) / least(cardinality(c.item_nos), 16) as position offset 0) p
      cross join lateral (
        select i.flow_no from ledger.due_item i
        where i.effective_date = c.dates[p.position] and i.item_no = c.item_nos[p.position] offset 0
      ) i
      where r.ended > 0 and coalesce(cardinality(r.flow_nos), 0) <> 1
    ) e
    group by e.flow_no
  ),
  written as (
    update ledger.overview_flow o set rate_per_second = c.items / s.seconds, rated_at = measured_at
    from counted c cross join span s
    where o.flow_no = c.flow_no
    returning o.flow_no
  )
  select coalesce((select min(r.run_no) from recent r), (select max(l.run_no) from latest l)), (select count(*)::integer from written)
  into found_run, flows;
  update ledger.overview_reader r set rated_at = measured_at, rated_from_run = coalesce(found_run, reader.rated_from_run);
  return flows;
end $$;

COMMENT ON FUNCTION ledger.measure_overview_rates(runs_max integer) IS 'Measure how many items of each flow ended a second, by the latest runs: those of five minutes, at most so many. Returns of how many flows.';

CREATE FUNCTION ledger.move_items(definition_no bigint, ids uuid[], due_ats timestamp with time zone[], decisions text[], skip_reasons text[], tzdata text, actor bigint, change_no bigint) RETURNS TABLE(ord bigint)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
begin
  return query
  with locked_default as (select from ledger.due_item_default),
  existing as materialized (
    select n.ord, n.due_at as moved_to, n.decision as decided, n.skip_reason, i as item
    from unnest(ids, due_ats, decisions, skip_reasons) with ordinality n (id, due_at, decision, skip_reason, ord)
    join ledger.due_item i on i.id = n.id and i.effective_date = ledger.effective_date_of(n.id)
    where i.definition_no = move_items.definition_no and i.due_at > ledger.now()
      and i.tzdata is distinct from move_items.tzdata
      and not exists (select from ledger.expedited x where x.item_no = i.item_no)
  ),
  locked as materialized (
    select p.item_no
    from existing s
    join ledger.pending p on p.item_no = (s.item).item_no
    where p.state = 1 /* Scheduled */ and p.attempt = 0 and p.starts = 0
    order by p.item_no
    for update of p
  ),
  taken as materialized (
    select s.* from existing s join locked l on l.item_no = (s.item).item_no
  ),
  changed as (
    update ledger.due_item i
    set due_at = t.moved_to, decision = t.decided, tzdata = move_items.tzdata,
      start_by = i.start_by + (t.moved_to - i.due_at), complete_by = i.complete_by + (t.moved_to - i.due_at)
    from taken t
    where i.effective_date = (t.item).effective_date and i.item_no = (t.item).item_no and t.moved_to is not null
  ),
  moved as (
    update ledger.pending p
    set serial_due_at = case when p.serial is not null then t.moved_to end,
      available_at = case when p.available_at = 'infinity' then p.available_at
        else greatest(ledger.available_from(t.moved_to, (t.item).due_at, p.available_at), p.snoozed_until) end
    from taken t
    where p.item_no = (t.item).item_no and t.moved_to is not null
  ),
  ended as (
    delete from ledger.pending p using taken t
    where p.item_no = (t.item).item_no and t.moved_to is null
    returning p.item_no
  ),
  obsolete as (
    delete from ledger.withdrawal w where w.item_no = any (array(select e.item_no from ended e))
  ),
  journal as (
    insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at, detail)
    select (t.item).effective_date, (t.item).item_no,
      case when t.moved_to is not null then 15 /* revised */
        when t.skip_reason is not null then 13 /* skipped */ else 12 /* superseded */ end,
      0, actor, ledger.now(),
      jsonb_strip_nulls(jsonb_build_object(
        'reason', 'tzdata', 'due_at', t.moved_to, 'tzdata', move_items.tzdata, 'tz_change', move_items.change_no,
        'before', jsonb_build_object(
          'due_at', (t.item).due_at, 'tzdata', (t.item).tzdata, 'decision', (t.item).decision)))
      || ledger.skip_detail(t.skip_reason)
    from taken t
  )
  select t.ord from taken t order by t.ord;
end $$;

COMMENT ON FUNCTION ledger.move_items(definition_no bigint, ids uuid[], due_ats timestamp with time zone[], decisions text[], skip_reasons text[], tzdata text, actor bigint, change_no bigint) IS 'Let items of a version that were never handed out and are still to come (Scheduled) be due at other instants; SLA deadlines move along. An item without an instant ends, as Skipped where a reason is given, else as Superseded. Returns the inputs that moved or ended.';

CREATE FUNCTION ledger.name_repair_tenant() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  new.tenant := (select f.tenant from ledger.finding f where f.id = new.finding_id);
  return new;
end $$;

COMMENT ON FUNCTION ledger.name_repair_tenant() IS 'Names the tenant of a repair, which is that of its finding.';

CREATE FUNCTION ledger.needs_person(type text) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    AS $$
begin
  -- Not inlined: a query of some of these types would seem to be one of the index of all of them.
  return type in (
    'UNEXPECTED', 'DUPLICATE', 'WRONG_DATE', 'WRONG_TERMS', 'UNEXCUSED', 'PREMATURE', 'OUTCOME_CONFLICT', 'EFFECT_MISSING',
    'EFFECT_REPEATED', 'EVENT_UNMATCHED', 'UNBALANCED', 'ORPHAN_RECORD', 'RECORD_MISSING', 'TAMPERED', 'SOURCE_FAILED',
    'DEFINITION_FAILED', 'DISAGREES');
end $$;

COMMENT ON FUNCTION ledger.needs_person(type text) IS 'Whether a person decides about findings of a type: no repair is applied to them.';

CREATE FUNCTION ledger.none_lost(taken bigint, seen bigint) RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  if taken = seen or current_setting('ledger.orphans', true) = 'dropped' then
    return true;
  end if;
  raise exception using
    errcode = 'DL005',
    message = format('%s items were taken and %s of them found in due_item', taken, seen),
    detail = 'A partition of due_item is newer than the plan of this statement. Nothing was changed.',
    hint = 'repeat it in a new transaction';
end $$;

COMMENT ON FUNCTION ledger.none_lost(taken bigint, seen bigint) IS 'Raise DL005 where a statement took items and did not find all of them in due_item.';

CREATE TABLE ledger.expedited (
    item_no bigint NOT NULL,
    effective_date date NOT NULL,
    expedited_at timestamp with time zone NOT NULL,
    actor_no bigint NOT NULL,
    reason text NOT NULL,
    flow_no integer NOT NULL,
    due_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE ledger.expedited IS 'Items that a named person made available before due_at, which stays as it is.';

CREATE FUNCTION ledger.not_before(item_no bigint, due_at timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE WHEN (EXISTS (SELECT FROM ledger.expedited e WHERE (e.item_no = not_before.item_no))) THEN ledger.now() ELSE GREATEST(due_at, ledger.now()) END;

COMMENT ON FUNCTION ledger.not_before(item_no bigint, due_at timestamp with time zone) IS 'From when an item may be handed out again.';

CREATE TABLE ledger.kind (
    kind_no integer NOT NULL,
    tenant text NOT NULL,
    name text NOT NULL,
    topic text NOT NULL,
    queue_seconds integer DEFAULT 120 NOT NULL,
    lease_seconds integer DEFAULT 60 NOT NULL,
    attempt_max smallint DEFAULT 5 NOT NULL,
    start_max smallint DEFAULT 30 NOT NULL,
    backoff_base_seconds double precision DEFAULT 10 NOT NULL,
    backoff_cap_seconds double precision DEFAULT 600 NOT NULL,
    grace_seconds integer DEFAULT 900 NOT NULL,
    dispatch text DEFAULT 'kafka'::text NOT NULL,
    http jsonb,
    settled_by text DEFAULT 'worker'::text NOT NULL,
    dispatch_seconds integer DEFAULT 30 NOT NULL,
    run_seconds double precision,
    total_seconds double precision,
    queue_late text DEFAULT 'retry'::text NOT NULL,
    run_late text DEFAULT 'retry'::text NOT NULL,
    ordering text DEFAULT 'none'::text NOT NULL,
    failure_holds boolean DEFAULT true NOT NULL,
    streak_max smallint DEFAULT 3 NOT NULL,
    outcome_topic text,
    compression text,
    no_replay boolean DEFAULT false NOT NULL,
    redacted_fields text[] DEFAULT '{}'::text[] NOT NULL,
    operation_approval_above integer,
    policy_version integer DEFAULT 1 NOT NULL,
    CONSTRAINT kind_compression_known CHECK ((compression = ANY (ARRAY['none'::text, 'gzip'::text, 'lz4'::text]))),
    CONSTRAINT kind_counts_positive CHECK (((attempt_max > 0) AND (start_max >= attempt_max))),
    CONSTRAINT kind_dispatch_known CHECK ((dispatch = ANY (ARRAY['kafka'::text, 'direct'::text, 'http'::text]))),
    CONSTRAINT kind_http_given CHECK (((dispatch = 'http'::text) = (http IS NOT NULL))),
    CONSTRAINT kind_late_known CHECK (((queue_late = ANY (ARRAY['retry'::text, 'park'::text])) AND (run_late = ANY (ARRAY['retry'::text, 'park'::text])))),
    CONSTRAINT kind_name_shape CHECK ((name ~ '^[A-Za-z0-9._-]{1,100}$'::text)),
    CONSTRAINT kind_operation_approval_bounded CHECK (((operation_approval_above >= 0) AND (operation_approval_above <= 10000))),
    CONSTRAINT kind_ordering_known CHECK ((ordering = ANY (ARRAY['none'::text, 'key'::text]))),
    CONSTRAINT kind_policy_positive CHECK (((dispatch_seconds > 0) AND (run_seconds > (0)::double precision) AND (total_seconds > (0)::double precision) AND (streak_max > 0))),
    CONSTRAINT kind_redacted_fields_max CHECK ((cardinality(redacted_fields) <= 50)),
    CONSTRAINT kind_seconds_positive CHECK (((queue_seconds > 0) AND (lease_seconds > 0) AND (backoff_base_seconds > (0)::double precision) AND (backoff_cap_seconds >= backoff_base_seconds) AND (grace_seconds >= 0))),
    CONSTRAINT kind_settled_by_known CHECK ((settled_by = ANY (ARRAY['worker'::text, 'topic'::text]))),
    CONSTRAINT kind_tenant_shape CHECK ((tenant ~ '^[A-Za-z0-9._-]{1,100}$'::text))
);

COMMENT ON TABLE ledger.kind IS 'Types of work of each tenant, and how their items are handed out and retried. Made at the first emission, set by define.';

COMMENT ON COLUMN ledger.kind.topic IS 'Kafka topic to which claims of the kind are published.';

COMMENT ON COLUMN ledger.kind.queue_seconds IS 'Time from the acknowledgement by Kafka until a worker must have started the items.';

COMMENT ON COLUMN ledger.kind.lease_seconds IS 'Lease of a run that is settled by topic; a worker has a lease of its own.';

COMMENT ON COLUMN ledger.kind.attempt_max IS 'Attempts after which a failed item is parked.';

COMMENT ON COLUMN ledger.kind.start_max IS 'Starts after which an item is parked, snoozes and lost workers included.';

COMMENT ON COLUMN ledger.kind.backoff_base_seconds IS 'First bound of the backoff; it doubles with each attempt. Full jitter.';

COMMENT ON COLUMN ledger.kind.backoff_cap_seconds IS 'Upper bound of the backoff.';

COMMENT ON COLUMN ledger.kind.grace_seconds IS 'Time after due_at from which an open item is overdue.';

COMMENT ON COLUMN ledger.kind.dispatch IS 'How items reach a handler: through Kafka, claimed by workers (direct), or by HTTP.';

COMMENT ON COLUMN ledger.kind.http IS 'Endpoint and options of the dispatch by HTTP.';

COMMENT ON COLUMN ledger.kind.settled_by IS 'Who settles: the worker, or the consumers of the topic by reported outcomes.';

COMMENT ON COLUMN ledger.kind.dispatch_seconds IS 'Time from the claim until Kafka must have acknowledged it.';

COMMENT ON COLUMN ledger.kind.run_seconds IS 'Longest time of a run; no heartbeat extends its lease beyond it. Null: no limit.';

COMMENT ON COLUMN ledger.kind.total_seconds IS 'Time after due_at from which a failed item is parked and not retried. Null: no limit.';

COMMENT ON COLUMN ledger.kind.queue_late IS 'What happens to items that were not started in time.';

COMMENT ON COLUMN ledger.kind.run_late IS 'What happens to items of a run that took longer than run_seconds.';

COMMENT ON COLUMN ledger.kind.ordering IS 'Whether items of one partition key run one after another, in the order of due_at.';

COMMENT ON COLUMN ledger.kind.failure_holds IS 'Whether a failed serial item keeps its key until it ends.';

COMMENT ON COLUMN ledger.kind.streak_max IS 'Failures in a row of one business key that are flagged.';

COMMENT ON COLUMN ledger.kind.outcome_topic IS 'Kafka topic from which alone outcomes of the kind''s items are accepted; null: the one of the outcome intake''s settings.';

COMMENT ON COLUMN ledger.kind.compression IS 'Codec of the record batches of the topic; null: the one of the allocator''s settings.';

COMMENT ON COLUMN ledger.kind.no_replay IS 'Whether no item of the kind may be worked again by a repair once it was handed out, or may have been.';

COMMENT ON COLUMN ledger.kind.redacted_fields IS 'JSON Pointers into payloads whose values nobody is shown; handlers get them.';

COMMENT ON COLUMN ledger.kind.operation_approval_above IS 'Matched items above which an operation waits for a second person; null: it never does.';

COMMENT ON COLUMN ledger.kind.policy_version IS 'How often its policy was put. The row is sealed with it: one that was changed without is a finding.';

CREATE FUNCTION ledger.outcome_event(kind ledger.kind, event smallint, blamed boolean, attempt smallint, starts smallint, due_at timestamp with time zone, wait_seconds double precision) RETURNS smallint
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE WHEN ((event = ANY (ARRAY[6, 7, 8])) AND (starts >= (kind).start_max)) THEN 9 WHEN ((event = ANY (ARRAY[6, 7])) AND ((blamed AND (attempt >= (kind).attempt_max)) OR COALESCE(((ledger.now() + make_interval(secs => wait_seconds)) > (due_at + make_interval(secs => (kind).total_seconds))), false))) THEN 9 ELSE (event)::integer END;

COMMENT ON FUNCTION ledger.outcome_event(kind ledger.kind, event smallint, blamed boolean, attempt smallint, starts smallint, due_at timestamp with time zone, wait_seconds double precision) IS 'The event that the ledger records for an item: parked, where its kind permits no further attempt or start.';

CREATE FUNCTION ledger.overview_begin() RETURNS timestamp with time zone
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    RETURN date_bin('00:15:00'::interval, (ledger.now() - '24:00:00'::interval), '2000-01-01 00:00:00+00'::timestamp with time zone);

COMMENT ON FUNCTION ledger.overview_begin() IS 'The first quarter hour of the overview; it has 193.';

CREATE FUNCTION ledger.partition_backoff_span(expirations integer) RETURNS interval
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN make_interval(secs => LEAST((8)::double precision, power((2)::double precision, ((LEAST(expirations, 10) - 1))::double precision)));

COMMENT ON FUNCTION ledger.partition_backoff_span(expirations integer) IS 'How long the items of a partition wait after their claims expired unstarted so many times in a row: 1, 2, 4, then 8 seconds.';

CREATE FUNCTION ledger.partition_start(day date) RETURNS date
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN ((day >= '2020-01-01'::date) AND (day < '2050-01-01'::date)) THEN (date_trunc('month'::text, (day)::timestamp without time zone))::date ELSE (date_trunc('year'::text, (day)::timestamp without time zone))::date END;

COMMENT ON FUNCTION ledger.partition_start(day date) IS 'First day of the table partition that holds a date: of its month from 2020 to 2049, else of its year.';

CREATE FUNCTION ledger.partition_end(day date) RETURNS date
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ((ledger.partition_start(day) + CASE WHEN ((day >= '2020-01-01'::date) AND (day < '2050-01-01'::date)) THEN '1 mon'::interval ELSE '1 year'::interval END))::date;

COMMENT ON FUNCTION ledger.partition_end(day date) IS 'First day after the table partition that holds a date.';

CREATE FUNCTION ledger.partition_name(parent text, day date) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL SAFE
    RETURN (parent || CASE WHEN ((day >= '2020-01-01'::date) AND (day < '2050-01-01'::date)) THEN to_char((day)::timestamp without time zone, '_YYYYMM'::text) ELSE to_char((day)::timestamp without time zone, '_YYYY'::text) END);

COMMENT ON FUNCTION ledger.partition_name(parent text, day date) IS 'Name of the table partition that holds a date, whether or not it exists. One of items that was dropped and made again has another, so that of the items of this one no key is retired.';

CREATE FUNCTION ledger.pending_valid(state smallint, serial bigint, serial_due_at timestamp with time zone, overlap smallint) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $$
begin
  if state in (1 /* Scheduled */, 4 /* RetryableFailure */) and (
    serial is null and serial_due_at is null and overlap is null
    or serial is not null and serial_due_at is not null and overlap between 1 and 4)
  then
    return true;
  end if;
  raise exception using
    errcode = 'check_violation', schema = 'ledger', table = 'pending',
    constraint = 'pending_' || case
      when state not in (1 /* Scheduled */, 4 /* RetryableFailure */) then 'state_waits'
      when overlap not between 1 and 4 then 'overlap_known'
      else 'serial_whole'
    end,
    message = 'a pending row needs a state that waits, and serial, serial_due_at and overlap all or none';
end $$;

COMMENT ON FUNCTION ledger.pending_valid(state smallint, serial bigint, serial_due_at timestamp with time zone, overlap smallint) IS 'Whether a pending row is whole: its state waits, and it has all that makes it serial, or nothing of it. Raises 23514.';

CREATE FUNCTION ledger.process_key(process_no bigint, OUT class integer, OUT key integer) RETURNS record
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    BEGIN ATOMIC
 SELECT 1684828269,
     ((process_no & (2147483647)::bigint))::integer AS int4;
END;

COMMENT ON FUNCTION ledger.process_key(process_no bigint, OUT class integer, OUT key integer) IS 'The two numbers of the advisory lock of a process.';

CREATE FUNCTION ledger.read_overview_runs(items_max integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
declare
  reader ledger.overview_reader;
  begins constant timestamptz := ledger.overview_begin();
  -- Numbers are drawn before they can be seen: runs of statements that may still go on are left for later.
  until constant timestamptz := ledger.now() - make_interval(secs => 10 * ledger.clock_rate());
  chosen record;
  items integer := 0;
begin
  select * into reader from ledger.overview_reader for update;
  if not found or reader.read_at < begins then
    delete from ledger.overview;
    delete from ledger.overview_run;
    select coalesce(max(r.run_no), 0) into reader.read_to_run from (
      select r.run_no from ledger.run r where r.started_at between begins and until order by r.run_no desc limit 1) r;
    reader.read_from_run := reader.read_to_run + 1;
    reader.read_from := ledger.now();
    insert into ledger.overview_reader (read_at, read_to_run, read_from_run, read_from, rated_from_run)
    values (ledger.now(), reader.read_to_run, reader.read_from_run, reader.read_from, reader.read_to_run)
    on conflict (one) do update
    set read_at = excluded.read_at, read_to_run = excluded.read_to_run, read_from_run = excluded.read_from_run,
      read_from = excluded.read_from, rated_from = excluded.rated_from, rated_from_run = excluded.rated_from_run;
  end if;

  -- New runs, in the order of their numbers.
  select array_agg(n.run_no) filter (where n.closed_at is not null) as closed, array_agg(n.run_no) filter (where n.closed_at is null) as open,
    array_agg(n.started_at) filter (where n.closed_at is null) as open_started, min(n.started_at) as first_at, max(n.started_at) as last_at,
    max(n.run_no) as last_no, sum(n.size)::integer as size
  into chosen
  from (
    select r.*, sum(r.size) over w - r.size as before, bool_and(r.started_at <= until) over w as is_settled
    from (
      select r.run_no, r.started_at, r.closed_at, bit_length(r.ended) as size from ledger.run r
      where r.run_no > reader.read_to_run and r.started_at >= begins
      order by r.run_no limit 1000
    ) r
    window w as (order by r.run_no)
  ) n
  where n.is_settled and n.before < items_max;
  if chosen.size is not null then
    perform ledger.add_overview_runs(chosen.closed, chosen.first_at, chosen.last_at);
    insert into ledger.overview_run (run_no, started_at, checked_at)
    select u.run_no, u.started_at, ledger.machine_now() from unnest(chosen.open, chosen.open_started) u (run_no, started_at)
    on conflict (run_no) do nothing;
    reader.read_to_run := chosen.last_no;
    items := chosen.size;
  end if;

  -- Those that were open.
  if items < items_max then
    with checked as materialized (
      select o.run_no, o.started_at, r.closed_at, r.size, sum(coalesce(r.size, 0)) over (order by o.checked_at, o.run_no) as total
      from (select o.* from ledger.overview_run o order by o.checked_at limit 200) o
      left join lateral (
        select r.closed_at, bit_length(r.ended) as size from ledger.run r
        where r.run_no = o.run_no and r.started_at = o.started_at offset 0
      ) r on true
    ),
    finished as materialized (
      select c.* from checked c where c.closed_at is not null and c.total - c.size < items_max - items
    ),
    deleted as (
      delete from ledger.overview_run o
      where o.run_no = any (array(select f.run_no from finished f)) or o.started_at < begins
    ),
    kept as (
      update ledger.overview_run o set checked_at = ledger.machine_now()
      where o.run_no = any (array(select c.run_no from checked c where c.closed_at is null)) and o.started_at >= begins
    )
    select array_agg(f.run_no) as closed, min(f.started_at) as first_at, max(f.started_at) as last_at, sum(f.size)::integer as size
    into chosen from finished f;
    if chosen.size is not null then
      perform ledger.add_overview_runs(chosen.closed, chosen.first_at, chosen.last_at);
      items := items + chosen.size;
    end if;
  end if;

  -- Those that were there before it began, the latest first.
  if items < items_max and reader.read_from > begins then
    select array_agg(n.run_no) filter (where n.closed_at is not null) as closed,
      array_agg(n.run_no) filter (where n.closed_at is null) as open,
      array_agg(n.started_at) filter (where n.closed_at is null) as open_started, min(n.started_at) as first_at,
      max(n.started_at) as last_at, min(n.run_no) as last_no, sum(n.size)::integer as size
    into chosen
    from (
      select r.*, sum(r.size) over (order by r.run_no desc) - r.size as before
      from (
        select r.run_no, r.started_at, r.closed_at, bit_length(r.ended) as size from ledger.run r
        where r.run_no < reader.read_from_run and r.started_at between begins and until
        order by r.run_no desc limit 1000
      ) r
    ) n
    where n.before < items_max - items;
    if chosen.size is null then
      reader.read_from := '-infinity';
    else
      perform ledger.add_overview_runs(chosen.closed, chosen.first_at, chosen.last_at);
      insert into ledger.overview_run (run_no, started_at, checked_at)
      select u.run_no, u.started_at, ledger.machine_now() from unnest(chosen.open, chosen.open_started) u (run_no, started_at)
      on conflict (run_no) do nothing;
      reader.read_from_run := chosen.last_no;
      reader.read_from := chosen.first_at;
      items := items + chosen.size;
    end if;
  end if;

  update ledger.overview_reader r
  set read_at = ledger.now(), read_to_run = reader.read_to_run, read_from_run = reader.read_from_run, read_from = reader.read_from;
  return items;
end $$;

COMMENT ON FUNCTION ledger.read_overview_runs(items_max integer) IS 'Read the next runs for the overview, of about so many items: new ones, those that were open, and earlier ones of the last 24 hours. Returns the number of their items; 0: all are read.';

CREATE FUNCTION ledger.record_findings(reconciliation_no bigint, ids uuid[], types text[], severities text[], tenants text[], kinds text[], subjects text[], item_ids uuid[], business_keys text[], effective_dates date[], due_ats timestamp with time zone[], sentences text[], expecteds text[], actuals text[], terms text[], resolutions text[]) RETURNS TABLE(id uuid, opened_count integer, resolution text, first_seen_at timestamp with time zone, created boolean)
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  insert into ledger.finding as f (
    reconciliation_no, id, type, severity, tenant, kind, subject, item_id, business_key, effective_date, due_at, sentence,
    expected, actual, terms, resolution, reason, first_seen_at, last_seen_at, closed_at)
  select record_findings.reconciliation_no, u.id, u.type, u.severity, u.tenant, u.kind, u.subject, u.item_id,
    u.business_key, u.effective_date, u.due_at, u.sentence, u.expected::jsonb, u.actual::jsonb, u.terms::jsonb, u.resolution,
    case when u.resolution <> 'open' then u.severity end, ledger.now(), ledger.now(),
    case when u.resolution <> 'open' then ledger.now() end
  from unnest(
    ids, types, severities, tenants, kinds, subjects, item_ids, business_keys, effective_dates, due_ats, sentences,
    expecteds, actuals, record_findings.terms, resolutions
  ) u (
    id, type, severity, tenant, kind, subject, item_id, business_key, effective_date, due_at, sentence, expected, actual,
    terms, resolution)
  order by u.id
  on conflict (id) do update set
    reconciliation_no = greatest(f.reconciliation_no, excluded.reconciliation_no),
    last_seen_at = greatest(f.last_seen_at, excluded.last_seen_at),
    severity = excluded.severity,
    sentence = excluded.sentence,
    expected = excluded.expected,
    actual = excluded.actual,
    terms = excluded.terms,
    (opened_count, resolution, closed_at, resolved_by, reason) = (
      select f.opened_count + r.reopens::integer,
        case when r.reopens then excluded.resolution else f.resolution end,
        case when r.reopens then excluded.closed_at else f.closed_at end,
        case when r.reopens then null else f.resolved_by end,
        case when r.reopens then excluded.reason else f.reason end
      from (
        select ledger.finding_reopens(
          f.closed_at, f.resolution, f.reason,
          exists (select from ledger.actor a where a.actor_no = f.resolved_by and ledger.is_decider(a.kind, a.name)),
          excluded.resolution, ledger.is_same_difference(f.type, f.expected, f.actual, excluded.expected, excluded.actual))
      ) r (reopens))
  returning f.id, f.opened_count, f.resolution, f.first_seen_at, f.xmax = 0 as created;
$$;

COMMENT ON FUNCTION ledger.record_findings(reconciliation_no bigint, ids uuid[], types text[], severities text[], tenants text[], kinds text[], subjects text[], item_ids uuid[], business_keys text[], effective_dates date[], due_ats timestamp with time zone[], sentences text[], expecteds text[], actuals text[], terms text[], resolutions text[]) IS 'Record the findings of a pass: new ones open, known ones are seen again, cleared and repaired ones reopen, and so do those that nobody resolved who may decide, and those whose evidence is another. No role may change the evidence of a finding otherwise.';

CREATE FUNCTION ledger.record_outcomes(outcomes ledger.item_outcome[], actor_no bigint, OUT items bigint, OUT released bigint, OUT retried bigint, OUT parked bigint) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  first_date date;
  last_date date;
begin
  items := 0; released := 0; retried := 0; parked := 0;
  if outcomes is null then  -- in most settlements every item is completed
    return;
  end if;
  -- With bounds, only the months of these items are opened, however many are kept.
  select min(o.effective_date), max(o.effective_date) into first_date, last_date from unnest(outcomes) o;
  with judged as materialized (
    select o.item_no, o.effective_date, o.run_no, o.attempt, o.starts, o.batch_max, o.reason, o.detail,
      o.event = 7 /* timed_out */ as has_lapsed, w.wait_seconds, v.event, coalesce(o.blamed, v.event in (6 /* failed */, 9 /* parked */)) as blamed,
      i.flow_no, i.due_at, i.serial, i.overlap, i.business_key, f.circuit_failure_ratio
    from unnest(outcomes) o
    cross join lateral (  -- `offset 0`: otherwise a plan made while there were few rows reads every item of these dates
      select i.flow_no, i.due_at, i.serial, i.overlap, i.business_key
      from ledger.due_item i
      where i.effective_date = o.effective_date and i.item_no = o.item_no and i.effective_date between first_date and last_date
      offset 0
    ) i
    join ledger.flow f on f.flow_no = i.flow_no
    join ledger.kind k on k.kind_no = f.kind_no
    cross join lateral (
      select coalesce(o.after_seconds, case when o.event in (6 /* failed */, 7 /* timed_out */) and coalesce(o.blamed, true)
        then ledger.retry_seconds(k, o.attempt) else 0 end) as wait_seconds
    ) w
    cross join lateral (
      select ledger.outcome_event(k,
        case when o.event = 7 /* timed_out */ and o.overran and k.run_late = 'park' then 9 /* parked */ else o.event end::smallint,
        coalesce(o.blamed, true), o.attempt, o.starts, i.due_at, w.wait_seconds) as event
    ) v
  ),
  journal as (
    insert into ledger.transition (effective_date, item_no, event, attempt, run_no, actor_no, at, detail)
    select j.effective_date, j.item_no, j.event, j.attempt, j.run_no, record_outcomes.actor_no, ledger.now(), j.detail
    from judged j
  ),
  back as (
    insert into ledger.pending (
      item_no, effective_date, flow_no, available_at, state, attempt, starts, batch_max, serial, serial_due_at, overlap)
    select j.item_no, j.effective_date, j.flow_no,
      greatest(ledger.not_before(j.item_no, j.due_at), ledger.now() + make_interval(secs => j.wait_seconds)),
      case when j.event in (6 /* failed */, 7 /* timed_out */) then 4 /* RetryableFailure */ else 1 /* Scheduled */ end,
      case when j.blamed then j.attempt else j.attempt - 1 end,
      -- A released item is as before its start: no start is counted.
      case j.event when 3 /* released */ then j.starts - 1 else j.starts end,
      j.batch_max, j.serial, case when j.serial is not null then j.due_at end, j.overlap
    from judged j
    where j.event <> 9 /* parked */
    returning flow_no, available_at
  ),
  reviewed as (
    insert into ledger.review (item_no, effective_date, flow_no, parked_at, attempt, starts, reason, run_no, actor_no)
    select j.item_no, j.effective_date, j.flow_no, ledger.now(), j.attempt, j.starts,
      coalesce(j.reason, 'attempts exhausted'), j.run_no, record_outcomes.actor_no
    from judged j
    where j.event = 9 /* parked */
  ),
  streak as (
    insert into ledger.failure_streak as s (flow_no, business_key, failures, first_at, last_at, reason)
    select j.flow_no, j.business_key, count(*), ledger.now(), ledger.now(),
      left(max(coalesce(j.reason, j.detail ->> 'message')), 500)
    from judged j
    where j.blamed
    group by j.flow_no, j.business_key
    order by j.flow_no, j.business_key
    on conflict (flow_no, business_key) do update set
      failures = s.failures + excluded.failures, last_at = excluded.last_at, reason = excluded.reason
  ),
  -- Only blamed items count for the circuit: the others say nothing about the system that the flow's handlers call.
  counted as (
    insert into ledger.flow_outcome (flow_no, at, run_no, completed, failed)
    select j.flow_no, ledger.machine_now(), min(j.run_no), 0, count(*)
    from judged j
    where j.has_lapsed and j.blamed and j.circuit_failure_ratio is not null
    group by j.flow_no
  )
  select count(*), count(*) filter (where j.event = 3 /* released */), count(*) filter (where j.event in (6 /* failed */, 7 /* timed_out */)),
    count(*) filter (where j.event = 9 /* parked */)
  into items, released, retried, parked
  from judged j
  having (select ledger.wake_sleepers(array_agg(b.flow_no), array_agg(b.available_at)) from back b);
end $$;

COMMENT ON FUNCTION ledger.record_outcomes(outcomes ledger.item_outcome[], actor_no bigint, OUT items bigint, OUT released bigint, OUT retried bigint, OUT parked bigint) IS 'Record in the journal how items of runs ended, and put them back to pending or into review; returns how many. Items whose row is not found are left out and not counted.';

CREATE FUNCTION ledger.record_past_load(from_date date, to_date date, tenants text[], kinds text[], quarters timestamp with time zone[], effective_dates date[], items integer[], completed integer[], completed_late integer[], in_review integer[], withdrawn integer[], written_off integer[], had_failures integer[]) RETURNS integer
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET jit TO 'off'
    SET enable_hashjoin TO 'on'
    SET enable_nestloop TO 'off'
    AS $$
  select from ledger.lock_row l where l.subject = 'past_load' for update;  -- windows of two passes share sums
  with counted as materialized (
    select coalesce(u.tenant, '') as tenant, coalesce(u.kind, '') as kind, u.quarter, u.effective_date, sum(u.items)::integer as items,
      sum(u.completed)::integer as completed, sum(u.completed_late)::integer as completed_late, sum(u.in_review)::integer as in_review,
      sum(u.withdrawn)::integer as withdrawn, sum(u.written_off)::integer as written_off, sum(u.had_failures)::integer as had_failures
    from unnest(tenants, kinds, quarters, effective_dates, items, completed, completed_late, in_review, withdrawn, written_off,
      had_failures) u (tenant, kind, quarter, effective_date, items, completed, completed_late, in_review, withdrawn, written_off, had_failures)
    group by grouping sets (
      (u.tenant, u.kind, u.quarter, u.effective_date), (u.tenant, u.quarter, u.effective_date), (u.quarter, u.effective_date))
  ),
  -- What is not changed is not written: a conflict would lock each row.
  changed as materialized (
    select c.* from counted c
    left join ledger.past_load l
      on l.effective_date >= from_date and l.effective_date < to_date
      and (l.tenant, l.kind, l.quarter, l.effective_date) = (c.tenant, c.kind, c.quarter, c.effective_date)
    where (c.items, c.completed, c.completed_late, c.in_review, c.withdrawn, c.written_off, c.had_failures)
      is distinct from (l.items, l.completed, l.completed_late, l.in_review, l.withdrawn, l.written_off, l.had_failures)
  ),
  gone as (
    delete from ledger.past_load l
    where l.effective_date >= from_date and l.effective_date < to_date
      and not exists (
        select from counted c
        where (c.tenant, c.kind, c.quarter, c.effective_date) = (l.tenant, l.kind, l.quarter, l.effective_date))
    returning 1
  ),
  written as (
    insert into ledger.past_load (tenant, kind, quarter, effective_date, items, completed, completed_late, in_review, withdrawn, written_off,
      had_failures)
    select c.tenant, c.kind, c.quarter, c.effective_date, c.items, c.completed, c.completed_late, c.in_review, c.withdrawn, c.written_off,
      c.had_failures
    from changed c
    order by c.tenant, c.kind, c.quarter, c.effective_date
    on conflict (tenant, kind, quarter, effective_date) do update
    set items = excluded.items, completed = excluded.completed, completed_late = excluded.completed_late, in_review = excluded.in_review,
      withdrawn = excluded.withdrawn, written_off = excluded.written_off, had_failures = excluded.had_failures
    returning 1
  )
  select ((select count(*) from gone) + (select count(*) from written))::integer
$$;

COMMENT ON FUNCTION ledger.record_past_load(from_date date, to_date date, tenants text[], kinds text[], quarters timestamp with time zone[], effective_dates date[], items integer[], completed integer[], completed_late integer[], in_review integer[], withdrawn integer[], written_off integer[], had_failures integer[]) IS 'Record the results of the items of a half-open range of effective dates, in place of what was recorded of them, and its sums by tenant and of all. Returns how many rows were changed.';

CREATE FUNCTION ledger.refuse_completion(run_no bigint) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  raise exception using
    errcode = 'DL006',
    message = format('run %s has ended, or is not this worker''s', run_no);
end $$;

COMMENT ON FUNCTION ledger.refuse_completion(run_no bigint) IS 'Raise DL006 where the item of a handler''s transaction cannot complete, so that the transaction does not commit.';

CREATE FUNCTION ledger.register_actor(name text, kind text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  prefix text := lower(split_part(name, ':', 1));
  permitted text[] := case
    when 'person' in (kind, prefix) then array['ledger_operator', 'ledger_approver']
    when 'key' in (kind, prefix) then array[]::text[]  -- made with the key
    when 'oidc' in (kind, prefix) then array['ledger_service']
    when prefix = 'service' then array['ledger_emitter', 'ledger_relay']
  end;
  known bigint;
begin
  if permitted is not null and not exists (
    select from unnest(permitted || current_user::text) p (role) where pg_has_role(ledger.calling_role(), p.role, 'usage'))
  then
    raise exception using
      errcode = '42501',
      message = format('%s may not write as %L', ledger.calling_role(), name),
      hint = format('only %s may', coalesce('a member of ' || nullif(array_to_string(permitted, ' or '), ''), 'the owner'));
  end if;
  -- An insert takes a number even where it conflicts; most callers are known.
  update ledger.actor a set seen_at = statement_timestamp() where a.name = register_actor.name returning a.actor_no into known;
  if known is null then
    insert into ledger.actor as a (name, kind, tenants)
    values (register_actor.name, register_actor.kind, case when 'oidc' in (kind, prefix) then array[]::text[] end)
    on conflict on constraint actor_name_key do update set seen_at = statement_timestamp()
    returning a.actor_no into known;
  end if;
  return known;
end $$;

COMMENT ON FUNCTION ledger.register_actor(name text, kind text) IS 'Find or make the number of an actor. Only an operator or approver may name a person, only an emitter or relay a service, only a service of REST a subject of tokens, only the owner an API key.';

CREATE FUNCTION ledger.retry_seconds(kind ledger.kind, attempt smallint) RETURNS double precision
    LANGUAGE sql PARALLEL RESTRICTED
    RETURN (random() * LEAST((kind).backoff_cap_seconds, ((kind).backoff_base_seconds * power((2)::double precision, ((LEAST((attempt)::integer, 30) - 1))::double precision))));

COMMENT ON FUNCTION ledger.retry_seconds(kind ledger.kind, attempt smallint) IS 'How long a failed attempt waits until the next one: exponential, capped, with full jitter.';

CREATE FUNCTION ledger.revise_items(flow_tenants text[], flow_kinds text[], flow_lanes text[], flow_of integer[], business_keys text[], cycles text[], effective_dates date[], due_ats timestamp with time zone[], payloads text[], actor bigint, since timestamp with time zone[], definition_nos bigint[], reason text, partition_keys text[] DEFAULT NULL::text[], labels text[] DEFAULT NULL::text[], start_bys timestamp with time zone[] DEFAULT NULL::timestamp with time zone[], complete_bys timestamp with time zone[] DEFAULT NULL::timestamp with time zone[], tzdata text DEFAULT NULL::text, nominals text[] DEFAULT NULL::text[], zones text[] DEFAULT NULL::text[], decisions text[] DEFAULT NULL::text[], smears double precision[] DEFAULT NULL::double precision[], skip_reasons text[] DEFAULT NULL::text[], overlap_rules smallint[] DEFAULT NULL::smallint[], overlap_keys text[] DEFAULT NULL::text[], event_nos bigint[] DEFAULT NULL::bigint[], replaced_event_nos bigint[] DEFAULT NULL::bigint[], traceparents text[] DEFAULT NULL::text[]) RETURNS TABLE(ord bigint, result text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_hashjoin TO 'on'
    SET jit TO 'off'
    AS $$
begin
  return query
  with locked_default as (select from ledger.due_item_default),
  flow as materialized (
    select * from ledger.ensure_flows(flow_tenants, flow_kinds, flow_lanes)
  ),
  input as materialized (
    select n.*, f.flow_no,
      ledger.item_id(f.tenant, f.kind, n.business_key, n.cycle, n.effective_date) as id,
      case
        when n.overlap is not null then ledger.serial_of(f.kind_no, coalesce(n.overlap_key, n.business_key))
        when f.ordered then ledger.serial_of(f.kind_no, coalesce(n.partition_key, n.business_key))
      end as serial,
      case when n.overlap is not null then n.overlap when f.ordered then 1::smallint end as how
    from unnest(
      flow_of, business_keys, cycles, effective_dates, due_ats, payloads, since, definition_nos, partition_keys,
      labels, start_bys, complete_bys, nominals, zones, decisions, smears, skip_reasons, overlap_rules, overlap_keys,
      event_nos, traceparents
    ) with ordinality n (
      flow_of, business_key, cycle, effective_date, due_at, payload, since, definition_no, partition_key,
      label, start_by, complete_by, nominal, zone, decision, smear, skip_reason, overlap, overlap_key,
      event_no, traceparent, ord
    )
    join flow f on f.ord = n.flow_of
  ),
  existing as materialized (
    select n.ord, i as item, n as given, was.version as version_before,
      i.definition_no = n.definition_no as own,
      case
        when n.event_no is not null then i.event_no = any (replaced_event_nos)
        else was.version < will.version
          and i.due_at - make_interval(secs => coalesce(i.smear_seconds, 0)) >= n.since
      end
      and not exists (select from ledger.expedited x where x.item_no = i.item_no) as movable,
      -- In the same zone, another tz database may have moved the same occurrence.
      i.due_at - make_interval(secs => coalesce(i.smear_seconds, 0)) <> n.due_at - make_interval(secs => coalesce(n.smear, 0))
      and (i.zone is distinct from n.zone or i.tzdata is not distinct from revise_items.tzdata) as elsewhere,
      t.event as ended_by, t.detail ->> 'reason' as ended_for
    from input n
    join ledger.due_item i on i.id = n.id and i.effective_date = n.effective_date
    join ledger.definition was on was.definition_no = i.definition_no
    join ledger.definition will on will.definition_no = n.definition_no
      and (n.event_no is not null or will.tenant = was.tenant and will.name = was.name)
    left join ledger.transition t on t.item_no = i.item_no and t.effective_date = i.effective_date
      and t.event in (12 /* superseded */, 13 /* skipped */)
  ),
  locked as materialized (
    select p.item_no, s.ord
    from existing s
    join ledger.pending p on p.item_no = (s.item).item_no
    where s.movable and p.state = 1 /* Scheduled */ and p.attempt = 0 and p.starts = 0
    order by p.item_no
    for update of p
  ),
  taken as materialized (
    select s.* from locked l join existing s on s.ord = l.ord
  ),
  revised as (
    update ledger.due_item i
    set flow_no = (t.given).flow_no, due_at = (t.given).due_at, start_by = (t.given).start_by,
      complete_by = (t.given).complete_by, partition_key = (t.given).partition_key, payload = (t.given).payload::json,
      labels = (t.given).label::jsonb, definition_no = (t.given).definition_no, tzdata = revise_items.tzdata,
      nominal = (t.given).nominal, zone = (t.given).zone, decision = (t.given).decision,
      smear_seconds = (t.given).smear, serial = (t.given).serial, overlap = (t.given).how,
      event_no = coalesce((t.given).event_no, i.event_no),
      traceparent = case
        when (t.given).event_no is null then i.traceparent else ledger.usable_traceparent((t.given).traceparent) end
    from taken t
    where i.effective_date = (t.item).effective_date and i.item_no = (t.item).item_no
  ),
  moved as (
    update ledger.pending p
    set flow_no = (t.given).flow_no, serial = (t.given).serial, overlap = (t.given).how,
      serial_due_at = case when (t.given).serial is not null then (t.given).due_at end,
      -- Items that wait for a held key keep waiting: the statement that frees the key wakes them.
      available_at = case
        when p.available_at = 'infinity' and p.serial is not distinct from (t.given).serial then p.available_at
        else greatest(ledger.available_from((t.given).due_at, (t.item).due_at, p.available_at), p.snoozed_until) end
    from taken t
    where p.item_no = (t.item).item_no and (t.given).skip_reason is null
  ),
  ended as (
    delete from ledger.pending p using taken t
    where p.item_no = (t.item).item_no and (t.given).skip_reason is not null
    returning p.item_no
  ),
  obsolete as (
    delete from ledger.withdrawal w where w.item_no = any (array(select e.item_no from ended e))
  ),
  journal as (
    insert into ledger.transition (effective_date, item_no, event, attempt, actor_no, at, detail)
    select (t.item).effective_date, (t.item).item_no,
      case when (t.given).skip_reason is null then 15 /* revised */ else 13 /* skipped */ end, 0, actor, ledger.now(),
      case when (t.given).skip_reason is null then jsonb_build_object('reason', reason)
      else ledger.skip_detail((t.given).skip_reason) end
      || jsonb_build_object(
        'due_at', (t.given).due_at, 'tzdata', revise_items.tzdata,
        'before', jsonb_strip_nulls(jsonb_build_object(
          'version', t.version_before, 'due_at', (t.item).due_at, 'tzdata', (t.item).tzdata, 'zone', (t.item).zone,
          'decision', (t.item).decision, 'smear_seconds', (t.item).smear_seconds, 'labels', (t.item).labels,
          'start_by', (t.item).start_by, 'complete_by', (t.item).complete_by,
          'partition_key', (t.item).partition_key, 'flow_no', (t.item).flow_no,
          'event_no', case when (t.given).event_no is not null then (t.item).event_no end,
          'payload', case when (t.item).payload::text <> (t.given).payload then (t.item).payload::text end)))
    from taken t
  )
  select s.ord,
    case
      when exists (select from locked l where l.ord = s.ord) then 'revised'
      when s.own and (s.ended_by, s.ended_for) is distinct from (12 /* superseded */, 'version') then 'same'
      when s.ended_by = 12 /* superseded */ or s.elsewhere then 'next'
      when s.ended_by = 13 /* skipped */ and (s.given).skip_reason is not null then 'skipped'
      when s.ended_for <> 'overlap' then 'next'
      else 'begun'
    end
  from existing s
  order by s.ord;
end $$;

COMMENT ON FUNCTION ledger.revise_items(flow_tenants text[], flow_kinds text[], flow_lanes text[], flow_of integer[], business_keys text[], cycles text[], effective_dates date[], due_ats timestamp with time zone[], payloads text[], actor bigint, since timestamp with time zone[], definition_nos bigint[], reason text, partition_keys text[], labels text[], start_bys timestamp with time zone[], complete_bys timestamp with time zone[], tzdata text, nominals text[], zones text[], decisions text[], smears double precision[], skip_reasons text[], overlap_rules smallint[], overlap_keys text[], event_nos bigint[], replaced_event_nos bigint[], traceparents text[]) IS 'Let a newer version''s terms apply to items of older versions that were never handed out (Scheduled), are due at `since` or later, and were not expedited; `skip_reasons` ends them as Skipped, under the newer terms. The journal keeps the terms before. Returns `revised`; `same` where the version itself emitted the item and no newer one withdrew it; `next` where the occurrence is the next issue: the item was withdrawn, was skipped by older terms, or is another occurrence of the same nominal time, at another instant; `skipped` where both versions skip it; `begun` where the item stays as it is; no row where there is no item. With `event_nos`, events give the terms of items that one of `replaced_event_nos` gave, whatever their definition and `since`.';

CREATE FUNCTION ledger.revoke_role(role text, login text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  execute format('revoke %I from %I', 'ledger_' || role, login);
  if role in ('emitter', 'relay') then
    update ledger.actor a set tenants = null where a.name = 'service:' || login;
  end if;
end $$;

COMMENT ON FUNCTION ledger.revoke_role(role text, login text) IS 'Revoke a role from a login, with the caller''s rights.';

CREATE FUNCTION ledger.row_digest(sealed anyelement) RETURNS text
    LANGUAGE sql STABLE STRICT PARALLEL SAFE
    SET "TimeZone" TO 'UTC'
    SET extra_float_digits TO '1'
    AS $$
  select encode(sha256(convert_to((to_jsonb(sealed) - array['seen_at', 'tenants'])::text, 'UTF8')), 'hex')
$$;

COMMENT ON FUNCTION ledger.row_digest(sealed anyelement) IS 'SHA-256 of a row in hex, of all its columns but those of an actor that change.';

CREATE FUNCTION ledger.row_version(key bigint, tableoid oid, ctid tid, xmin xid) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN hash_array_extended(ARRAY[xmin], hashtidextended(ctid, (key # (tableoid)::bigint)));

COMMENT ON FUNCTION ledger.row_version(key bigint, tableoid oid, ctid tid, xmin xid) IS 'A hash of which version of a row this is: each write of the row, of any column, makes another. A transaction number is used again after 4 billion others, and after a restore: `key` names the server''s start.';

CREATE FUNCTION ledger.schema_version(OUT number integer, OUT code_min integer) RETURNS record
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    BEGIN ATOMIC
 SELECT max(("substring"(a.name, '^\d+'::text))::integer) AS max,
     max(a.code_min) AS max
    FROM ledger_migration.applied a;
END;

COMMENT ON FUNCTION ledger.schema_version(OUT number integer, OUT code_min integer) IS 'Number of the newest migration that was applied, and the least that code must ship to use the schema. Open to all: each process asks when it starts.';

CREATE FUNCTION ledger.seal_row() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  sealed constant jsonb := to_jsonb(new);
begin
  insert into ledger.seal as s (what, number, digest, tenant, kind, name)
  values (
    tg_table_name, (sealed ->> (tg_table_name || '_no'))::bigint, ledger.row_digest(new), coalesce(sealed ->> 'tenant', '*'),
    case tg_table_name when 'definition' then sealed ->> 'kind' when 'kind' then sealed ->> 'name' end,
    (sealed ->> 'name') || coalesce(', version ' || (sealed ->> 'version'), ''))
  on conflict (what, number) do update set digest = excluded.digest;
  return null;
end $$;

COMMENT ON FUNCTION ledger.seal_row() IS 'Trigger: records the digest of a row that was inserted, or changed as it may be.';

CREATE FUNCTION ledger.serial_of(kind_no integer, key text) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN hashtextextended(key, (kind_no)::bigint);

COMMENT ON FUNCTION ledger.serial_of(kind_no integer, key text) IS 'The hash of kind and key by which serial items wait for each other.';

CREATE FUNCTION ledger.skip_detail(reason text) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN jsonb_strip_nulls(jsonb_build_object('reason', split_part(reason, ' '::text, 1), 'into', NULLIF(split_part(reason, ' '::text, 2), ''::text)));

COMMENT ON FUNCTION ledger.skip_detail(reason text) IS 'The journal''s detail of a skipped occurrence; empty without a reason. `merged 2027-03-14T03:30` names the cycle of the item that is owed in its place, which becomes `into`.';

CREATE FUNCTION ledger.take_lead(task text, holder text, seconds double precision) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  held_term bigint;
begin
  insert into ledger.leader as l (task, holder, held_until)
  values (take_lead.task, take_lead.holder, ledger.machine_now() + make_interval(secs => least(take_lead.seconds, 300)))
  on conflict on constraint leader_pkey do update
  set holder = excluded.holder, held_until = excluded.held_until,
    term = l.term + (l.holder <> excluded.holder)::integer
  where l.held_until <= ledger.machine_now() or l.holder = excluded.holder
  returning l.term into held_term;
  return held_term;
end $$;

COMMENT ON FUNCTION ledger.take_lead(task text, holder text, seconds double precision) IS 'Take or keep a task for so many seconds, 300 at most; returns the term of the lead, null while another process has it.';

CREATE FUNCTION ledger.token_has_tenant(tenant text) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN ((ledger.emitter_name() ~~ 'oidc:%'::text) AND COALESCE((ARRAY[tenant, '*'::text] && (NULLIF(current_setting('ledger.token_tenants'::text, true), ''::text))::text[]), false));

COMMENT ON FUNCTION ledger.token_has_tenant(tenant text) IS 'Whether a service acts in this transaction for a token that names the tenant, or ''*'' for each.';

CREATE FUNCTION ledger.tokens_now(rate double precision, tokens double precision, tokens_at timestamp with time zone) RETURNS double precision
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN LEAST(GREATEST(rate, (1)::double precision), (COALESCE(tokens, GREATEST(rate, (1)::double precision)) + (rate * (GREATEST(EXTRACT(epoch FROM (ledger.machine_now() - tokens_at)), (0)::numeric))::double precision)));

COMMENT ON FUNCTION ledger.tokens_now(rate double precision, tokens double precision, tokens_at timestamp with time zone) IS 'Tokens in the bucket of a flow now; the bucket holds one second of the rate, and at least one.';

CREATE FUNCTION ledger.try_lock_rows(subject text, keys text[]) RETURNS SETOF text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  return query
  select l.key from ledger.lock_row l where l.subject = try_lock_rows.subject and l.key = any (keys) for update skip locked;
end $$;

COMMENT ON FUNCTION ledger.try_lock_rows(subject text, keys text[]) IS 'Lock those rows of lock_row that nobody else has locked, until the transaction ends; returns their keys.';

CREATE FUNCTION ledger.usable_traceparent(traceparent text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN (traceparent ~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$'::text) THEN traceparent ELSE NULL::text END;

COMMENT ON FUNCTION ledger.usable_traceparent(traceparent text) IS 'The trace context, or null where it is not in the W3C form, as the recommendation asks.';

CREATE FUNCTION ledger.wake_for_updates() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  perform ledger.wake_sleepers(array_agg(w.flow_no), array_agg(w.available_at)) from written w;
  return null;
end $$;

COMMENT ON FUNCTION ledger.wake_for_updates() IS 'Notify as ledger.wake_sleepers, for rows of pending that change.';

CREATE FUNCTION ledger.wake_sleepers(flow_nos integer[], available_ats timestamp with time zone[]) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  -- Each query here sees what is committed now, also where the statement began before a process registered its sleep.
  perform from ledger.process p where p.sleeps_until is not null;
  if found then
    perform pg_notify('ledger_process_' || s.process_no,
      case when cardinality(flow_nos) = 1 and available_ats[1] <= ledger.now()
        then flow_nos[1] || ' ' || floor(date_part('epoch', available_ats[1]))::bigint else '' end)
    from ledger.process s
    where s.sleeps_until >= ledger.now()
      and coalesce(current_setting('ledger.wakes', true), '') <> 'off'
      and exists (
        select from unnest(flow_nos, available_ats) w (flow_no, available_at)
        join ledger.flow f on f.flow_no = w.flow_no
        join ledger.kind k on k.kind_no = f.kind_no
        where w.available_at <= s.sleeps_until
          and case when s.kinds is null then k.dispatch <> 'direct' else f.kind = any (s.kinds) end);
  end if;
  return true;
end $$;

COMMENT ON FUNCTION ledger.wake_sleepers(flow_nos integer[], available_ats timestamp with time zone[]) IS 'Notify each process that sleeps beyond the time from which a written item may be claimed; true. One flow with an item that is due is named with its second of the epoch, so that the process need not list the flows. Statements that insert into pending call it: as a trigger it made an emission dearer. A transaction that is to be prepared (two-phase commit) may not notify: it sets ledger.wakes to off, and the next poll finds its items.';

CREATE FUNCTION ledger.was_committed(wanted ledger.item_filter, written_by xid, at timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

COMMENT ON FUNCTION ledger.was_committed(wanted ledger.item_filter, written_by xid, at timestamp with time zone) IS 'Whether a row that was written at a time, by a transaction, was committed when the items of a filter were asked for.';

CREATE TABLE ledger.actor (
    actor_no bigint NOT NULL,
    name text NOT NULL,
    kind text NOT NULL,
    seen_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    tenants text[],
    CONSTRAINT actor_kind_known CHECK ((kind = ANY (ARRAY['allocator'::text, 'worker'::text, 'materialiser'::text, 'intake'::text, 'reconciler'::text, 'relay'::text, 'alerter'::text, 'person'::text, 'service'::text, 'api'::text, 'key'::text, 'oidc'::text])))
);

COMMENT ON TABLE ledger.actor IS 'Who writes to the ledger: a process by its incarnation, a person, a service, an API key or a subject of tokens by name.';

COMMENT ON COLUMN ledger.actor.seen_at IS 'When the actor was last registered.';

COMMENT ON COLUMN ledger.actor.tenants IS 'Of a service or an API key: the tenants for which alone it may act; null: each. Of a subject none: its token names them.';

ALTER TABLE ledger.actor ALTER COLUMN actor_no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME ledger.actor_actor_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    MAXVALUE 8796093022207
    CACHE 1
);

CREATE TABLE ledger.alert (
    name text NOT NULL,
    labels jsonb NOT NULL,
    value double precision NOT NULL,
    since timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    sent_to jsonb NOT NULL,
    end_sent_to jsonb DEFAULT '[]'::jsonb NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE ledger.alert IS 'Alerts that `dueledger alert` found, until their end was sent to each channel that had them.';

COMMENT ON COLUMN ledger.alert.labels IS 'Values of the labels of its rule, as an array.';

COMMENT ON COLUMN ledger.alert.since IS 'When it was found first; by the machine clock.';

COMMENT ON COLUMN ledger.alert.ended_at IS 'When it was not found any more.';

COMMENT ON COLUMN ledger.alert.sent_to IS 'Channels that have it, as an array of names.';

COMMENT ON COLUMN ledger.alert.end_sent_to IS 'Channels that have its end. Once each of sent_to is among them, the row is deleted.';

CREATE TABLE ledger.api_answer (
    actor_no bigint NOT NULL,
    idempotency_key text NOT NULL,
    request_digest bytea NOT NULL,
    answered_at timestamp with time zone DEFAULT ledger.machine_now() NOT NULL,
    status smallint,
    body text,
    location text,
    CONSTRAINT api_answer_key_length CHECK (((char_length(idempotency_key) >= 1) AND (char_length(idempotency_key) <= 200)))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE ledger.api_answer IS 'Answers to requests with an Idempotency-Key, written with the effect of the request. Repeated, it gets the answer again. Upkeep deletes them after a day.';

COMMENT ON COLUMN ledger.api_answer.request_digest IS 'SHA-256 of method, address and body.';

COMMENT ON COLUMN ledger.api_answer.status IS 'Status of HTTP; null only within the transaction that answers.';

COMMENT ON COLUMN ledger.api_answer.location IS 'The header Location of the answer, as of an operation that was accepted.';

CREATE TABLE ledger.api_key (
    key_no bigint NOT NULL,
    prefix text NOT NULL,
    secret_digest bytea NOT NULL,
    actor_no bigint NOT NULL,
    scopes text[] NOT NULL,
    created_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    created_by bigint NOT NULL,
    expires_at timestamp with time zone,
    last_used_at timestamp with time zone,
    revoked_at timestamp with time zone,
    revoked_by bigint,
    rate_per_second double precision,
    rate_burst integer,
    CONSTRAINT api_key_rate_range CHECK ((((rate_per_second IS NULL) = (rate_burst IS NULL)) AND (rate_per_second > (0)::double precision) AND (rate_per_second <= (100000)::double precision) AND ((rate_burst >= 1) AND (rate_burst <= 1000000)))),
    CONSTRAINT api_key_scopes_known CHECK (((cardinality(scopes) > 0) AND (scopes <@ ARRAY['read'::text, 'emit'::text, 'work'::text, 'operate'::text, 'approve'::text, 'audit'::text, 'admin'::text]))),
    CONSTRAINT api_key_secret_is_digest CHECK ((octet_length(secret_digest) = 32))
);

COMMENT ON TABLE ledger.api_key IS 'Keys of the REST interface. Several keys may be one actor, as while one replaces another.';

COMMENT ON COLUMN ledger.api_key.prefix IS 'First part of the key, by which it is found; no secret.';

COMMENT ON COLUMN ledger.api_key.secret_digest IS 'SHA-256 of the whole key, which nobody else keeps.';

COMMENT ON COLUMN ledger.api_key.actor_no IS 'Who writes with it; the actor has its name and its tenants.';

COMMENT ON COLUMN ledger.api_key.last_used_at IS 'When it was last used, to the minute.';

COMMENT ON COLUMN ledger.api_key.rate_per_second IS 'Requests a second that a process takes, after a burst of rate_burst; null: as its settings say.';

ALTER TABLE ledger.api_key ALTER COLUMN key_no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME ledger.api_key_key_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    MAXVALUE 8796093022207
    CACHE 1
);

CREATE TABLE ledger.audit (
    audit_no bigint NOT NULL,
    at timestamp with time zone DEFAULT ledger.now() NOT NULL,
    actor_no bigint NOT NULL,
    login text DEFAULT SESSION_USER NOT NULL,
    role text DEFAULT CURRENT_USER NOT NULL,
    operation text NOT NULL,
    target text NOT NULL,
    tenants text[],
    reason text,
    detail jsonb,
    request_id text,
    CONSTRAINT audit_tenants_named CHECK ((cardinality(tenants) > 0))
);

COMMENT ON TABLE ledger.audit IS 'What people, API keys and tokens changed, each entry written in the transaction of its change. Append only; upkeep deletes entries of a certain age.';

COMMENT ON COLUMN ledger.audit.login IS 'The login to Postgres, which nobody but the server names.';

COMMENT ON COLUMN ledger.audit.role IS 'The role whose rights the change had: of a request that of its scope, of a command that of its login.';

COMMENT ON COLUMN ledger.audit.operation IS 'As in the OpenAPI document; commands name the same.';

COMMENT ON COLUMN ledger.audit.target IS 'What was changed, as a path: definitions/acme/statements.';

COMMENT ON COLUMN ledger.audit.tenants IS 'Those that it concerns; null: all, or none alone.';

COMMENT ON COLUMN ledger.audit.request_id IS 'Of a request by HTTP; null for a command.';

ALTER TABLE ledger.audit ALTER COLUMN audit_no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME ledger.audit_audit_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    MAXVALUE 8796093022207
    CACHE 1
);

CREATE TABLE ledger.calendar (
    calendar_no bigint NOT NULL,
    tenant text NOT NULL,
    name text NOT NULL,
    version integer NOT NULL,
    document jsonb NOT NULL,
    valid_to date NOT NULL,
    created_at timestamp with time zone NOT NULL,
    actor_no bigint NOT NULL,
    source text
);

COMMENT ON TABLE ledger.calendar IS 'Versions of calendars: the business days of a tenant, by name.';

COMMENT ON COLUMN ledger.calendar.calendar_no IS 'Number of the version.';

COMMENT ON COLUMN ledger.calendar.valid_to IS 'The last day that the version knows; a later day is an error, not a business day.';

COMMENT ON COLUMN ledger.calendar.source IS 'Where the days come from: a file, a country, an exchange.';

ALTER TABLE ledger.calendar ALTER COLUMN calendar_no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME ledger.calendar_calendar_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    MAXVALUE 8796093022207
    CACHE 1
);

CREATE TABLE ledger.calendar_use (
    definition_no bigint NOT NULL,
    from_at timestamp with time zone NOT NULL,
    calendar_no bigint NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    actor_no bigint NOT NULL
);

COMMENT ON TABLE ledger.calendar_use IS 'Which version of its calendar each definition was expanded by. Append only.';

COMMENT ON COLUMN ledger.calendar_use.from_at IS 'First instant of the occurrences that the version decided; the next row of the definition ends it.';

CREATE TABLE ledger.cell (
    one_row boolean DEFAULT true NOT NULL,
    cell_no smallint NOT NULL,
    CONSTRAINT cell_no_range CHECK (((cell_no >= 0) AND (cell_no <= 1022))),
    CONSTRAINT cell_only_one CHECK (one_row)
);

COMMENT ON TABLE ledger.cell IS 'The number of this ledger among the ledgers that share topics, in one row. Given by `dueledger migrate`, once and for ever.';

COMMENT ON COLUMN ledger.cell.cell_no IS 'Each sequence begins at this times 2^43, or times 2^21 where it numbers integers: no two cells give the same number.';

CREATE TABLE ledger.claim (
    fence bigint NOT NULL,
    claimed_at timestamp with time zone NOT NULL,
    allocator_no bigint NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    size integer NOT NULL,
    item_no bigint[] NOT NULL,
    effective_date date[] NOT NULL,
    attempt smallint[] NOT NULL,
    starts smallint[] NOT NULL,
    batch_max smallint,
    published_at timestamp with time zone,
    base_offset bigint,
    started integer DEFAULT 0 NOT NULL,
    deadline timestamp with time zone NOT NULL,
    closed_at timestamp with time zone,
    token text,
    flow_no integer,
    topic_actor_no bigint,
    lease_seconds double precision,
    queue_seconds double precision,
    run_seconds double precision,
    flow_nos integer[],
    lag_flow_no integer,
    available_since timestamp with time zone,
    CONSTRAINT claim_arrays_agree CHECK (((size > 0) AND (cardinality(item_no) = size) AND (cardinality(effective_date) = size) AND (cardinality(attempt) = size) AND (cardinality(starts) = size))),
    CONSTRAINT claim_started_range CHECK (((started >= 0) AND (started <= size))),
    CONSTRAINT claim_token_given CHECK (((COALESCE(length(token), 0) = 16) OR ((partition < 0) AND (started = size))))
)
PARTITION BY RANGE (claimed_at);
ALTER TABLE ONLY ledger.claim ALTER COLUMN item_no SET STORAGE EXTERNAL;
ALTER TABLE ONLY ledger.claim ALTER COLUMN effective_date SET STORAGE EXTERNAL;
ALTER TABLE ONLY ledger.claim ALTER COLUMN attempt SET STORAGE EXTERNAL;
ALTER TABLE ONLY ledger.claim ALTER COLUMN starts SET STORAGE EXTERNAL;

COMMENT ON TABLE ledger.claim IS 'Claims: one row a batch of items handed out under one fence. Partitioned by month; closed claims are kept.';

COMMENT ON COLUMN ledger.claim.allocator_no IS 'Actor number of the allocator, of the worker in direct mode, or of the key of a pull worker.';

COMMENT ON COLUMN ledger.claim.partition IS 'Partition of the Kafka topic.';

COMMENT ON COLUMN ledger.claim.size IS 'Number of items.';

COMMENT ON COLUMN ledger.claim.item_no IS 'The items by position, in the order published: the offset of a record is base_offset + position - 1.';

COMMENT ON COLUMN ledger.claim.attempt IS 'By position: the attempt that the claim is for.';

COMMENT ON COLUMN ledger.claim.starts IS 'By position: the start that the claim is for.';

COMMENT ON COLUMN ledger.claim.batch_max IS 'For suspects: in runs of how many items at most they are started; else null.';

COMMENT ON COLUMN ledger.claim.published_at IS 'When the acknowledgement by Kafka was marked.';

COMMENT ON COLUMN ledger.claim.base_offset IS 'Offset of the first record.';

COMMENT ON COLUMN ledger.claim.started IS 'Positions up to this one are started.';

COMMENT ON COLUMN ledger.claim.deadline IS 'When the claim is closed and its items not started are released.';

COMMENT ON COLUMN ledger.claim.token IS '64 random bits in hex: its records carry them, and each start and each reported outcome repeats them. They are enough to end its items. A pull worker repeats it, too. Null where a direct worker started the claim as it made it.';

COMMENT ON COLUMN ledger.claim.flow_no IS 'Set where all items are of one flow whose items in flight are counted.';

COMMENT ON COLUMN ledger.claim.topic_actor_no IS 'Set where the claim is settled by topic: the actor number of its consumers.';

COMMENT ON COLUMN ledger.claim.lease_seconds IS 'Lease of the run, where the claim is settled by topic.';

COMMENT ON COLUMN ledger.claim.queue_seconds IS 'Time from published_at to the deadline.';

COMMENT ON COLUMN ledger.claim.run_seconds IS 'Longest time of a run, as the kind had it.';

COMMENT ON COLUMN ledger.claim.flow_nos IS 'The flows of its items, so that lists of a tenant look into its own claims alone. Null where they were not recorded.';

COMMENT ON COLUMN ledger.claim.lag_flow_no IS 'The flow with a lag target of which an item of this claim is the first to be late. Null where no flow has one.';

COMMENT ON COLUMN ledger.claim.available_since IS 'Since when that item could be claimed.';

CREATE TABLE ledger.console_session (
    id_digest bytea NOT NULL,
    actor_no bigint NOT NULL,
    key_no bigint,
    scopes text[],
    tenants text[],
    created_at timestamp with time zone DEFAULT ledger.machine_now() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT console_session_has_rights CHECK (((key_no IS NULL) = (scopes IS NOT NULL))),
    CONSTRAINT console_session_id_is_digest CHECK ((octet_length(id_digest) = 32))
);

COMMENT ON TABLE ledger.console_session IS 'Sessions of the console. One by an API key has the rights that the key has at each request, and ends with it. Upkeep deletes those that ended a day ago.';

COMMENT ON COLUMN ledger.console_session.id_digest IS 'SHA-256 of what the cookie has, which nobody else keeps.';

COMMENT ON COLUMN ledger.console_session.key_no IS 'The API key by which it was opened; null: by a token of the issuer.';

COMMENT ON COLUMN ledger.console_session.scopes IS 'Of a token; those of a key are the key''s.';

COMMENT ON COLUMN ledger.console_session.tenants IS 'Of a token; null: each. Those of a key are its actor''s.';

COMMENT ON COLUMN ledger.console_session.expires_at IS 'When it ends, or ended.';

CREATE TABLE ledger.credit (
    topic text NOT NULL,
    worker_no bigint NOT NULL,
    items integer NOT NULL,
    granted_until timestamp with time zone NOT NULL,
    CONSTRAINT credit_items_range CHECK ((items >= 0))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE ledger.credit IS 'How many items of a topic each worker wants waiting for it. Allocators claim no more.';

COMMENT ON COLUMN ledger.credit.worker_no IS 'The worker, as an actor number.';

COMMENT ON COLUMN ledger.credit.granted_until IS 'When the grant ends unless the worker renews it.';

CREATE TABLE ledger.cursor_secret (
    one_row boolean DEFAULT true NOT NULL,
    secret bytea DEFAULT sha256((uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))) NOT NULL,
    CONSTRAINT cursor_secret_length CHECK ((octet_length(secret) = 32)),
    CONSTRAINT cursor_secret_only_one CHECK (one_row)
);

COMMENT ON TABLE ledger.cursor_secret IS 'The key under which processes of the service seal the cursors of lists, in one row: each opens those of the others.';

CREATE TABLE ledger.definition (
    definition_no bigint NOT NULL,
    tenant text NOT NULL,
    name text NOT NULL,
    version integer NOT NULL,
    kind text NOT NULL,
    event_type text,
    document jsonb NOT NULL,
    effective_from timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    actor_no bigint NOT NULL,
    CONSTRAINT definition_version_positive CHECK ((version > 0))
);

COMMENT ON TABLE ledger.definition IS 'Versions of schedules, event rules and declarations of kinds. Never edited: the next version supersedes one.';

COMMENT ON COLUMN ledger.definition.definition_no IS 'Number of the version.';

COMMENT ON COLUMN ledger.definition.event_type IS 'Type of the events that trigger an event rule; null for a schedule, and for the declaration of a kind (no `when`).';

COMMENT ON COLUMN ledger.definition.effective_from IS 'When the version comes into force.';

ALTER TABLE ledger.definition ALTER COLUMN definition_no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME ledger.definition_definition_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    MAXVALUE 8796093022207
    CACHE 1
);

CREATE VIEW ledger.depth AS
 SELECT tenant,
    kind,
    lane,
    topic,
    count_max,
    due,
    available_since,
    waiting,
    blocked,
    retrying,
    claimed,
    running,
    parked
   FROM ledger.measure_depth() measure_depth(tenant, kind, lane, topic, count_max, due, available_since, waiting, blocked, retrying, claimed, running, parked);

COMMENT ON VIEW ledger.depth IS 'How much is due, waits, is in flight and is parked, of each flow. A count equal to count_max means that many or more.';

COMMENT ON COLUMN ledger.depth.count_max IS 'The most that due, waiting, blocked, retrying and parked count.';

COMMENT ON COLUMN ledger.depth.due IS 'Items that may be claimed now, retries included.';

COMMENT ON COLUMN ledger.depth.available_since IS 'Since when the first of the due items may be claimed.';

COMMENT ON COLUMN ledger.depth.waiting IS 'Items that may be claimed later, retries included.';

COMMENT ON COLUMN ledger.depth.blocked IS 'Items that wait for another one of their key.';

COMMENT ON COLUMN ledger.depth.retrying IS 'Those of the due and the waiting items whose last attempt failed.';

COMMENT ON COLUMN ledger.depth.claimed IS 'Items that are handed out and not started; null while more are in flight than are counted.';

COMMENT ON COLUMN ledger.depth.running IS 'Items that a worker or a consumer has started; null while more are in flight than are counted.';

COMMENT ON COLUMN ledger.depth.parked IS 'Items that wait for a person.';

CREATE TABLE ledger.due_item_default (
    effective_date date CONSTRAINT due_item_effective_date_not_null NOT NULL,
    flow_no integer CONSTRAINT due_item_flow_no_not_null NOT NULL,
    item_no bigint CONSTRAINT due_item_item_no_not_null NOT NULL,
    id uuid CONSTRAINT due_item_id_not_null NOT NULL,
    business_key text CONSTRAINT due_item_business_key_not_null NOT NULL,
    cycle text CONSTRAINT due_item_cycle_not_null NOT NULL,
    due_at timestamp with time zone CONSTRAINT due_item_due_at_not_null NOT NULL,
    start_by timestamp with time zone,
    complete_by timestamp with time zone,
    partition_key text,
    payload json CONSTRAINT due_item_payload_not_null NOT NULL,
    labels jsonb,
    definition_no bigint,
    event_no bigint,
    tzdata text,
    nominal text,
    zone text,
    decision text,
    smear_seconds double precision,
    traceparent text,
    emitted_at timestamp with time zone CONSTRAINT due_item_emitted_at_not_null NOT NULL,
    actor_no bigint CONSTRAINT due_item_actor_no_not_null NOT NULL,
    serial bigint,
    overlap smallint,
    CONSTRAINT due_item_valid CHECK (ledger.due_item_valid(effective_date, due_at, business_key, cycle, partition_key, payload, labels))
);

ALTER TABLE ledger.due_item ALTER COLUMN item_no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME ledger.due_item_item_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    MAXVALUE 8796093022207
    CACHE 1
);

CREATE TABLE ledger.event (
    event_no bigint NOT NULL,
    tenant text NOT NULL,
    source text NOT NULL,
    id text NOT NULL,
    type text NOT NULL,
    occurred_at timestamp with time zone NOT NULL,
    subject text,
    business_key text,
    body jsonb NOT NULL,
    traceparent text,
    received_at timestamp with time zone NOT NULL,
    matched boolean,
    actor_no bigint
)
PARTITION BY RANGE (occurred_at);

COMMENT ON TABLE ledger.event IS 'The inbox: received domain events, each once (event_key). Partitioned by month.';

COMMENT ON COLUMN ledger.event.source IS 'CloudEvents source; with tenant and id it identifies the event.';

COMMENT ON COLUMN ledger.event.subject IS 'CloudEvents subject.';

COMMENT ON COLUMN ledger.event.body IS 'The event as it was received.';

COMMENT ON COLUMN ledger.event.matched IS 'Whether an event rule applied to it when it was received.';

COMMENT ON COLUMN ledger.event.actor_no IS 'Who recorded it: an intake, or a key or token by HTTP.';

CREATE TABLE ledger.event_key (
    tenant text NOT NULL,
    source text NOT NULL,
    id text NOT NULL,
    event_no bigint NOT NULL,
    occurred_at timestamp with time zone NOT NULL,
    received_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE ledger.event_key IS 'Which events the inbox has: the first of a tenant, source and id. Forgotten after some time, because the inbox itself is partitioned by another time and cannot be unique.';

COMMENT ON COLUMN ledger.event_key.event_no IS 'Number of the event within the ledger; the inbox and items name events by it.';

ALTER TABLE ledger.event_key ALTER COLUMN event_no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME ledger.event_key_event_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    MAXVALUE 8796093022207
    CACHE 1
);

CREATE TABLE ledger.event_other_key (
    tenant text NOT NULL,
    business_key text NOT NULL,
    event_no bigint NOT NULL,
    occurred_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE ledger.event_other_key IS 'Events whose effects are on several business keys: `event` has the first, this table the others.';

CREATE TABLE ledger.failure_streak (
    flow_no integer NOT NULL,
    business_key text NOT NULL,
    failures integer NOT NULL,
    first_at timestamp with time zone NOT NULL,
    last_at timestamp with time zone NOT NULL,
    reason text,
    flagged_at timestamp with time zone,
    judged_at timestamp with time zone
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='20000', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE ledger.failure_streak IS 'Failures in a row of one business key, over attempts and cycles. A completion ends the streak.';

COMMENT ON COLUMN ledger.failure_streak.reason IS 'Reason of the latest failure.';

COMMENT ON COLUMN ledger.failure_streak.flagged_at IS 'When the streak reached streak_max of its kind.';

COMMENT ON COLUMN ledger.failure_streak.judged_at IS 'Up to when the streak was judged; later failures are judged again.';

CREATE SEQUENCE ledger.fence
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    MAXVALUE 8796093022207
    CACHE 1;

COMMENT ON SEQUENCE ledger.fence IS 'Fences: they only grow, and none is given twice.';

CREATE TABLE ledger.finding (
    id uuid NOT NULL,
    type text NOT NULL,
    severity text NOT NULL,
    tenant text NOT NULL,
    kind text NOT NULL,
    subject text NOT NULL,
    item_id uuid,
    business_key text,
    effective_date date,
    due_at timestamp with time zone,
    sentence text NOT NULL,
    expected jsonb,
    actual jsonb,
    terms jsonb,
    opened_count integer DEFAULT 1 NOT NULL,
    first_seen_at timestamp with time zone NOT NULL,
    last_seen_at timestamp with time zone NOT NULL,
    closed_at timestamp with time zone,
    reconciliation_no bigint,
    resolution text NOT NULL,
    reason text,
    resolved_by bigint,
    taken_by bigint,
    taken_at timestamp with time zone,
    CONSTRAINT finding_open_is_not_closed CHECK (((resolution = 'open'::text) = (closed_at IS NULL))),
    CONSTRAINT finding_resolution_known CHECK ((resolution = ANY (ARRAY['open'::text, 'explained'::text, 'repaired'::text, 'accepted'::text, 'carried_forward'::text, 'false_positive'::text]))),
    CONSTRAINT finding_severity_known CHECK ((severity = ANY (ARRAY['information'::text, 'warning'::text, 'error'::text, 'critical'::text]))),
    CONSTRAINT finding_taken_is_open CHECK (((taken_by IS NULL) OR (closed_at IS NULL))),
    CONSTRAINT finding_taken_named CHECK (((taken_by IS NULL) = (taken_at IS NULL))),
    CONSTRAINT finding_type_known CHECK ((type = ANY (ARRAY['MISSING'::text, 'UNEXPECTED'::text, 'DUPLICATE'::text, 'WRONG_DATE'::text, 'WRONG_TERMS'::text, 'WITHDRAWN'::text, 'UNEXCUSED'::text, 'PREMATURE'::text, 'OVERDUE'::text, 'STUCK'::text, 'HELD_KEY'::text, 'PUBLISHED_NO_OUTCOME'::text, 'OUTCOME_REJECTED'::text, 'OUTCOME_CONFLICT'::text, 'EFFECT_MISSING'::text, 'EFFECT_UNRECORDED'::text, 'EFFECT_REPEATED'::text, 'LATE'::text, 'LATE_ARRIVING'::text, 'EVENT_UNMATCHED'::text, 'UNBALANCED'::text, 'ORPHAN_RECORD'::text, 'RECORD_MISSING'::text, 'TAMPERED'::text, 'SOURCE_FAILED'::text, 'DEFINITION_FAILED'::text, 'DISAGREES'::text])))
);

COMMENT ON TABLE ledger.finding IS 'Findings: recorded differences between expected and actual. One closes itself when it no longer holds.';

COMMENT ON COLUMN ledger.finding.id IS 'Hash of what the finding is about: the same difference has the same id in every pass.';

COMMENT ON COLUMN ledger.finding.subject IS 'What the finding is about, as text: an item, a source, a definition.';

COMMENT ON COLUMN ledger.finding.sentence IS 'The finding in one sentence, for a person.';

COMMENT ON COLUMN ledger.finding.expected IS 'Evidence of the expected side.';

COMMENT ON COLUMN ledger.finding.actual IS 'Evidence of the actual side.';

COMMENT ON COLUMN ledger.finding.terms IS 'Terms of a missing item, from which a repair can emit it.';

COMMENT ON COLUMN ledger.finding.opened_count IS 'How often it was opened; a repair is for one opening.';

COMMENT ON COLUMN ledger.finding.reconciliation_no IS 'The latest pass that found it, of which upkeep may have deleted the row; null if only `define` did.';

COMMENT ON COLUMN ledger.finding.reason IS 'Why it was resolved so.';

COMMENT ON COLUMN ledger.finding.taken_by IS 'Who decides about it, or about its repair, as others see; it hinders nobody. Null: nobody has taken it.';

CREATE TABLE ledger.flood_pace (
    one_row boolean DEFAULT true NOT NULL,
    share double precision DEFAULT 1 NOT NULL,
    stepped_at timestamp with time zone,
    counted_from timestamp with time zone,
    slowed_at timestamp with time zone,
    flow_no integer,
    lag_seconds double precision,
    lag_target_seconds double precision,
    CONSTRAINT flood_pace_only_one CHECK (one_row),
    CONSTRAINT flood_pace_share_range CHECK (((share >= (0.01)::double precision) AND (share <= (1)::double precision)))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE ledger.flood_pace IS 'The pace of floods while flows with a lag target have items, in one row: a process that claims floods steps it, one at a time.';

COMMENT ON COLUMN ledger.flood_pace.share IS 'Share of the time in which floods are claimed.';

COMMENT ON COLUMN ledger.flood_pace.stepped_at IS 'When it was last stepped, by the machine clock: the fence of the next step. One that is old is not in force.';

COMMENT ON COLUMN ledger.flood_pace.counted_from IS 'When the share last fell, by the business clock: claims of items that were available before do not count.';

COMMENT ON COLUMN ledger.flood_pace.slowed_at IS 'Since when the share is below 1.';

COMMENT ON COLUMN ledger.flood_pace.flow_no IS 'The flow whose claims were late when the share last fell.';

COMMENT ON COLUMN ledger.flood_pace.lag_seconds IS 'The longest lag of its claims then.';

COMMENT ON COLUMN ledger.flood_pace.lag_target_seconds IS 'Its lag target then.';

CREATE TABLE ledger.flow (
    flow_no integer NOT NULL,
    kind_no integer NOT NULL,
    tenant text NOT NULL,
    kind text NOT NULL,
    ordering text NOT NULL,
    lane text DEFAULT ''::text NOT NULL,
    weight integer DEFAULT 1 NOT NULL,
    rate_per_second double precision,
    concurrency_max integer,
    window_items integer,
    paused_at timestamp with time zone,
    paused_by bigint,
    pause_reason text,
    retry_share double precision DEFAULT 0.2 NOT NULL,
    tokens double precision,
    tokens_at timestamp with time zone,
    circuit_failure_ratio double precision,
    circuit_calls_min integer DEFAULT 20 NOT NULL,
    circuit_window_seconds double precision DEFAULT 60 NOT NULL,
    circuit_rest_seconds double precision DEFAULT 30 NOT NULL,
    circuit text DEFAULT 'closed'::text NOT NULL,
    circuit_at timestamp with time zone,
    limited boolean GENERATED ALWAYS AS (((rate_per_second IS NOT NULL) OR (concurrency_max IS NOT NULL) OR (window_items IS NOT NULL) OR (circuit_failure_ratio IS NOT NULL))) STORED NOT NULL,
    circuit_run_no bigint,
    lag_target_seconds double precision,
    CONSTRAINT flow_circuit_calls_min_range CHECK (((circuit_calls_min >= 1) AND (circuit_calls_min <= 1000000))),
    CONSTRAINT flow_circuit_failure_ratio_range CHECK (((circuit_failure_ratio >= (0.000001)::double precision) AND (circuit_failure_ratio <= (1)::double precision))),
    CONSTRAINT flow_circuit_known CHECK ((circuit = ANY (ARRAY['closed'::text, 'open'::text, 'half_open'::text]))),
    CONSTRAINT flow_circuit_rest_seconds_range CHECK (((circuit_rest_seconds >= (0.001)::double precision) AND (circuit_rest_seconds <= (604800)::double precision))),
    CONSTRAINT flow_circuit_window_seconds_range CHECK (((circuit_window_seconds >= (0.001)::double precision) AND (circuit_window_seconds <= (604800)::double precision))),
    CONSTRAINT flow_concurrency_max_range CHECK (((concurrency_max >= 1) AND (concurrency_max <= 1000000000))),
    CONSTRAINT flow_lag_target_seconds_range CHECK (((lag_target_seconds >= (0.001)::double precision) AND (lag_target_seconds <= (604800)::double precision))),
    CONSTRAINT flow_lane_length CHECK ((char_length(lane) <= 100)),
    CONSTRAINT flow_pause_named CHECK (((paused_at IS NULL) = (paused_by IS NULL))),
    CONSTRAINT flow_rate_per_second_range CHECK (((rate_per_second >= (0.00000003)::double precision) AND (rate_per_second <= ('1000000000'::numeric)::double precision))),
    CONSTRAINT flow_retry_share_range CHECK (((retry_share >= (0)::double precision) AND (retry_share <= (1)::double precision))),
    CONSTRAINT flow_tokens_range CHECK (((tokens >= ('-1000000000000'::numeric)::double precision) AND (tokens <= ('1000000000000'::numeric)::double precision))),
    CONSTRAINT flow_weight_range CHECK (((weight >= 1) AND (weight <= 1000000))),
    CONSTRAINT flow_window_items_range CHECK (((window_items >= 1) AND (window_items <= 1000000000)))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE ledger.flow IS 'Items of one tenant, kind and lane: limits, pause and circuit apply to them together.';

COMMENT ON COLUMN ledger.flow.ordering IS 'As in kind, with its tenant and name: an emission looks up one table. A change of the kind changes it here.';

COMMENT ON COLUMN ledger.flow.lane IS 'Named part of the kind, as a region; empty where there is none.';

COMMENT ON COLUMN ledger.flow.weight IS 'Share of the flow against the others.';

COMMENT ON COLUMN ledger.flow.rate_per_second IS 'Rate limit in items; the token bucket holds one second of it.';

COMMENT ON COLUMN ledger.flow.concurrency_max IS 'Limit of claimed and running items at once.';

COMMENT ON COLUMN ledger.flow.window_items IS 'Limit of claimed items that are not started.';

COMMENT ON COLUMN ledger.flow.paused_at IS 'Since when the flow is paused; nothing of it is claimed.';

COMMENT ON COLUMN ledger.flow.retry_share IS 'Part of each claim that is kept for retries.';

COMMENT ON COLUMN ledger.flow.tokens IS 'Tokens in the bucket at tokens_at; negative after more was claimed than it held.';

COMMENT ON COLUMN ledger.flow.circuit_failure_ratio IS 'Share of failures at which the circuit opens; null: there is no circuit.';

COMMENT ON COLUMN ledger.flow.circuit_calls_min IS 'Outcomes within the window below which the circuit stays as it is.';

COMMENT ON COLUMN ledger.flow.circuit_window_seconds IS 'Time over which outcomes are counted for the circuit.';

COMMENT ON COLUMN ledger.flow.circuit_rest_seconds IS 'Time from opening the circuit until a probe is claimed.';

COMMENT ON COLUMN ledger.flow.circuit_at IS 'When the circuit last changed.';

COMMENT ON COLUMN ledger.flow.limited IS 'Whether the flow has any limit. Where more than its rate is limited, its items in flight are counted: they are then in claims of this flow alone.';

COMMENT ON COLUMN ledger.flow.circuit_run_no IS 'First run number that counts for the circuit: only runs started after its last change do. Run numbers keep their order where a clock is set back.';

COMMENT ON COLUMN ledger.flow.lag_target_seconds IS 'While its items start later than this after they could be claimed, floods of other flows are claimed more slowly.';

CREATE TABLE ledger.flow_change (
    flow_no integer NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    actor_no bigint NOT NULL,
    change jsonb NOT NULL
);

COMMENT ON TABLE ledger.flow_change IS 'Changes of the limits of flows: by whom, when and to what. Append only.';

ALTER TABLE ledger.flow ALTER COLUMN flow_no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME ledger.flow_flow_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    MAXVALUE 2097151
    CACHE 1
);

CREATE TABLE ledger.flow_outcome (
    flow_no integer NOT NULL,
    at timestamp with time zone NOT NULL,
    completed integer NOT NULL,
    failed integer NOT NULL,
    run_no bigint DEFAULT 0 NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='2000');

COMMENT ON TABLE ledger.flow_outcome IS 'Outcomes of flows with a circuit, counted per settlement. The allocators read them and delete the old ones.';

COMMENT ON COLUMN ledger.flow_outcome.at IS 'Time of the settlement, on machine time.';

COMMENT ON COLUMN ledger.flow_outcome.run_no IS 'Lowest number of the runs counted together; 0 where there was none, and the row then counts for no circuit.';

CREATE TABLE ledger.following (
    item_no bigint NOT NULL,
    effective_date date NOT NULL,
    definition_no bigint NOT NULL,
    delay_seconds double precision NOT NULL,
    CONSTRAINT following_delay_positive CHECK ((delay_seconds > (0)::double precision))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='2000');

COMMENT ON TABLE ledger.following IS 'Items of schedules with a fixed delay that are not ended. The transaction that ends one deletes its row, and a trigger emits the next item.';

COMMENT ON COLUMN ledger.following.delay_seconds IS 'Time from the end of the item until the next one is due.';

CREATE TABLE ledger.held_key (
    serial bigint NOT NULL,
    item_no bigint NOT NULL,
    effective_date date NOT NULL,
    flow_no integer NOT NULL,
    held_at timestamp with time zone NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='2000');

COMMENT ON TABLE ledger.held_key IS 'Held keys: which serial item has each, from its claim until it ends, and between attempts where failures hold.';

ALTER TABLE ledger.kind ALTER COLUMN kind_no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME ledger.kind_kind_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    MAXVALUE 2097151
    CACHE 1
);

CREATE TABLE ledger.leader (
    task text NOT NULL,
    holder text NOT NULL,
    held_until timestamp with time zone NOT NULL,
    term bigint DEFAULT 1 NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE ledger.leader IS 'Tasks that one process does at a time, by a lease. Two may do one for a moment, so that it must be harmless to do it twice, or each write name the term.';

COMMENT ON COLUMN ledger.leader.holder IS 'The process, by a name of its own.';

COMMENT ON COLUMN ledger.leader.held_until IS 'Until then no other process takes the task; by the machine clock.';

COMMENT ON COLUMN ledger.leader.term IS 'Grows each time that another process takes the task.';

CREATE TABLE ledger.lock_row (
    subject text NOT NULL,
    key text NOT NULL
)
WITH (autovacuum_enabled='false');

COMMENT ON TABLE ledger.lock_row IS 'Rows that are locked in place of something that has no row. No role may lock them but by ledger.lock_rows and ledger.lock_name: every login could hold an advisory lock.';

COMMENT ON COLUMN ledger.lock_row.key IS 'A stripe of keys, or a name; added when a name is locked first.';

CREATE TABLE ledger.materialised (
    definition_no bigint NOT NULL,
    materialised_until timestamp with time zone NOT NULL,
    failed_at timestamp with time zone,
    failure text,
    ends_at timestamp with time zone DEFAULT 'infinity'::timestamp with time zone NOT NULL,
    tzdata text
);

COMMENT ON TABLE ledger.materialised IS 'How far each version of a schedule is materialised.';

COMMENT ON COLUMN ledger.materialised.materialised_until IS 'The materialised watermark; it only moves forward.';

COMMENT ON COLUMN ledger.materialised.failure IS 'Why the version could not be materialised, at failed_at.';

COMMENT ON COLUMN ledger.materialised.ends_at IS 'When the next version takes over. Setting it waits until no process expands the version.';

COMMENT ON COLUMN ledger.materialised.tzdata IS 'The IANA version by which it was last expanded; null before. Another one may have moved occurrences over the watermark.';

CREATE TABLE ledger.missed_range (
    definition_no bigint NOT NULL,
    from_at timestamp with time zone NOT NULL,
    until_at timestamp with time zone NOT NULL,
    occurrences bigint NOT NULL,
    reason text NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    actor_no bigint NOT NULL,
    CONSTRAINT missed_range_in_order CHECK ((from_at < until_at)),
    CONSTRAINT missed_range_occurrences_positive CHECK ((occurrences > 0)),
    CONSTRAINT missed_range_reason_known CHECK ((reason = 'catch_up'::text))
);

COMMENT ON TABLE ledger.missed_range IS 'Missed ranges: occurrences that catch-up does not owe any more, where they are too many for a row each.';

COMMENT ON COLUMN ledger.missed_range.occurrences IS 'How many occurrences the range has.';

CREATE TABLE ledger.run (
    run_no bigint NOT NULL,
    started_at timestamp with time zone NOT NULL,
    fence bigint NOT NULL,
    claimed_at timestamp with time zone NOT NULL,
    from_position integer NOT NULL,
    to_position integer NOT NULL,
    worker_no bigint NOT NULL,
    lease_until timestamp with time zone NOT NULL,
    lease_seconds double precision NOT NULL,
    ended bit varying NOT NULL,
    closed_at timestamp with time zone,
    flow_no integer,
    run_until timestamp with time zone,
    extended_at timestamp with time zone,
    overran bit varying,
    withdrawn bit varying,
    isolated_in text,
    CONSTRAINT run_bits_agree CHECK ((bit_length((ended)::"bit") = ((to_position - from_position) + 1))),
    CONSTRAINT run_isolation_known CHECK ((isolated_in = ANY (ARRAY['process'::text, 'slot'::text]))),
    CONSTRAINT run_positions_ordered CHECK (((from_position >= 1) AND (from_position <= to_position)))
)
PARTITION BY RANGE (started_at);

COMMENT ON TABLE ledger.run IS 'Runs: one row for each started part of a claim, under the lease of one worker. Partitioned by month; closed runs are kept.';

COMMENT ON COLUMN ledger.run.fence IS 'The claim.';

COMMENT ON COLUMN ledger.run.claimed_at IS 'When the claim was made: its table partition.';

COMMENT ON COLUMN ledger.run.worker_no IS 'Actor number of the worker, or of the consumers of the topic.';

COMMENT ON COLUMN ledger.run.ended IS 'A bit for each position: set once its item has ended.';

COMMENT ON COLUMN ledger.run.closed_at IS 'When all items had ended or the run was reaped; null while the run is open.';

COMMENT ON COLUMN ledger.run.flow_no IS 'Set where all items are of one flow whose items in flight are counted.';

COMMENT ON COLUMN ledger.run.run_until IS 'Latest end of the run; no heartbeat extends the lease beyond it.';

COMMENT ON COLUMN ledger.run.extended_at IS 'When the lease was last extended; where the run is settled by topic, every reported outcome extends it.';

COMMENT ON COLUMN ledger.run.overran IS 'A bit for each position, reported by the worker at the hard end: set if its handler had the item then.';

COMMENT ON COLUMN ledger.run.withdrawn IS 'A bit for each position: set if the start of the run ended its item, as was requested while it was handed out. Null: none.';

COMMENT ON COLUMN ledger.run.isolated_in IS 'Set for suspects: in a process of their own, which dies instead of the worker, or in the slot that a worker has for one.';

CREATE VIEW ledger.open_item AS
 SELECT c.item_no[p.p] AS item_no,
    c.effective_date[p.p] AS effective_date,
    (2)::smallint AS state,
    c.fence,
    c.claimed_at,
    p.p AS "position",
    NULL::bigint AS run_no,
    NULL::timestamp with time zone AS started_at,
    c.attempt[p.p] AS attempt
   FROM (ledger.claim c
     CROSS JOIN LATERAL generate_series((c.started + 1), c.size) p(p))
  WHERE (c.closed_at IS NULL)
UNION ALL
 SELECT c.item_no[p.p] AS item_no,
    c.effective_date[p.p] AS effective_date,
    (3)::smallint AS state,
    c.fence,
    c.claimed_at,
    p.p AS "position",
    r.run_no,
    r.started_at,
    c.attempt[p.p] AS attempt
   FROM ((ledger.run r
     JOIN ledger.claim c ON (((c.fence = r.fence) AND (c.claimed_at = r.claimed_at))))
     CROSS JOIN LATERAL generate_series(r.from_position, LEAST(r.to_position, ((r.from_position + bit_length((r.ended)::"bit")) - 1))) p(p))
  WHERE ((r.closed_at IS NULL) AND (get_bit((r.ended)::"bit", (p.p - r.from_position)) = 0));

COMMENT ON VIEW ledger.open_item IS 'Items that are claimed or running, with claim, position and run.';

CREATE TABLE ledger.operation (
    operation_no bigint NOT NULL,
    verb text NOT NULL,
    tenant text,
    kind text,
    lane text,
    parked_reason text,
    error text,
    since timestamp with time zone,
    state smallint,
    due_from timestamp with time zone,
    due_before timestamp with time zone,
    until timestamp with time zone,
    in_flight boolean NOT NULL,
    as_of timestamp with time zone NOT NULL,
    snapshot pg_snapshot DEFAULT pg_current_snapshot() NOT NULL,
    item_no_max bigint NOT NULL,
    matched bigint NOT NULL,
    matched_capped boolean NOT NULL,
    actor_no bigint NOT NULL,
    reason text NOT NULL,
    reached_item_no bigint DEFAULT 0 NOT NULL,
    done bigint DEFAULT 0 NOT NULL,
    requested bigint DEFAULT 0 NOT NULL,
    advanced_at timestamp with time zone,
    ended_at timestamp with time zone,
    aborted_by bigint,
    abort_reason text,
    paused_at timestamp with time zone,
    paused_by bigint,
    pause_reason text,
    stepped_at timestamp with time zone,
    worked_seconds double precision DEFAULT 0 NOT NULL,
    needs_approval boolean DEFAULT false NOT NULL,
    approved_at timestamp with time zone,
    approved_by bigint,
    approval_reason text,
    awaits_approval boolean GENERATED ALWAYS AS ((needs_approval AND (approved_at IS NULL) AND (ended_at IS NULL))) STORED NOT NULL,
    CONSTRAINT operation_abort_named CHECK ((((aborted_by IS NULL) = (abort_reason IS NULL)) AND ((aborted_by IS NULL) OR (ended_at IS NOT NULL)))),
    CONSTRAINT operation_approval_named CHECK (((num_nulls(approved_at, approved_by, approval_reason) = ANY (ARRAY[0, 3])) AND (needs_approval OR (approved_at IS NULL)))),
    CONSTRAINT operation_in_flight_cancels CHECK (((NOT in_flight) OR ((verb = 'cancel'::text) AND (parked_reason IS NULL) AND (error IS NULL) AND (since IS NULL) AND (state IS NULL)))),
    CONSTRAINT operation_maker_is_not_checker CHECK ((approved_by <> actor_no)),
    CONSTRAINT operation_pause_named CHECK ((num_nulls(paused_at, paused_by, pause_reason) = ANY (ARRAY[0, 3]))),
    CONSTRAINT operation_state_known CHECK ((state = ANY (ARRAY[1, 4, 5]))),
    CONSTRAINT operation_until_snoozes CHECK ((((verb = 'snooze'::text) = (until IS NOT NULL)) AND (until < 'infinity'::timestamp with time zone))),
    CONSTRAINT operation_verb_known CHECK ((verb = ANY (ARRAY['trigger'::text, 'park'::text, 'redrive'::text, 'write_off'::text, 'snooze'::text, 'cancel'::text])))
);

COMMENT ON TABLE ledger.operation IS 'Operations: what a person asked for all items of a filter. Upkeep carries them out, some items at a time. The filter and its bounds never change; only progress does.';

COMMENT ON COLUMN ledger.operation.lane IS 'Only this lane; empty for the default one, null for all.';

COMMENT ON COLUMN ledger.operation.parked_reason IS 'Only items that are parked for this reason.';

COMMENT ON COLUMN ledger.operation.error IS 'Only items whose last error was of this class.';

COMMENT ON COLUMN ledger.operation.since IS 'Only items that came into their state at this time or later.';

COMMENT ON COLUMN ledger.operation.state IS 'Only items in this state; none that are handed out.';

COMMENT ON COLUMN ledger.operation.due_from IS 'Only items that are due at this time or later.';

COMMENT ON COLUMN ledger.operation.due_before IS 'Only items that are due before this time.';

COMMENT ON COLUMN ledger.operation.until IS 'Of snooze: when the items may be handed out. Those that wait as long anyway are left alone, and all once it is past.';

COMMENT ON COLUMN ledger.operation.in_flight IS 'Whether items that are handed out are meant, too: each gets a request to end.';

COMMENT ON COLUMN ledger.operation.as_of IS 'When it was asked for. An item that came into its state later is left alone.';

COMMENT ON COLUMN ledger.operation.snapshot IS 'What was committed when it was asked for. Items that were emitted or moved then, and committed later, are left alone.';

COMMENT ON COLUMN ledger.operation.item_no_max IS 'Highest number of an open item then. Items emitted later are left alone.';

COMMENT ON COLUMN ledger.operation.matched IS 'Items that matched then.';

COMMENT ON COLUMN ledger.operation.matched_capped IS 'Whether counting stopped before all items were examined.';

COMMENT ON COLUMN ledger.operation.actor_no IS 'The person who asked, whom the journal names for each item.';

COMMENT ON COLUMN ledger.operation.reached_item_no IS 'Items up to this number are done with.';

COMMENT ON COLUMN ledger.operation.done IS 'Items that were moved.';

COMMENT ON COLUMN ledger.operation.requested IS 'Items in flight that got a request to end.';

COMMENT ON COLUMN ledger.operation.ended_at IS 'When the last item was examined, or the operation was aborted.';

COMMENT ON COLUMN ledger.operation.paused_at IS 'While it is set, no item is moved. It stays where a paused operation was aborted.';

COMMENT ON COLUMN ledger.operation.stepped_at IS 'When its last step ended, on the machine''s clock; null before the first one, and after a pause.';

COMMENT ON COLUMN ledger.operation.worked_seconds IS 'How long it has been carried out, without pauses; of the time between two steps, a minute at most.';

COMMENT ON COLUMN ledger.operation.needs_approval IS 'Whether a policy of the kinds that it reaches asked for a second person when it was recorded.';

COMMENT ON COLUMN ledger.operation.approved_by IS 'The person who approved it: never the actor that asked for it.';

COMMENT ON COLUMN ledger.operation.awaits_approval IS 'While it is set, no item is moved.';

ALTER TABLE ledger.operation ALTER COLUMN operation_no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME ledger.operation_operation_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    MAXVALUE 8796093022207
    CACHE 1
);

CREATE TABLE ledger.operation_state (
    verb text NOT NULL,
    state smallint NOT NULL
);

COMMENT ON TABLE ledger.operation_state IS 'States of the items that each verb of an operation is applied to.';

CREATE TABLE ledger.overview (
    flow_no integer NOT NULL,
    quarter timestamp with time zone NOT NULL,
    completed integer DEFAULT 0 NOT NULL,
    completed_late integer DEFAULT 0 NOT NULL,
    completed_in_flight integer DEFAULT 0 NOT NULL,
    in_flight integer DEFAULT 0 NOT NULL,
    waiting integer DEFAULT 0 NOT NULL,
    blocked integer DEFAULT 0 NOT NULL,
    failed integer DEFAULT 0 NOT NULL,
    is_capped boolean DEFAULT false NOT NULL
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='20000', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE ledger.overview IS 'What of each flow was and is due in each quarter hour of the last and the next 24 hours, as it was counted last. Kept while a page of the console is open: its refreshes count it again, each a part.';

COMMENT ON COLUMN ledger.overview.quarter IS 'Begin of the quarter hour, in UTC.';

COMMENT ON COLUMN ledger.overview.completed IS 'Items due in it that runs completed which are closed.';

COMMENT ON COLUMN ledger.overview.completed_late IS 'Those of them that were completed after their SLA.';

COMMENT ON COLUMN ledger.overview.completed_in_flight IS 'Items due in it that runs completed which are open.';

COMMENT ON COLUMN ledger.overview.in_flight IS 'Items due in it that are handed out or running.';

COMMENT ON COLUMN ledger.overview.waiting IS 'Items that may be claimed from that quarter hour on.';

COMMENT ON COLUMN ledger.overview.blocked IS 'Items due in it that wait for another one of their key.';

COMMENT ON COLUMN ledger.overview.failed IS 'Items due in it that wait for a retry, or for a person.';

COMMENT ON COLUMN ledger.overview.is_capped IS 'Whether more wait than are counted.';

CREATE TABLE ledger.overview_flow (
    flow_no integer NOT NULL,
    counted_at timestamp with time zone DEFAULT '1970-01-01 00:00:00+00'::timestamp with time zone NOT NULL,
    counted_to timestamp with time zone,
    far_counted_at timestamp with time zone DEFAULT '1970-01-01 00:00:00+00'::timestamp with time zone NOT NULL,
    far_counted_to timestamp with time zone,
    late integer DEFAULT 0 NOT NULL,
    failed integer DEFAULT 0 NOT NULL,
    items integer DEFAULT 0 NOT NULL,
    rate_per_second double precision DEFAULT 0 NOT NULL,
    rated_at timestamp with time zone DEFAULT '1970-01-01 00:00:00+00'::timestamp with time zone NOT NULL
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='20000', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE ledger.overview_flow IS 'When the waiting items of each flow were counted for the overview, and the sums of its cells.';

COMMENT ON COLUMN ledger.overview_flow.counted_at IS 'When those of the last day and the next hour were counted last; by the machine clock.';

COMMENT ON COLUMN ledger.overview_flow.counted_to IS 'Quarter hour at which the count goes on; null: it begins anew, at the first one.';

COMMENT ON COLUMN ledger.overview_flow.far_counted_at IS 'When those of the hours after it were.';

COMMENT ON COLUMN ledger.overview_flow.far_counted_to IS 'As counted_to, of these.';

COMMENT ON COLUMN ledger.overview_flow.late IS 'Items that have not ended, of quarter hours whose grace is over.';

COMMENT ON COLUMN ledger.overview_flow.items IS 'All items of its cells.';

COMMENT ON COLUMN ledger.overview_flow.rate_per_second IS 'Items that ended a second, when it was measured and there were some.';

COMMENT ON COLUMN ledger.overview_flow.rated_at IS 'When that was; before rated_at of the reader: none ended since.';

CREATE TABLE ledger.overview_minute (
    tenant text NOT NULL,
    minute timestamp with time zone NOT NULL,
    bucket smallint NOT NULL,
    items double precision NOT NULL,
    sampled integer NOT NULL
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='20000', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE ledger.overview_minute IS 'What runs completed in each minute of the last hour, by how long after it was due. Counted as the overview is.';

COMMENT ON COLUMN ledger.overview_minute.tenant IS 'Empty: all tenants.';

COMMENT ON COLUMN ledger.overview_minute.bucket IS 'Completed within 2 ^ (bucket / 8) ms after it was due, and in none before; 0: within one.';

COMMENT ON COLUMN ledger.overview_minute.items IS 'Items; where runs were sampled, an estimate.';

COMMENT ON COLUMN ledger.overview_minute.sampled IS 'Items that were looked at.';

CREATE TABLE ledger.overview_minute_run (
    run_no bigint NOT NULL,
    started_at timestamp with time zone NOT NULL,
    ended bit varying NOT NULL,
    weight double precision NOT NULL,
    checked_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE ledger.overview_minute_run IS 'Runs that were open when their minutes were counted: what they end later is counted then.';

COMMENT ON COLUMN ledger.overview_minute_run.ended IS 'Those of its items that are counted.';

COMMENT ON COLUMN ledger.overview_minute_run.weight IS 'How many runs are counted by this one.';

CREATE TABLE ledger.overview_reader (
    one boolean DEFAULT true NOT NULL,
    read_at timestamp with time zone NOT NULL,
    read_to_run bigint NOT NULL,
    read_from_run bigint NOT NULL,
    read_from timestamp with time zone NOT NULL,
    is_cut boolean DEFAULT false NOT NULL,
    rated_at timestamp with time zone,
    rated_from timestamp with time zone DEFAULT ledger.now() NOT NULL,
    rated_from_run bigint DEFAULT 0 NOT NULL,
    minutes_from timestamp with time zone,
    minutes_to timestamp with time zone,
    minutes_to_run bigint DEFAULT 0 NOT NULL,
    CONSTRAINT overview_reader_is_one CHECK (one)
);

COMMENT ON TABLE ledger.overview_reader IS 'Up to where the overview has read runs, in one row: those between both numbers are read, or in overview_run.';

COMMENT ON COLUMN ledger.overview_reader.read_at IS 'When it last read runs.';

COMMENT ON COLUMN ledger.overview_reader.read_from IS 'Runs started from then on are read.';

COMMENT ON COLUMN ledger.overview_reader.is_cut IS 'Whether more items are in flight than are counted.';

COMMENT ON COLUMN ledger.overview_reader.rated_at IS 'When rates of flows were measured; by the machine clock.';

COMMENT ON COLUMN ledger.overview_reader.rated_from IS 'Rates are of the time since then, at most five minutes.';

COMMENT ON COLUMN ledger.overview_reader.rated_from_run IS 'Runs with a lower number do not count for them.';

COMMENT ON COLUMN ledger.overview_reader.minutes_from IS 'From when on the minutes are counted.';

COMMENT ON COLUMN ledger.overview_reader.minutes_to IS 'Up to when the minutes are counted; null: they never were.';

COMMENT ON COLUMN ledger.overview_reader.minutes_to_run IS 'Runs up to this number are counted, each by a sample if they are many, or in overview_minute_run.';

CREATE TABLE ledger.overview_run (
    run_no bigint NOT NULL,
    started_at timestamp with time zone NOT NULL,
    checked_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE ledger.overview_run IS 'Runs that were open when the overview came to them: they are read once they are closed.';

CREATE TABLE ledger.partition_backoff (
    topic text NOT NULL,
    partition integer NOT NULL,
    expirations smallint NOT NULL,
    available_at timestamp with time zone NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE ledger.partition_backoff IS 'Partitions of topics whose published claims expired unstarted: their items wait before they are handed out again. The next start out of the partition deletes the row.';

COMMENT ON COLUMN ledger.partition_backoff.partition IS 'Partition of the Kafka topic.';

COMMENT ON COLUMN ledger.partition_backoff.expirations IS 'Times in a row that claims expired, one a backoff.';

COMMENT ON COLUMN ledger.partition_backoff.available_at IS 'From when its items may be handed out again, by the business clock.';

CREATE TABLE ledger.partition_span (
    parent text NOT NULL,
    starts_on date NOT NULL,
    ends_before date NOT NULL,
    leaf regclass,
    made_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    checked_at timestamp with time zone,
    finished_at timestamp with time zone,
    has_retired boolean DEFAULT false NOT NULL
);

COMMENT ON TABLE ledger.partition_span IS 'Table partitions that exist: a month each from 2020 to 2049, a year each before and after, so that scattered dates cannot make more than some hundreds of them.';

COMMENT ON COLUMN ledger.partition_span.parent IS 'The partitioned table. The row of due_item covers transition, too.';

COMMENT ON COLUMN ledger.partition_span.leaf IS 'The table partition; null where it is not made, because the default partition has too many rows to move at once.';

COMMENT ON COLUMN ledger.partition_span.checked_at IS 'When the items of the month were last counted.';

COMMENT ON COLUMN ledger.partition_span.finished_at IS 'Of claims and runs: when the month was over and had no open row. None opens in it again.';

COMMENT ON COLUMN ledger.partition_span.has_retired IS 'Of items: whether the month was dropped before and made again, so that its retired keys are asked for.';

CREATE TABLE ledger.past_load (
    tenant text NOT NULL,
    kind text NOT NULL,
    quarter timestamp with time zone NOT NULL,
    effective_date date NOT NULL,
    items integer NOT NULL,
    completed integer NOT NULL,
    completed_late integer NOT NULL,
    in_review integer NOT NULL,
    withdrawn integer NOT NULL,
    written_off integer NOT NULL,
    had_failures integer NOT NULL
);

COMMENT ON TABLE ledger.past_load IS 'Results of the items that were due in each quarter hour of the last five weeks, by kind. Passes of reconciliation write what has changed of the dates that they read.';

COMMENT ON COLUMN ledger.past_load.tenant IS 'Empty: all tenants.';

COMMENT ON COLUMN ledger.past_load.kind IS 'Empty: all kinds of the tenant.';

COMMENT ON COLUMN ledger.past_load.quarter IS 'Begin of the quarter hour, in UTC.';

COMMENT ON COLUMN ledger.past_load.effective_date IS 'That of the items: a pass reads items by it.';

COMMENT ON COLUMN ledger.past_load.completed_late IS 'Those of them that were completed after their SLA.';

COMMENT ON COLUMN ledger.past_load.withdrawn IS 'Items that were cancelled, superseded or skipped.';

COMMENT ON COLUMN ledger.past_load.had_failures IS 'Items of which an attempt failed, timed out or was parked, whatever their results.';

CREATE TABLE ledger.past_load_count (
    one boolean DEFAULT true NOT NULL,
    as_of timestamp with time zone NOT NULL,
    counted_from timestamp with time zone NOT NULL,
    CONSTRAINT past_load_count_is_one CHECK (one)
);

COMMENT ON TABLE ledger.past_load_count IS 'Of which time the past load is known, in one row: a pass that compared the whole ledger has counted all items that were due in it.';

COMMENT ON COLUMN ledger.past_load_count.as_of IS 'The moment on business time for which they were counted.';

COMMENT ON COLUMN ledger.past_load_count.counted_from IS 'The begin of the first quarter hour that is counted.';

CREATE TABLE ledger.past_sum (
    tenant text NOT NULL,
    kind text NOT NULL,
    minutes smallint NOT NULL,
    begins timestamp with time zone NOT NULL,
    items integer NOT NULL,
    completed integer NOT NULL,
    completed_late integer NOT NULL,
    in_review integer NOT NULL,
    withdrawn integer NOT NULL,
    written_off integer NOT NULL,
    had_failures integer NOT NULL,
    CONSTRAINT past_sum_minutes_known CHECK ((minutes = ANY (ARRAY[15, 60, 360, 1440])))
);

COMMENT ON TABLE ledger.past_sum IS 'Sums of past_load over effective dates, by quarter hour, hour, six hours and day in UTC: what pages read. Triggers of past_load keep them.';

COMMENT ON COLUMN ledger.past_sum.tenant IS 'Empty: all tenants.';

COMMENT ON COLUMN ledger.past_sum.kind IS 'Empty: all kinds of the tenant.';

COMMENT ON COLUMN ledger.past_sum.minutes IS 'How long the span is: a quarter hour, an hour, six hours or a day.';

COMMENT ON COLUMN ledger.past_sum.begins IS 'Begin of the span, in UTC.';

COMMENT ON COLUMN ledger.past_sum.completed_late IS 'Those of them that were completed after their SLA.';

COMMENT ON COLUMN ledger.past_sum.withdrawn IS 'Items that were cancelled, superseded or skipped.';

COMMENT ON COLUMN ledger.past_sum.had_failures IS 'Items of which an attempt failed, timed out or was parked, whatever their results.';

CREATE TABLE ledger.pause (
    pause_no integer NOT NULL,
    tenant text NOT NULL,
    kind text,
    lane text,
    paused_at timestamp with time zone NOT NULL,
    actor_no bigint NOT NULL,
    reason text NOT NULL,
    resumed_at timestamp with time zone,
    resumed_by bigint,
    paused_until timestamp with time zone
);

COMMENT ON TABLE ledger.pause IS 'Pauses by tenant, kind and lane. A flow made while one is in force is paused from the start.';

COMMENT ON COLUMN ledger.pause.kind IS 'Null: all kinds of the tenant.';

COMMENT ON COLUMN ledger.pause.lane IS 'Null: all lanes of the kind.';

COMMENT ON COLUMN ledger.pause.resumed_at IS 'When the pause ended; null while it is in force.';

COMMENT ON COLUMN ledger.pause.resumed_by IS 'Null, too, of a pause that ended by its own end.';

COMMENT ON COLUMN ledger.pause.paused_until IS 'Its own end, at which upkeep ends it; null: a person ends it.';

ALTER TABLE ledger.pause ALTER COLUMN pause_no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME ledger.pause_pause_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    MAXVALUE 2097151
    CACHE 1
);

CREATE TABLE ledger.pending (
    item_no bigint NOT NULL,
    effective_date date NOT NULL,
    flow_no integer NOT NULL,
    available_at timestamp with time zone NOT NULL,
    state smallint DEFAULT 1 NOT NULL,
    attempt smallint DEFAULT 0 NOT NULL,
    starts smallint DEFAULT 0 NOT NULL,
    batch_max smallint,
    serial bigint,
    serial_due_at timestamp with time zone,
    overlap smallint,
    snoozed_until timestamp with time zone,
    CONSTRAINT pending_valid CHECK (ledger.pending_valid(state, serial, serial_due_at, overlap))
)
WITH (fillfactor='90', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='20000', autovacuum_vacuum_cost_delay='0', autovacuum_vacuum_insert_scale_factor='0', autovacuum_vacuum_insert_threshold='100000', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='50000');

COMMENT ON TABLE ledger.pending IS 'Items that wait to be claimed. A claim deletes the rows.';

COMMENT ON COLUMN ledger.pending.available_at IS 'From when the item may be claimed: due_at, or later after a retry, snooze or smear; infinity while it waits for its key.';

COMMENT ON COLUMN ledger.pending.attempt IS 'Attempts counted so far.';

COMMENT ON COLUMN ledger.pending.starts IS 'Starts so far, snoozes and lost workers included.';

COMMENT ON COLUMN ledger.pending.batch_max IS 'For a suspect: in runs of how many items at most it is started; else null.';

COMMENT ON COLUMN ledger.pending.serial IS 'As in due_item.';

COMMENT ON COLUMN ledger.pending.serial_due_at IS 'Order within the key: due_at of a serial item.';

COMMENT ON COLUMN ledger.pending.overlap IS 'As in due_item.';

COMMENT ON COLUMN ledger.pending.snoozed_until IS 'Until when a person snoozed it, so that it may be due long before it is available; null: nobody did.';

CREATE TABLE ledger.permitted_transition (
    event smallint NOT NULL,
    before_state smallint
);

COMMENT ON TABLE ledger.permitted_transition IS 'States in which each event may happen.';

COMMENT ON COLUMN ledger.permitted_transition.before_state IS 'State of the item before the event; null where the item is in no state yet, or was lost.';

CREATE TABLE ledger.population (
    population_no bigint NOT NULL,
    reconciliation_no bigint NOT NULL,
    name text NOT NULL,
    origin text NOT NULL,
    query_digest text,
    extracted_at timestamp with time zone NOT NULL,
    duration_seconds double precision NOT NULL,
    row_count bigint NOT NULL,
    skipped_count bigint NOT NULL,
    hash_total bigint NOT NULL,
    failure text,
    CONSTRAINT population_counts_positive CHECK (((row_count >= 0) AND (skipped_count >= 0))),
    CONSTRAINT population_origin_known CHECK ((origin = ANY (ARRAY['definitions'::text, 'events'::text, 'sql'::text, 'csv'::text, 'evidence'::text, 'kafka'::text])))
);

COMMENT ON TABLE ledger.population IS 'What a pass read of each source, with its control total. One row a source and pass.';

COMMENT ON COLUMN ledger.population.name IS 'Name of the source.';

COMMENT ON COLUMN ledger.population.query_digest IS 'Hash of the query, or of the bytes of a file, where the source has one.';

COMMENT ON COLUMN ledger.population.skipped_count IS 'Rows that could not be used.';

COMMENT ON COLUMN ledger.population.hash_total IS 'Control total: a sum of hashes over the rows.';

COMMENT ON COLUMN ledger.population.failure IS 'Why the source could not be read.';

ALTER TABLE ledger.population ALTER COLUMN population_no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME ledger.population_population_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    MAXVALUE 8796093022207
    CACHE 1
);

CREATE TABLE ledger.process (
    process_no bigint NOT NULL,
    role text NOT NULL,
    host text NOT NULL,
    version text NOT NULL,
    started_at timestamp with time zone NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    locked_on timestamp with time zone,
    unlocked_at timestamp with time zone,
    yields boolean DEFAULT false NOT NULL,
    kinds text[],
    kind_tenants jsonb,
    sleeps_until timestamp with time zone,
    failing_since timestamp with time zone,
    failure text,
    failed_service text,
    unavailable_topics jsonb,
    does_upkeep boolean,
    certificate_expires_at timestamp with time zone,
    drains boolean DEFAULT false NOT NULL,
    drain_asked_at timestamp with time zone,
    drain_asked_by bigint,
    drain_reason text,
    draining_since timestamp with time zone,
    ticked_at timestamp with time zone,
    tick_seconds double precision,
    outbox_items integer,
    CONSTRAINT process_drain_named CHECK ((((drain_asked_at IS NULL) = (drain_asked_by IS NULL)) AND ((drain_asked_at IS NULL) = (drain_reason IS NULL)))),
    CONSTRAINT process_role_known CHECK ((role = ANY (ARRAY['allocator'::text, 'worker'::text, 'direct_worker'::text, 'outcome_intake'::text, 'intake'::text, 'materialiser'::text, 'reconciler'::text, 'relay'::text, 'service'::text, 'alerter'::text])))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE ledger.process IS 'Processes: one row an incarnation. Upkeep deletes rows of those that ended an hour ago or were not seen for a week.';

COMMENT ON COLUMN ledger.process.process_no IS 'Actor number of the process.';

COMMENT ON COLUMN ledger.process.host IS 'Name of its machine or container.';

COMMENT ON COLUMN ledger.process.version IS 'Version of dueledger that it runs.';

COMMENT ON COLUMN ledger.process.seen_at IS 'When it last renewed the row: each five seconds while it lives.';

COMMENT ON COLUMN ledger.process.ended_at IS 'When it stopped in order; null while it lives, and if it was killed.';

COMMENT ON COLUMN ledger.process.locked_on IS 'Start time of the server on which it has its lock (see process_status); null where it has none, as behind a pooler.';

COMMENT ON COLUMN ledger.process.unlocked_at IS 'Since when upkeep finds its lock missing; null while it has it.';

COMMENT ON COLUMN ledger.process.yields IS 'It stops its handlers within three seconds after it lost its lock: then its runs may be released after four. False of a worker with handlers in threads, which nothing stops: its leases decide.';

COMMENT ON COLUMN ledger.process.kinds IS 'Of a worker: the kinds of its handlers; one without Kafka claims these. An allocator claims all kinds that are not direct.';

COMMENT ON COLUMN ledger.process.kind_tenants IS 'Of kinds of which it takes the items of some tenants alone: these tenants, as an array by kind. Null: of all kinds, those of all.';

COMMENT ON COLUMN ledger.process.sleeps_until IS 'It claims nothing before this business time unless it is notified that an item is available earlier; null while it is awake.';

COMMENT ON COLUMN ledger.process.failing_since IS 'Since when its attempts to take work fail, the same one after another; null while they succeed.';

COMMENT ON COLUMN ledger.process.failure IS 'The error of these attempts.';

COMMENT ON COLUMN ledger.process.failed_service IS 'The service that did not respond to it, as kafka; null for other errors.';

COMMENT ON COLUMN ledger.process.unavailable_topics IS 'Topics to which an allocator could not publish when it last tried, each with the reason.';

COMMENT ON COLUMN ledger.process.does_upkeep IS 'Whether it does upkeep; null of a process before this column: then an allocator or a direct worker does.';

COMMENT ON COLUMN ledger.process.certificate_expires_at IS 'When the certificate that a service shows its clients expires; null without one.';

COMMENT ON COLUMN ledger.process.drains IS 'Whether it drains and stops when somebody asks for it here, as by SIGTERM.';

COMMENT ON COLUMN ledger.process.drain_asked_at IS 'When somebody asked it to drain and stop; its successor has a row of its own.';

COMMENT ON COLUMN ledger.process.draining_since IS 'Since when it takes no more work and ends what it has: because of that request, or of a signal.';

COMMENT ON COLUMN ledger.process.ticked_at IS 'When the last pass of its loop ended: of an allocator, a reconciler or a relay; null of others, and before the first.';

COMMENT ON COLUMN ledger.process.tick_seconds IS 'How long that pass took.';

COMMENT ON COLUMN ledger.process.outbox_items IS 'Of a relay: rows of its outbox that were not carried yet when it last counted them, at most 10,000.';

CREATE VIEW ledger.process_status AS
 SELECT p.process_no,
    a.name,
    p.role,
    p.host,
    p.version,
    p.started_at,
    p.seen_at,
    p.ended_at,
        CASE
            WHEN (p.ended_at IS NOT NULL) THEN 'ended'::text
            WHEN ((p.locked_on = pg_postmaster_start_time()) AND (l.pid IS NULL)) THEN 'gone'::text
            WHEN (p.seen_at >= (ledger.machine_now() - '00:00:15'::interval)) THEN 'live'::text
            WHEN (l.pid IS NOT NULL) THEN 'silent'::text
            ELSE 'gone'::text
        END AS status,
    p.kinds,
    p.kind_tenants,
    p.failing_since,
    p.failure,
    p.failed_service,
    p.unavailable_topics,
    COALESCE(p.does_upkeep, (p.role = ANY (ARRAY['allocator'::text, 'direct_worker'::text]))) AS does_upkeep,
    p.certificate_expires_at,
    p.drains,
    p.drain_asked_at,
    d.name AS drain_asked_by,
    p.drain_reason,
    p.draining_since,
    p.ticked_at,
    p.tick_seconds,
    p.outbox_items
   FROM ((((ledger.process p
     JOIN ledger.actor a ON ((a.actor_no = p.process_no)))
     LEFT JOIN ledger.actor d ON ((d.actor_no = p.drain_asked_by)))
     CROSS JOIN LATERAL ledger.process_key(p.process_no) k(class, key))
     LEFT JOIN pg_locks l ON (((l.locktype = 'advisory'::text) AND ((l.classid)::bigint = k.class) AND ((l.objid)::bigint = k.key) AND (l.objsubid = 2) AND l.granted AND (l.database = ( SELECT d_1.oid
           FROM pg_database d_1
          WHERE (d_1.datname = current_database()))))));

COMMENT ON VIEW ledger.process_status IS 'Processes with their status. live: it renews its row; silent: it holds its lock and has not renewed its row for 15 s, as a stopped process or one whose network is cut; gone: it was killed or lost its connection; ended: it stopped.';

CREATE TABLE ledger.reconciliation (
    reconciliation_no bigint NOT NULL,
    started_at timestamp with time zone NOT NULL,
    as_of timestamp with time zone NOT NULL,
    finished_at timestamp with time zone,
    actor_no bigint NOT NULL,
    scope jsonb NOT NULL,
    counts jsonb,
    witness_credit_seconds double precision DEFAULT 0 NOT NULL
);

COMMENT ON TABLE ledger.reconciliation IS 'Reconciliation passes. Upkeep deletes one that has no report, with what it read, after the days of a setting.';

COMMENT ON COLUMN ledger.reconciliation.as_of IS 'The moment on business time for which expected and actual were compared.';

COMMENT ON COLUMN ledger.reconciliation.scope IS 'What was compared: tenants, kinds and time.';

COMMENT ON COLUMN ledger.reconciliation.counts IS 'What the pass counted; null until it finished.';

COMMENT ON COLUMN ledger.reconciliation.witness_credit_seconds IS 'CPU time that the witness may take, of which later passes have what this one left; below 0 if it took more.';

ALTER TABLE ledger.reconciliation ALTER COLUMN reconciliation_no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME ledger.reconciliation_reconciliation_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    MAXVALUE 8796093022207
    CACHE 1
);

CREATE TABLE ledger.rejected_write (
    rejected_no bigint NOT NULL,
    rejected_at timestamp with time zone NOT NULL,
    actor_no bigint NOT NULL,
    verb text NOT NULL,
    reason text NOT NULL,
    fence bigint,
    run_no bigint,
    item_no bigint,
    from_position integer,
    to_position integer,
    detail jsonb
);

COMMENT ON TABLE ledger.rejected_write IS 'Stale and illegal writes: what was tried, and why it changed nothing. Append only; upkeep deletes them after the days of a setting.';

COMMENT ON COLUMN ledger.rejected_write.verb IS 'What was tried, as settle or start.';

ALTER TABLE ledger.rejected_write ALTER COLUMN rejected_no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME ledger.rejected_write_rejected_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    MAXVALUE 8796093022207
    CACHE 1
);

CREATE TABLE ledger.repair (
    id uuid NOT NULL,
    finding_id uuid NOT NULL,
    action text NOT NULL,
    opened_count integer NOT NULL,
    status text NOT NULL,
    proposed_at timestamp with time zone NOT NULL,
    proposed_by bigint NOT NULL,
    executed_at timestamp with time zone,
    executed_by bigint,
    command jsonb NOT NULL,
    held_because text,
    judged_at timestamp with time zone,
    approved_at timestamp with time zone,
    approved_by bigint,
    approval_reason text,
    approved_over text[],
    outcome jsonb,
    tenant text NOT NULL,
    CONSTRAINT repair_action_known CHECK ((action = ANY (ARRAY['materialise'::text, 'redrive'::text, 'release'::text, 'cancel'::text, 'complete'::text, 'escalate'::text]))),
    CONSTRAINT repair_approver_named CHECK ((((approved_at IS NULL) = (approved_by IS NULL)) AND ((approved_at IS NULL) = (approval_reason IS NULL)))),
    CONSTRAINT repair_execution_named CHECK (((status = 'proposed'::text) = (executed_at IS NULL))),
    CONSTRAINT repair_executor_named CHECK (((executed_at IS NULL) = (executed_by IS NULL))),
    CONSTRAINT repair_maker_is_not_checker CHECK ((approved_by <> proposed_by)),
    CONSTRAINT repair_status_known CHECK ((status = ANY (ARRAY['proposed'::text, 'executed'::text, 'refused'::text])))
);

COMMENT ON TABLE ledger.repair IS 'Repairs: recorded, idempotent commands that resolve findings.';

COMMENT ON COLUMN ledger.repair.id IS 'Hash of finding, action, opening and the terms of an item to emit: a repair is executed once for each opening of a finding.';

COMMENT ON COLUMN ledger.repair.opened_count IS 'The opening of the finding that the repair is for.';

COMMENT ON COLUMN ledger.repair.held_because IS 'Why it was not executed yet: what a person has to decide, or what forbids it.';

COMMENT ON COLUMN ledger.repair.judged_at IS 'When a reconciliation last asked everybody who could know of the item, and its policy. The command says what it does since then.';

COMMENT ON COLUMN ledger.repair.approved_by IS 'The person who approved it: never the actor that proposed it.';

COMMENT ON COLUMN ledger.repair.approved_over IS 'The reasons to ask that were known when it was approved: one that comes later is asked about again.';

COMMENT ON COLUMN ledger.repair.outcome IS 'What executing or refusing it returned.';

COMMENT ON COLUMN ledger.repair.tenant IS 'The tenant of its finding, so that lists of a tenant read its own alone.';

CREATE TABLE ledger.report (
    tenant text NOT NULL,
    reconciliation_no bigint NOT NULL,
    as_of timestamp with time zone NOT NULL,
    verdict text NOT NULL,
    sentence text NOT NULL,
    findings_open bigint NOT NULL,
    document json NOT NULL,
    CONSTRAINT report_verdict_known CHECK ((verdict = ANY (ARRAY['complete'::text, 'complete_with_explained'::text, 'not_complete'::text])))
);

COMMENT ON TABLE ledger.report IS 'Reports of reconciliations as they were made: of the whole ledger, and of each tenant. A row never changes; upkeep deletes it after the days of a setting.';

COMMENT ON COLUMN ledger.report.tenant IS 'The tenant that it is about; ''*'' is the whole ledger.';

COMMENT ON COLUMN ledger.report.as_of IS 'As in reconciliation: by it and the number upkeep finds the reports of a pass.';

COMMENT ON COLUMN ledger.report.findings_open IS 'Findings that were open; of a tenant, without those of the whole ledger.';

COMMENT ON COLUMN ledger.report.document IS 'The report as docs/report.schema.json describes it, kept to the letter.';

CREATE TABLE ledger.report_row (
    reconciliation_no bigint NOT NULL,
    list text NOT NULL,
    tenant text NOT NULL,
    row_no bigint NOT NULL,
    content json NOT NULL,
    CONSTRAINT report_row_list_known CHECK ((list = ANY (ARRAY['findings'::text, 'repairs'::text])))
);

COMMENT ON TABLE ledger.report_row IS 'All findings and repairs of a report, of which its document has samples. They count once the report is recorded.';

COMMENT ON COLUMN ledger.report_row.row_no IS 'Order within the list, from 1: oldest first.';

COMMENT ON COLUMN ledger.report_row.content IS 'The finding or repair as the report''s schema describes it.';

CREATE TABLE ledger.retired_key (
    id uuid NOT NULL,
    retired_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE ledger.retired_key IS 'Ids of items whose partition was dropped. Emitting one of them again changes nothing.';

CREATE TABLE ledger.review (
    item_no bigint NOT NULL,
    effective_date date NOT NULL,
    flow_no integer NOT NULL,
    parked_at timestamp with time zone NOT NULL,
    attempt smallint NOT NULL,
    starts smallint NOT NULL,
    reason text NOT NULL,
    run_no bigint,
    actor_no bigint NOT NULL,
    taken_by bigint,
    taken_at timestamp with time zone,
    CONSTRAINT review_taken_named CHECK (((taken_by IS NULL) = (taken_at IS NULL)))
);

COMMENT ON TABLE ledger.review IS 'Parked items: a person redrives them, writes them off or cancels them.';

COMMENT ON COLUMN ledger.review.run_no IS 'Run in which the item failed last.';

COMMENT ON COLUMN ledger.review.taken_by IS 'Who decides about the item, as others see; it hinders nobody. Null: nobody has taken it.';

ALTER TABLE ledger.run ALTER COLUMN run_no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME ledger.run_run_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    MAXVALUE 8796093022207
    CACHE 1
);

CREATE TABLE ledger.seal (
    what text NOT NULL,
    number bigint NOT NULL,
    digest text NOT NULL,
    tenant text NOT NULL,
    kind text,
    name text NOT NULL,
    CONSTRAINT seal_what_known CHECK ((what = ANY (ARRAY['definition'::text, 'calendar'::text, 'kind'::text, 'actor'::text])))
);

COMMENT ON TABLE ledger.seal IS 'Digests of versions of definitions and calendars, and of actors that are no process, as inserted; of kinds, as their policy was put. Triggers alone write it: no role may. A migration that adds a column to a sealed table seals its rows again.';

COMMENT ON COLUMN ledger.seal.number IS 'Number of the version, the kind or the actor.';

COMMENT ON COLUMN ledger.seal.digest IS 'SHA-256 of the row in hex: of one that was changed in place it is another.';

CREATE TABLE ledger.silent_topic (
    topic text NOT NULL,
    topic_actor_no bigint NOT NULL,
    since timestamp with time zone NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE ledger.silent_topic IS 'Topics with a run whose lease lapsed without any reported outcome. The next outcome deletes the row.';

COMMENT ON COLUMN ledger.silent_topic.topic_actor_no IS 'Actor number under which the consumers of the topic settle.';

CREATE TABLE ledger.stalled_partition (
    topic text NOT NULL,
    partition integer NOT NULL,
    worker_no bigint NOT NULL,
    next_offset bigint,
    waits_for_handlers boolean NOT NULL,
    stalled_at timestamp with time zone NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE ledger.stalled_partition IS 'Partitions of topics that a worker has, and with which it has got no further for longer than the queue deadline.';

COMMENT ON COLUMN ledger.stalled_partition.partition IS 'Partition of the Kafka topic.';

COMMENT ON COLUMN ledger.stalled_partition.worker_no IS 'The worker, as an actor number.';

COMMENT ON COLUMN ledger.stalled_partition.next_offset IS 'Offset that the worker begins or reads next; null if it does not know yet.';

COMMENT ON COLUMN ledger.stalled_partition.waits_for_handlers IS 'Whether its records were read and wait for handlers; otherwise none is read.';

COMMENT ON COLUMN ledger.stalled_partition.stalled_at IS 'Since when the worker has got no further, by the machine clock.';

CREATE TABLE ledger.state (
    state smallint NOT NULL,
    name text NOT NULL,
    terminal boolean NOT NULL
);

COMMENT ON TABLE ledger.state IS 'States of an item.';

COMMENT ON COLUMN ledger.state.terminal IS 'Whether no transition leads out of the state.';

CREATE TABLE ledger.transition_default (
    effective_date date CONSTRAINT transition_effective_date_not_null NOT NULL,
    event smallint CONSTRAINT transition_event_not_null NOT NULL,
    attempt smallint CONSTRAINT transition_attempt_not_null NOT NULL,
    item_no bigint CONSTRAINT transition_item_no_not_null NOT NULL,
    run_no bigint,
    actor_no bigint CONSTRAINT transition_actor_no_not_null NOT NULL,
    at timestamp with time zone CONSTRAINT transition_at_not_null NOT NULL,
    detail jsonb
);

CREATE TABLE ledger.transition_event (
    event smallint NOT NULL,
    name text NOT NULL,
    after_state smallint NOT NULL
);

COMMENT ON TABLE ledger.transition_event IS 'Events that change the state of an item.';

COMMENT ON COLUMN ledger.transition_event.after_state IS 'State of the item after the event.';

CREATE TABLE ledger.triggered (
    tenant text NOT NULL,
    definition text NOT NULL,
    cycle text NOT NULL,
    id uuid NOT NULL
);

COMMENT ON TABLE ledger.triggered IS 'Items that a person triggered. Triggering the same cycle again finds the first item, whatever the date is by then.';

COMMENT ON COLUMN ledger.triggered.id IS 'Id of the item.';

CREATE TABLE ledger.tz_change (
    change_no bigint NOT NULL,
    digest text NOT NULL,
    tzdata text NOT NULL,
    tzdata_before text[] NOT NULL,
    from_at timestamp with time zone,
    opened_at timestamp with time zone NOT NULL,
    actor_no bigint NOT NULL
);

COMMENT ON TABLE ledger.tz_change IS 'tz changes: what a newer tz database changes of pending items, as previewed and then applied. A change is open until each of its versions is applied.';

COMMENT ON COLUMN ledger.tz_change.change_no IS 'Without gaps: one change at a time is written, and a preview takes no number.';

COMMENT ON COLUMN ledger.tz_change.digest IS 'Hash of all that it changes.';

COMMENT ON COLUMN ledger.tz_change.tzdata IS 'The newer tz database.';

COMMENT ON COLUMN ledger.tz_change.tzdata_before IS 'The tz databases that had placed the items.';

COMMENT ON COLUMN ledger.tz_change.from_at IS 'Only items due from then on are changed; null: all.';

CREATE TABLE ledger.tz_change_version (
    change_no bigint NOT NULL,
    definition_no bigint NOT NULL,
    page integer NOT NULL,
    superseded_at timestamp with time zone,
    failure text,
    steps jsonb NOT NULL,
    applied_at timestamp with time zone,
    items integer,
    superseded boolean DEFAULT false NOT NULL
);

COMMENT ON TABLE ledger.tz_change_version IS 'One version of a definition in a tz change, in pages of steps; all pages are applied in one transaction.';

COMMENT ON COLUMN ledger.tz_change_version.superseded_at IS 'When the next version takes over, as it was at the preview.';

COMMENT ON COLUMN ledger.tz_change_version.failure IS 'Why the version cannot be expanded.';

COMMENT ON COLUMN ledger.tz_change_version.steps IS 'What becomes of each item: moved, withdrawn, skipped, or added, with the item to emit.';

COMMENT ON COLUMN ledger.tz_change_version.items IS 'How many steps of the version took effect; the same on each page.';

COMMENT ON COLUMN ledger.tz_change_version.superseded IS 'Whether another version was defined before it was applied; nothing of it took effect then.';

CREATE TABLE ledger.watermark (
    tenant text NOT NULL,
    kind text NOT NULL,
    complete_before timestamp with time zone,
    blocked_by text,
    as_of timestamp with time zone NOT NULL,
    first_as_of timestamp with time zone DEFAULT ledger.now() NOT NULL
);

COMMENT ON TABLE ledger.watermark IS 'Completeness watermarks: everything expected of a kind before complete_before exists and is completed, explained or an open finding.';

COMMENT ON COLUMN ledger.watermark.blocked_by IS 'What blocks the watermark.';

COMMENT ON COLUMN ledger.watermark.as_of IS 'The moment on business time of the pass that computed it.';

COMMENT ON COLUMN ledger.watermark.first_as_of IS 'When a pass computed it first: its age while nothing is complete.';

CREATE TABLE ledger.withdrawal (
    item_no bigint NOT NULL,
    effective_date date NOT NULL,
    event smallint NOT NULL,
    reason text NOT NULL,
    replacement uuid,
    actor_no bigint NOT NULL,
    requested_at timestamp with time zone NOT NULL,
    CONSTRAINT withdrawal_event_known CHECK ((event = ANY (ARRAY[11, 12])))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='2000');

COMMENT ON TABLE ledger.withdrawal IS 'Requests to cancel or supersede items in flight. Start applies them, and so does upkeep once the item waits again.';

COMMENT ON COLUMN ledger.withdrawal.replacement IS 'Id of the item that takes its place.';

CREATE TABLE ledger.witnessed (
    definition_no bigint NOT NULL,
    agreement text NOT NULL,
    package text,
    reason text,
    times jsonb,
    asked_at timestamp with time zone NOT NULL,
    CONSTRAINT witnessed_agreement_known CHECK ((agreement = ANY (ARRAY['agrees'::text, 'disagrees'::text, 'not_witnessed'::text]))),
    CONSTRAINT witnessed_disagreement_shown CHECK (((agreement = 'disagrees'::text) = (times IS NOT NULL)))
);

COMMENT ON TABLE ledger.witnessed IS 'What a library that expands the same rule said about a version when it was asked last.';

COMMENT ON COLUMN ledger.witnessed.package IS 'The package that was asked, and its version; null if none was asked.';

COMMENT ON COLUMN ledger.witnessed.reason IS 'Why there was no answer when it was asked last. A disagreement that was known before stays.';

COMMENT ON COLUMN ledger.witnessed.times IS 'Where they differ, the nominal local times of both: `ours` and `theirs`.';

COMMENT ON COLUMN ledger.witnessed.asked_at IS 'When it was asked, by the machine clock.';

ALTER TABLE ONLY ledger.due_item ATTACH PARTITION ledger.due_item_default DEFAULT;

ALTER TABLE ONLY ledger.transition ATTACH PARTITION ledger.transition_default DEFAULT;

ALTER TABLE ONLY ledger.actor
    ADD CONSTRAINT actor_name_key UNIQUE (name);

ALTER TABLE ONLY ledger.actor
    ADD CONSTRAINT actor_pkey PRIMARY KEY (actor_no);

ALTER TABLE ONLY ledger.alert
    ADD CONSTRAINT alert_pkey PRIMARY KEY (name, labels);

ALTER TABLE ONLY ledger.api_answer
    ADD CONSTRAINT api_answer_pkey PRIMARY KEY (actor_no, idempotency_key);

ALTER TABLE ONLY ledger.api_key
    ADD CONSTRAINT api_key_pkey PRIMARY KEY (key_no);

ALTER TABLE ONLY ledger.api_key
    ADD CONSTRAINT api_key_prefix_key UNIQUE (prefix);

ALTER TABLE ONLY ledger.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (audit_no);

ALTER TABLE ONLY ledger.calendar
    ADD CONSTRAINT calendar_pkey PRIMARY KEY (calendar_no);

ALTER TABLE ONLY ledger.calendar
    ADD CONSTRAINT calendar_tenant_name_version_key UNIQUE (tenant, name, version);

ALTER TABLE ONLY ledger.calendar_use
    ADD CONSTRAINT calendar_use_pkey PRIMARY KEY (definition_no, from_at);

ALTER TABLE ONLY ledger.cell
    ADD CONSTRAINT cell_pkey PRIMARY KEY (one_row);

ALTER TABLE ONLY ledger.claim
    ADD CONSTRAINT claim_pkey PRIMARY KEY (fence, claimed_at);

ALTER TABLE ONLY ledger.console_session
    ADD CONSTRAINT console_session_pkey PRIMARY KEY (id_digest);

ALTER TABLE ONLY ledger.credit
    ADD CONSTRAINT credit_pkey PRIMARY KEY (topic, worker_no);

ALTER TABLE ONLY ledger.cursor_secret
    ADD CONSTRAINT cursor_secret_pkey PRIMARY KEY (one_row);

ALTER TABLE ONLY ledger.definition
    ADD CONSTRAINT definition_pkey PRIMARY KEY (definition_no);

ALTER TABLE ONLY ledger.definition
    ADD CONSTRAINT definition_tenant_name_version_key UNIQUE (tenant, name, version);

ALTER TABLE ONLY ledger.due_item
    ADD CONSTRAINT due_item_id_effective_date_key UNIQUE (id, effective_date);

ALTER TABLE ONLY ledger.due_item_default
    ADD CONSTRAINT due_item_default_id_effective_date_key UNIQUE (id, effective_date);

ALTER TABLE ONLY ledger.due_item
    ADD CONSTRAINT due_item_pkey PRIMARY KEY (effective_date, item_no);

ALTER TABLE ONLY ledger.due_item_default
    ADD CONSTRAINT due_item_default_pkey PRIMARY KEY (effective_date, item_no);

ALTER TABLE ONLY ledger.event_key
    ADD CONSTRAINT event_key_pkey PRIMARY KEY (tenant, source, id);

ALTER TABLE ONLY ledger.event_other_key
    ADD CONSTRAINT event_other_key_pkey PRIMARY KEY (tenant, business_key, event_no);

ALTER TABLE ONLY ledger.event
    ADD CONSTRAINT event_pkey PRIMARY KEY (event_no, occurred_at);

ALTER TABLE ONLY ledger.expedited
    ADD CONSTRAINT expedited_pkey PRIMARY KEY (item_no);

ALTER TABLE ONLY ledger.failure_streak
    ADD CONSTRAINT failure_streak_pkey PRIMARY KEY (flow_no, business_key);

ALTER TABLE ONLY ledger.finding
    ADD CONSTRAINT finding_pkey PRIMARY KEY (id);

ALTER TABLE ONLY ledger.flood_pace
    ADD CONSTRAINT flood_pace_pkey PRIMARY KEY (one_row);

ALTER TABLE ONLY ledger.flow
    ADD CONSTRAINT flow_pkey PRIMARY KEY (flow_no);

ALTER TABLE ONLY ledger.flow
    ADD CONSTRAINT flow_tenant_kind_lane_key UNIQUE (tenant, kind, lane);

ALTER TABLE ONLY ledger.following
    ADD CONSTRAINT following_pkey PRIMARY KEY (item_no);

ALTER TABLE ONLY ledger.held_key
    ADD CONSTRAINT held_key_item_no_key UNIQUE (item_no);

ALTER TABLE ONLY ledger.held_key
    ADD CONSTRAINT held_key_pkey PRIMARY KEY (serial);

ALTER TABLE ONLY ledger.kind
    ADD CONSTRAINT kind_kind_no_tenant_name_ordering_key UNIQUE (kind_no, tenant, name, ordering);

ALTER TABLE ONLY ledger.kind
    ADD CONSTRAINT kind_pkey PRIMARY KEY (kind_no);

ALTER TABLE ONLY ledger.kind
    ADD CONSTRAINT kind_tenant_name_key UNIQUE (tenant, name);

ALTER TABLE ONLY ledger.leader
    ADD CONSTRAINT leader_pkey PRIMARY KEY (task);

ALTER TABLE ONLY ledger.lock_row
    ADD CONSTRAINT lock_row_pkey PRIMARY KEY (subject, key);

ALTER TABLE ONLY ledger.materialised
    ADD CONSTRAINT materialised_pkey PRIMARY KEY (definition_no);

ALTER TABLE ONLY ledger.missed_range
    ADD CONSTRAINT missed_range_pkey PRIMARY KEY (definition_no, from_at);

ALTER TABLE ONLY ledger.operation
    ADD CONSTRAINT operation_pkey PRIMARY KEY (operation_no);

ALTER TABLE ONLY ledger.operation_state
    ADD CONSTRAINT operation_state_pkey PRIMARY KEY (verb, state);

ALTER TABLE ONLY ledger.overview_flow
    ADD CONSTRAINT overview_flow_pkey PRIMARY KEY (flow_no);

ALTER TABLE ONLY ledger.overview_minute
    ADD CONSTRAINT overview_minute_pkey PRIMARY KEY (minute, tenant, bucket);

ALTER TABLE ONLY ledger.overview_minute_run
    ADD CONSTRAINT overview_minute_run_pkey PRIMARY KEY (run_no);

ALTER TABLE ONLY ledger.overview
    ADD CONSTRAINT overview_pkey PRIMARY KEY (flow_no, quarter);

ALTER TABLE ONLY ledger.overview_reader
    ADD CONSTRAINT overview_reader_pkey PRIMARY KEY (one);

ALTER TABLE ONLY ledger.overview_run
    ADD CONSTRAINT overview_run_pkey PRIMARY KEY (run_no);

ALTER TABLE ONLY ledger.partition_backoff
    ADD CONSTRAINT partition_backoff_pkey PRIMARY KEY (topic, partition);

ALTER TABLE ONLY ledger.partition_span
    ADD CONSTRAINT partition_span_pkey PRIMARY KEY (parent, starts_on);

ALTER TABLE ONLY ledger.past_load_count
    ADD CONSTRAINT past_load_count_pkey PRIMARY KEY (one);

ALTER TABLE ONLY ledger.past_load
    ADD CONSTRAINT past_load_pkey PRIMARY KEY (tenant, kind, quarter, effective_date);

ALTER TABLE ONLY ledger.past_sum
    ADD CONSTRAINT past_sum_pkey PRIMARY KEY (tenant, kind, minutes, begins);

ALTER TABLE ONLY ledger.pause
    ADD CONSTRAINT pause_pkey PRIMARY KEY (pause_no);

ALTER TABLE ONLY ledger.pending
    ADD CONSTRAINT pending_pkey PRIMARY KEY (item_no);

ALTER TABLE ONLY ledger.permitted_transition
    ADD CONSTRAINT permitted_transition_event_before_state_key UNIQUE NULLS NOT DISTINCT (event, before_state);

ALTER TABLE ONLY ledger.population
    ADD CONSTRAINT population_pkey PRIMARY KEY (population_no);

ALTER TABLE ONLY ledger.process
    ADD CONSTRAINT process_pkey PRIMARY KEY (process_no);

ALTER TABLE ONLY ledger.reconciliation
    ADD CONSTRAINT reconciliation_pkey PRIMARY KEY (reconciliation_no);

ALTER TABLE ONLY ledger.rejected_write
    ADD CONSTRAINT rejected_write_pkey PRIMARY KEY (rejected_no);

ALTER TABLE ONLY ledger.repair
    ADD CONSTRAINT repair_pkey PRIMARY KEY (id);

ALTER TABLE ONLY ledger.report
    ADD CONSTRAINT report_pkey PRIMARY KEY (tenant, reconciliation_no);

ALTER TABLE ONLY ledger.report_row
    ADD CONSTRAINT report_row_pkey PRIMARY KEY (reconciliation_no, list, tenant, row_no);

ALTER TABLE ONLY ledger.retired_key
    ADD CONSTRAINT retired_key_pkey PRIMARY KEY (id);

ALTER TABLE ONLY ledger.review
    ADD CONSTRAINT review_pkey PRIMARY KEY (item_no);

ALTER TABLE ONLY ledger.run
    ADD CONSTRAINT run_pkey PRIMARY KEY (run_no, started_at);

ALTER TABLE ONLY ledger.seal
    ADD CONSTRAINT seal_pkey PRIMARY KEY (what, number);

ALTER TABLE ONLY ledger.silent_topic
    ADD CONSTRAINT silent_topic_pkey PRIMARY KEY (topic);

ALTER TABLE ONLY ledger.silent_topic
    ADD CONSTRAINT silent_topic_topic_actor_no_key UNIQUE (topic_actor_no);

ALTER TABLE ONLY ledger.stalled_partition
    ADD CONSTRAINT stalled_partition_pkey PRIMARY KEY (topic, partition, worker_no);

ALTER TABLE ONLY ledger.state
    ADD CONSTRAINT state_name_key UNIQUE (name);

ALTER TABLE ONLY ledger.state
    ADD CONSTRAINT state_pkey PRIMARY KEY (state);

ALTER TABLE ONLY ledger.transition_event
    ADD CONSTRAINT transition_event_name_key UNIQUE (name);

ALTER TABLE ONLY ledger.transition_event
    ADD CONSTRAINT transition_event_pkey PRIMARY KEY (event);

ALTER TABLE ONLY ledger.triggered
    ADD CONSTRAINT triggered_pkey PRIMARY KEY (tenant, definition, cycle);

ALTER TABLE ONLY ledger.tz_change
    ADD CONSTRAINT tz_change_pkey PRIMARY KEY (change_no);

ALTER TABLE ONLY ledger.tz_change_version
    ADD CONSTRAINT tz_change_version_pkey PRIMARY KEY (change_no, definition_no, page);

ALTER TABLE ONLY ledger.watermark
    ADD CONSTRAINT watermark_pkey PRIMARY KEY (tenant, kind);

ALTER TABLE ONLY ledger.withdrawal
    ADD CONSTRAINT withdrawal_pkey PRIMARY KEY (item_no);

ALTER TABLE ONLY ledger.witnessed
    ADD CONSTRAINT witnessed_pkey PRIMARY KEY (definition_no);

CREATE INDEX actor_tenant_idx ON ledger.actor USING btree ((tenants[1])) WHERE (tenants IS NOT NULL);

CREATE INDEX api_answer_answered_at_idx ON ledger.api_answer USING btree (answered_at);

CREATE INDEX api_key_actor_idx ON ledger.api_key USING btree (actor_no, ((- key_no)));

CREATE INDEX audit_actor_idx ON ledger.audit USING btree (actor_no, (at AT TIME ZONE 'UTC'::text), audit_no);

CREATE INDEX audit_at_idx ON ledger.audit USING btree (at, audit_no);

CREATE INDEX audit_operation_idx ON ledger.audit USING btree (operation, at, audit_no);

CREATE INDEX audit_target_idx ON ledger.audit USING btree (target, at, audit_no);

CREATE INDEX audit_tenant_idx ON ledger.audit USING btree ((tenants[1]), (at AT TIME ZONE 'UTC'::text), audit_no) WHERE (tenants IS NOT NULL);

CREATE INDEX claim_deadline_idx ON ONLY ledger.claim USING btree (deadline) WHERE (closed_at IS NULL);

CREATE INDEX claim_flow_idx ON ONLY ledger.claim USING btree (flow_no) WHERE ((closed_at IS NULL) AND (flow_no IS NOT NULL));

CREATE INDEX claim_lag_idx ON ONLY ledger.claim USING btree (claimed_at) WHERE (lag_flow_no IS NOT NULL);

CREATE INDEX console_session_expires_idx ON ledger.console_session USING btree (expires_at);

CREATE INDEX credit_worker_idx ON ledger.credit USING btree (worker_no);

CREATE INDEX definition_calendar_idx ON ledger.definition USING btree (tenant, ((document #>> '{calendar,name}'::text[]))) WHERE ((document #>> '{calendar,name}'::text[]) IS NOT NULL);

CREATE INDEX definition_event_idx ON ledger.definition USING btree (event_type, tenant) WHERE (event_type IS NOT NULL);

CREATE INDEX definition_kind_idx ON ledger.definition USING btree (kind, tenant, name);

CREATE INDEX definition_schedule_key_idx ON ledger.definition USING btree (kind, tenant, ((document ->> 'business_key'::text))) WHERE (event_type IS NULL);

CREATE INDEX definition_source_idx ON ledger.definition USING btree (tenant, ((document ->> 'source'::text))) WHERE ((document ->> 'source'::text) IS NOT NULL);

CREATE INDEX due_item_key_idx ON ONLY ledger.due_item USING btree (business_key, flow_no);

CREATE INDEX due_item_default_business_key_flow_no_idx ON ledger.due_item_default USING btree (business_key, flow_no);

CREATE INDEX due_item_flow_idx ON ONLY ledger.due_item USING btree (flow_no, effective_date, item_no);

CREATE INDEX due_item_default_flow_no_effective_date_item_no_idx ON ledger.due_item_default USING btree (flow_no, effective_date, item_no);

CREATE INDEX event_key_idx ON ONLY ledger.event USING btree (tenant, business_key, occurred_at);

CREATE INDEX event_key_received_at_idx ON ledger.event_key USING btree (received_at);

CREATE INDEX event_type_idx ON ONLY ledger.event USING btree (tenant, type, occurred_at);

CREATE INDEX event_unmatched_idx ON ONLY ledger.event USING btree (tenant, type, received_at, event_no) WHERE (matched IS NOT TRUE);

CREATE INDEX expedited_due_idx ON ledger.expedited USING btree (flow_no, due_at, item_no);

CREATE INDEX failure_streak_unjudged_idx ON ledger.failure_streak USING btree (failures) WHERE ((judged_at IS NULL) OR (last_at > judged_at));

CREATE INDEX finding_item_idx ON ledger.finding USING btree (item_id) WHERE (item_id IS NOT NULL);

CREATE INDEX finding_open_idx ON ledger.finding USING btree (type, tenant, kind, effective_date) WHERE (closed_at IS NULL);

CREATE INDEX finding_seen_idx ON ledger.finding USING btree (first_seen_at, id);

CREATE INDEX finding_taken_idx ON ledger.finding USING btree (taken_by, first_seen_at, id) WHERE (taken_by IS NOT NULL);

CREATE INDEX finding_tenant_idx ON ledger.finding USING btree (tenant, first_seen_at, id);

CREATE INDEX finding_undecided_idx ON ledger.finding USING btree (first_seen_at, id) WHERE ((closed_at IS NULL) AND (ledger.needs_person(type) OR (taken_by IS NOT NULL)));

CREATE INDEX finding_undecided_tenant_idx ON ledger.finding USING btree (tenant, (first_seen_at AT TIME ZONE 'UTC'::text), id) WHERE ((closed_at IS NULL) AND (ledger.needs_person(type) OR (taken_by IS NOT NULL)));

CREATE INDEX flow_change_idx ON ledger.flow_change USING btree (flow_no, changed_at);

CREATE INDEX flow_outcome_idx ON ledger.flow_outcome USING btree (flow_no, at);

CREATE INDEX following_definition_idx ON ledger.following USING btree (definition_no);

CREATE INDEX kind_approval_idx ON ledger.kind USING btree (tenant, name) WHERE (operation_approval_above IS NOT NULL);

CREATE INDEX kind_name_idx ON ledger.kind USING btree (name COLLATE "C");

CREATE INDEX kind_name_order_idx ON ledger.kind USING btree (tenant COLLATE "C", name COLLATE "C");

CREATE INDEX materialised_ends_at_idx ON ledger.materialised USING btree (ends_at) WHERE (materialised_until >= ends_at);

CREATE INDEX materialised_until_idx ON ledger.materialised USING btree (materialised_until) WHERE (materialised_until < ends_at);

CREATE INDEX operation_awaited_idx ON ledger.operation USING btree (operation_no) WHERE awaits_approval;

CREATE INDEX operation_open_idx ON ledger.operation USING btree (operation_no) WHERE (ended_at IS NULL);

CREATE INDEX operation_tenant_awaited_idx ON ledger.operation USING btree (tenant, ((- operation_no))) WHERE awaits_approval;

CREATE INDEX operation_tenant_idx ON ledger.operation USING btree (tenant, ((- operation_no)));

CREATE INDEX overview_flow_age_idx ON ledger.overview_flow USING btree (counted_at, flow_no);

CREATE INDEX overview_flow_far_age_idx ON ledger.overview_flow USING btree (far_counted_at, flow_no);

CREATE INDEX overview_flow_worst_idx ON ledger.overview_flow USING btree (late DESC, failed DESC, items DESC, flow_no) WHERE (items > 0);

CREATE INDEX overview_in_flight_idx ON ledger.overview USING btree (flow_no, quarter) WHERE ((in_flight > 0) OR (completed_in_flight > 0));

CREATE INDEX overview_minute_run_checked_idx ON ledger.overview_minute_run USING btree (checked_at);

CREATE INDEX overview_run_checked_idx ON ledger.overview_run USING btree (checked_at);

CREATE INDEX past_load_date_idx ON ledger.past_load USING btree (effective_date);

CREATE INDEX past_load_quarter_idx ON ledger.past_load USING btree (quarter);

CREATE INDEX past_sum_empty_idx ON ledger.past_sum USING btree (items) WHERE (items = 0);

CREATE UNIQUE INDEX pause_in_force_idx ON ledger.pause USING btree (tenant, kind, lane) NULLS NOT DISTINCT WHERE (resumed_at IS NULL);

CREATE INDEX pending_available_idx ON ledger.pending USING btree (flow_no, available_at, ((item_no >> 10))) WHERE ((state = 1) AND (serial IS NULL));

CREATE INDEX pending_blocked_idx ON ledger.pending USING btree (serial, serial_due_at, item_no) WHERE ((serial IS NOT NULL) AND (available_at = 'infinity'::timestamp with time zone));

CREATE INDEX pending_key_idx ON ledger.pending USING btree (serial, serial_due_at, item_no) WHERE (serial IS NOT NULL);

CREATE INDEX pending_retry_idx ON ledger.pending USING btree (flow_no, available_at) WHERE ((state = 4) AND (serial IS NULL));

CREATE INDEX pending_serial_idx ON ledger.pending USING btree (flow_no, state, available_at) WHERE (serial IS NOT NULL);

CREATE INDEX pending_snoozed_idx ON ledger.pending USING btree (flow_no, available_at) WHERE (snoozed_until IS NOT NULL);

CREATE INDEX population_name_idx ON ledger.population USING btree (name, population_no) WHERE (failure IS NULL);

CREATE INDEX population_reconciliation_idx ON ledger.population USING btree (reconciliation_no);

CREATE INDEX reconciliation_as_of_idx ON ledger.reconciliation USING btree (as_of);

CREATE INDEX rejected_write_at_idx ON ledger.rejected_write USING btree (rejected_at);

CREATE INDEX repair_executed_idx ON ledger.repair USING btree (executed_at) WHERE (executed_at IS NOT NULL);

CREATE INDEX repair_finding_idx ON ledger.repair USING btree (finding_id);

CREATE INDEX repair_proposed_idx ON ledger.repair USING btree (proposed_at, id) WHERE (status = 'proposed'::text);

CREATE INDEX repair_tenant_idx ON ledger.repair USING btree (tenant, (proposed_at AT TIME ZONE 'UTC'::text), id) WHERE (status = 'proposed'::text);

CREATE INDEX report_as_of_idx ON ledger.report USING btree (as_of, reconciliation_no, tenant);

CREATE INDEX review_flow_idx ON ledger.review USING btree (flow_no, parked_at, item_no);

CREATE INDEX review_parked_idx ON ledger.review USING btree (parked_at, item_no);

CREATE INDEX review_taken_idx ON ledger.review USING btree (taken_by, parked_at, item_no) WHERE (taken_by IS NOT NULL);

CREATE INDEX run_fence_idx ON ONLY ledger.run USING btree (fence);

CREATE INDEX run_flow_idx ON ONLY ledger.run USING btree (flow_no) WHERE ((closed_at IS NULL) AND (flow_no IS NOT NULL));

CREATE INDEX run_lease_idx ON ONLY ledger.run USING btree (lease_until) WHERE (closed_at IS NULL);

CREATE INDEX stalled_partition_worker_idx ON ledger.stalled_partition USING btree (worker_no);

CREATE UNIQUE INDEX transition_terminal_idx ON ONLY ledger.transition USING btree (item_no, effective_date) WHERE (event = ANY (ARRAY[5, 11, 12, 13, 14]));

CREATE UNIQUE INDEX transition_default_item_no_effective_date_idx ON ledger.transition_default USING btree (item_no, effective_date) WHERE (event = ANY (ARRAY[5, 11, 12, 13, 14]));

CREATE INDEX transition_item_idx ON ONLY ledger.transition USING btree (item_no, effective_date) WHERE (event <> ALL (ARRAY[5, 11, 12, 13, 14]));

CREATE INDEX transition_default_item_no_effective_date_idx1 ON ledger.transition_default USING btree (item_no, effective_date) WHERE (event <> ALL (ARRAY[5, 11, 12, 13, 14]));

ALTER INDEX ledger.due_item_key_idx ATTACH PARTITION ledger.due_item_default_business_key_flow_no_idx;

ALTER INDEX ledger.due_item_flow_idx ATTACH PARTITION ledger.due_item_default_flow_no_effective_date_item_no_idx;

ALTER INDEX ledger.due_item_id_effective_date_key ATTACH PARTITION ledger.due_item_default_id_effective_date_key;

ALTER INDEX ledger.due_item_pkey ATTACH PARTITION ledger.due_item_default_pkey;

ALTER INDEX ledger.transition_terminal_idx ATTACH PARTITION ledger.transition_default_item_no_effective_date_idx;

ALTER INDEX ledger.transition_item_idx ATTACH PARTITION ledger.transition_default_item_no_effective_date_idx1;

CREATE TRIGGER actor_is_sealed AFTER INSERT ON ledger.actor FOR EACH ROW WHEN ((new.kind = ANY (ARRAY['person'::text, 'service'::text, 'api'::text, 'key'::text, 'oidc'::text]))) EXECUTE FUNCTION ledger.seal_row();

CREATE TRIGGER calendar_is_sealed AFTER INSERT ON ledger.calendar FOR EACH ROW EXECUTE FUNCTION ledger.seal_row();

CREATE TRIGGER definition_is_sealed AFTER INSERT ON ledger.definition FOR EACH ROW EXECUTE FUNCTION ledger.seal_row();

CREATE CONSTRAINT TRIGGER following_emits_next AFTER DELETE ON ledger.following DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION ledger.emit_follower();

CREATE TRIGGER kind_is_sealed AFTER INSERT ON ledger.kind FOR EACH ROW EXECUTE FUNCTION ledger.seal_row();

CREATE TRIGGER kind_is_sealed_again AFTER UPDATE ON ledger.kind FOR EACH ROW WHEN ((new.policy_version <> old.policy_version)) EXECUTE FUNCTION ledger.seal_row();

CREATE TRIGGER past_load_adds_inserted AFTER INSERT ON ledger.past_load REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION ledger.add_past_load('1');

CREATE TRIGGER past_load_adds_updated AFTER UPDATE ON ledger.past_load REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION ledger.add_past_load('1');

CREATE TRIGGER past_load_subtracts_deleted AFTER DELETE ON ledger.past_load REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION ledger.add_past_load('-1');

CREATE TRIGGER past_load_subtracts_updated AFTER UPDATE ON ledger.past_load REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION ledger.add_past_load('-1');

CREATE TRIGGER pending_wakes_sleepers AFTER UPDATE ON ledger.pending REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION ledger.wake_for_updates();

CREATE TRIGGER repair_names_tenant BEFORE INSERT ON ledger.repair FOR EACH ROW EXECUTE FUNCTION ledger.name_repair_tenant();

CREATE TRIGGER transition_finishes_items AFTER INSERT ON ledger.transition REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION ledger.finish_items();

ALTER TABLE ONLY ledger.api_answer
    ADD CONSTRAINT api_answer_actor_no_fkey FOREIGN KEY (actor_no) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.api_key
    ADD CONSTRAINT api_key_actor_no_fkey FOREIGN KEY (actor_no) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.api_key
    ADD CONSTRAINT api_key_created_by_fkey FOREIGN KEY (created_by) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.api_key
    ADD CONSTRAINT api_key_revoked_by_fkey FOREIGN KEY (revoked_by) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.audit
    ADD CONSTRAINT audit_actor_no_fkey FOREIGN KEY (actor_no) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.calendar
    ADD CONSTRAINT calendar_actor_no_fkey FOREIGN KEY (actor_no) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.calendar_use
    ADD CONSTRAINT calendar_use_actor_no_fkey FOREIGN KEY (actor_no) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.calendar_use
    ADD CONSTRAINT calendar_use_calendar_no_fkey FOREIGN KEY (calendar_no) REFERENCES ledger.calendar(calendar_no);

ALTER TABLE ONLY ledger.calendar_use
    ADD CONSTRAINT calendar_use_definition_no_fkey FOREIGN KEY (definition_no) REFERENCES ledger.definition(definition_no);

ALTER TABLE ONLY ledger.console_session
    ADD CONSTRAINT console_session_actor_no_fkey FOREIGN KEY (actor_no) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.console_session
    ADD CONSTRAINT console_session_key_no_fkey FOREIGN KEY (key_no) REFERENCES ledger.api_key(key_no);

ALTER TABLE ONLY ledger.definition
    ADD CONSTRAINT definition_actor_no_fkey FOREIGN KEY (actor_no) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.finding
    ADD CONSTRAINT finding_resolved_by_fkey FOREIGN KEY (resolved_by) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.finding
    ADD CONSTRAINT finding_taken_by_fkey FOREIGN KEY (taken_by) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.flow_change
    ADD CONSTRAINT flow_change_actor_no_fkey FOREIGN KEY (actor_no) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.flow
    ADD CONSTRAINT flow_kind_no_tenant_kind_ordering_fkey FOREIGN KEY (kind_no, tenant, kind, ordering) REFERENCES ledger.kind(kind_no, tenant, name, ordering) ON UPDATE CASCADE;

ALTER TABLE ONLY ledger.flow
    ADD CONSTRAINT flow_paused_by_fkey FOREIGN KEY (paused_by) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.materialised
    ADD CONSTRAINT materialised_definition_no_fkey FOREIGN KEY (definition_no) REFERENCES ledger.definition(definition_no);

ALTER TABLE ONLY ledger.missed_range
    ADD CONSTRAINT missed_range_actor_no_fkey FOREIGN KEY (actor_no) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.missed_range
    ADD CONSTRAINT missed_range_definition_no_fkey FOREIGN KEY (definition_no) REFERENCES ledger.definition(definition_no);

ALTER TABLE ONLY ledger.operation
    ADD CONSTRAINT operation_aborted_by_fkey FOREIGN KEY (aborted_by) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.operation
    ADD CONSTRAINT operation_actor_no_fkey FOREIGN KEY (actor_no) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.operation
    ADD CONSTRAINT operation_approved_by_fkey FOREIGN KEY (approved_by) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.operation
    ADD CONSTRAINT operation_paused_by_fkey FOREIGN KEY (paused_by) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.operation
    ADD CONSTRAINT operation_state_fkey FOREIGN KEY (state) REFERENCES ledger.state(state);

ALTER TABLE ONLY ledger.operation_state
    ADD CONSTRAINT operation_state_state_fkey FOREIGN KEY (state) REFERENCES ledger.state(state);

ALTER TABLE ONLY ledger.pause
    ADD CONSTRAINT pause_actor_no_fkey FOREIGN KEY (actor_no) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.pause
    ADD CONSTRAINT pause_resumed_by_fkey FOREIGN KEY (resumed_by) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.permitted_transition
    ADD CONSTRAINT permitted_transition_before_state_fkey FOREIGN KEY (before_state) REFERENCES ledger.state(state);

ALTER TABLE ONLY ledger.permitted_transition
    ADD CONSTRAINT permitted_transition_event_fkey FOREIGN KEY (event) REFERENCES ledger.transition_event(event);

ALTER TABLE ONLY ledger.population
    ADD CONSTRAINT population_reconciliation_no_fkey FOREIGN KEY (reconciliation_no) REFERENCES ledger.reconciliation(reconciliation_no);

ALTER TABLE ONLY ledger.process
    ADD CONSTRAINT process_drain_asked_by_fkey FOREIGN KEY (drain_asked_by) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.process
    ADD CONSTRAINT process_process_no_fkey FOREIGN KEY (process_no) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.reconciliation
    ADD CONSTRAINT reconciliation_actor_no_fkey FOREIGN KEY (actor_no) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.repair
    ADD CONSTRAINT repair_approved_by_fkey FOREIGN KEY (approved_by) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.repair
    ADD CONSTRAINT repair_executed_by_fkey FOREIGN KEY (executed_by) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.repair
    ADD CONSTRAINT repair_finding_id_fkey FOREIGN KEY (finding_id) REFERENCES ledger.finding(id);

ALTER TABLE ONLY ledger.repair
    ADD CONSTRAINT repair_proposed_by_fkey FOREIGN KEY (proposed_by) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.report_row
    ADD CONSTRAINT report_row_reconciliation_no_fkey FOREIGN KEY (reconciliation_no) REFERENCES ledger.reconciliation(reconciliation_no);

ALTER TABLE ONLY ledger.review
    ADD CONSTRAINT review_taken_by_fkey FOREIGN KEY (taken_by) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.silent_topic
    ADD CONSTRAINT silent_topic_topic_actor_no_fkey FOREIGN KEY (topic_actor_no) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.transition_event
    ADD CONSTRAINT transition_event_after_state_fkey FOREIGN KEY (after_state) REFERENCES ledger.state(state);

ALTER TABLE ONLY ledger.tz_change
    ADD CONSTRAINT tz_change_actor_no_fkey FOREIGN KEY (actor_no) REFERENCES ledger.actor(actor_no);

ALTER TABLE ONLY ledger.tz_change_version
    ADD CONSTRAINT tz_change_version_change_no_fkey FOREIGN KEY (change_no) REFERENCES ledger.tz_change(change_no) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY ledger.tz_change_version
    ADD CONSTRAINT tz_change_version_definition_no_fkey FOREIGN KEY (definition_no) REFERENCES ledger.definition(definition_no);

ALTER TABLE ONLY ledger.witnessed
    ADD CONSTRAINT witnessed_definition_no_fkey FOREIGN KEY (definition_no) REFERENCES ledger.definition(definition_no);

GRANT USAGE ON SCHEMA ledger TO ledger_alerter;
GRANT USAGE ON SCHEMA ledger TO ledger_allocator;
GRANT USAGE ON SCHEMA ledger TO ledger_approver;
GRANT USAGE ON SCHEMA ledger TO ledger_auditor;
GRANT USAGE ON SCHEMA ledger TO ledger_emitter;
GRANT USAGE ON SCHEMA ledger TO ledger_intake;
GRANT USAGE ON SCHEMA ledger TO ledger_key_manager;
GRANT USAGE ON SCHEMA ledger TO ledger_materialiser;
GRANT USAGE ON SCHEMA ledger TO ledger_monitor;
GRANT USAGE ON SCHEMA ledger TO ledger_operator;
GRANT USAGE ON SCHEMA ledger TO ledger_outcome_intake;
GRANT USAGE ON SCHEMA ledger TO ledger_pull_worker;
GRANT USAGE ON SCHEMA ledger TO ledger_reconciler;
GRANT USAGE ON SCHEMA ledger TO ledger_relay;
GRANT USAGE ON SCHEMA ledger TO ledger_service;
GRANT USAGE ON SCHEMA ledger TO ledger_simulator;
GRANT USAGE ON SCHEMA ledger TO ledger_upkeep;
GRANT USAGE ON SCHEMA ledger TO ledger_worker;

REVOKE ALL ON FUNCTION ledger.accept_disagreements(ids uuid[], tenants text[], kinds text[], subjects text[], sentences text[], expecteds text[], actuals text[], reason text, actor bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.accept_disagreements(ids uuid[], tenants text[], kinds text[], subjects text[], sentences text[], expecteds text[], actuals text[], reason text, actor bigint) TO ledger_operator;

REVOKE ALL ON FUNCTION ledger.add_overview_flows(flows_max integer) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.add_overview_flows(flows_max integer) TO ledger_service;

REVOKE ALL ON FUNCTION ledger.add_overview_runs(run_nos bigint[], first_started_at timestamp with time zone, last_started_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION ledger.add_past_load() FROM PUBLIC;

REVOKE ALL ON FUNCTION ledger.announce_sleep(until timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.announce_sleep(until timestamp with time zone) TO ledger_alerter;
GRANT ALL ON FUNCTION ledger.announce_sleep(until timestamp with time zone) TO ledger_allocator;
GRANT ALL ON FUNCTION ledger.announce_sleep(until timestamp with time zone) TO ledger_intake;
GRANT ALL ON FUNCTION ledger.announce_sleep(until timestamp with time zone) TO ledger_materialiser;
GRANT ALL ON FUNCTION ledger.announce_sleep(until timestamp with time zone) TO ledger_outcome_intake;
GRANT ALL ON FUNCTION ledger.announce_sleep(until timestamp with time zone) TO ledger_reconciler;
GRANT ALL ON FUNCTION ledger.announce_sleep(until timestamp with time zone) TO ledger_relay;
GRANT ALL ON FUNCTION ledger.announce_sleep(until timestamp with time zone) TO ledger_service;
GRANT ALL ON FUNCTION ledger.announce_sleep(until timestamp with time zone) TO ledger_worker;

GRANT SELECT ON TABLE ledger.due_item TO ledger_allocator;
GRANT SELECT ON TABLE ledger.due_item TO ledger_auditor;
GRANT SELECT ON TABLE ledger.due_item TO ledger_intake;
GRANT SELECT ON TABLE ledger.due_item TO ledger_materialiser;
GRANT SELECT ON TABLE ledger.due_item TO ledger_operator;
GRANT SELECT ON TABLE ledger.due_item TO ledger_outcome_intake;
GRANT SELECT ON TABLE ledger.due_item TO ledger_pull_worker;
GRANT SELECT ON TABLE ledger.due_item TO ledger_reconciler;
GRANT SELECT ON TABLE ledger.due_item TO ledger_upkeep;
GRANT SELECT ON TABLE ledger.due_item TO ledger_worker;

GRANT INSERT ON TABLE ledger.transition TO ledger_allocator;
GRANT SELECT ON TABLE ledger.transition TO ledger_auditor;
GRANT SELECT,INSERT ON TABLE ledger.transition TO ledger_intake;
GRANT SELECT,INSERT ON TABLE ledger.transition TO ledger_materialiser;
GRANT SELECT,INSERT ON TABLE ledger.transition TO ledger_operator;
GRANT SELECT,INSERT ON TABLE ledger.transition TO ledger_outcome_intake;
GRANT SELECT,INSERT ON TABLE ledger.transition TO ledger_pull_worker;
GRANT SELECT,INSERT ON TABLE ledger.transition TO ledger_reconciler;
GRANT SELECT,INSERT ON TABLE ledger.transition TO ledger_upkeep;
GRANT INSERT ON TABLE ledger.transition TO ledger_worker;

REVOKE ALL ON FUNCTION ledger.count_overview_in_flight(items_max integer) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.count_overview_in_flight(items_max integer) TO ledger_service;

REVOKE ALL ON FUNCTION ledger.count_overview_minutes(runs_max integer, sampled_runs_max integer, items_max integer) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.count_overview_minutes(runs_max integer, sampled_runs_max integer, items_max integer) TO ledger_service;

REVOKE ALL ON FUNCTION ledger.count_overview_waiting(flows_max integer, items_max integer, is_far boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.count_overview_waiting(flows_max integer, items_max integer, is_far boolean) TO ledger_service;

REVOKE ALL ON FUNCTION ledger.emit(tenant text, kind text, business_key text, effective_date date, due_at timestamp with time zone, payload json, cycle text, lane text, partition_key text, labels jsonb, traceparent text) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.emit(tenant text, kind text, business_key text, effective_date date, due_at timestamp with time zone, payload json, cycle text, lane text, partition_key text, labels jsonb, traceparent text) TO ledger_emitter;

REVOKE ALL ON FUNCTION ledger.emit_arrays(tenants text[], kinds text[], business_keys text[], effective_dates date[], due_ats timestamp with time zone[], payloads text[], cycles text[], lanes text[], partition_keys text[], labels text[], traceparents text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.emit_arrays(tenants text[], kinds text[], business_keys text[], effective_dates date[], due_ats timestamp with time zone[], payloads text[], cycles text[], lanes text[], partition_keys text[], labels text[], traceparents text[]) TO ledger_emitter;
GRANT ALL ON FUNCTION ledger.emit_arrays(tenants text[], kinds text[], business_keys text[], effective_dates date[], due_ats timestamp with time zone[], payloads text[], cycles text[], lanes text[], partition_keys text[], labels text[], traceparents text[]) TO ledger_relay;

REVOKE ALL ON FUNCTION ledger.emit_follower() FROM PUBLIC;

REVOKE ALL ON FUNCTION ledger.emit_items(flow_tenants text[], flow_kinds text[], flow_lanes text[], flow_of integer[], business_keys text[], cycles text[], effective_dates date[], due_ats timestamp with time zone[], payloads text[], actor bigint, partition_keys text[], labels text[], start_bys timestamp with time zone[], complete_bys timestamp with time zone[], definition_nos bigint[], event_nos bigint[], tzdata text, nominals text[], zones text[], decisions text[], smears double precision[], traceparents text[], skip_reasons text[], overlap_rules smallint[], overlap_keys text[], ids uuid[]) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.emit_items(flow_tenants text[], flow_kinds text[], flow_lanes text[], flow_of integer[], business_keys text[], cycles text[], effective_dates date[], due_ats timestamp with time zone[], payloads text[], actor bigint, partition_keys text[], labels text[], start_bys timestamp with time zone[], complete_bys timestamp with time zone[], definition_nos bigint[], event_nos bigint[], tzdata text, nominals text[], zones text[], decisions text[], smears double precision[], traceparents text[], skip_reasons text[], overlap_rules smallint[], overlap_keys text[], ids uuid[]) TO ledger_intake;
GRANT ALL ON FUNCTION ledger.emit_items(flow_tenants text[], flow_kinds text[], flow_lanes text[], flow_of integer[], business_keys text[], cycles text[], effective_dates date[], due_ats timestamp with time zone[], payloads text[], actor bigint, partition_keys text[], labels text[], start_bys timestamp with time zone[], complete_bys timestamp with time zone[], definition_nos bigint[], event_nos bigint[], tzdata text, nominals text[], zones text[], decisions text[], smears double precision[], traceparents text[], skip_reasons text[], overlap_rules smallint[], overlap_keys text[], ids uuid[]) TO ledger_materialiser;
GRANT ALL ON FUNCTION ledger.emit_items(flow_tenants text[], flow_kinds text[], flow_lanes text[], flow_of integer[], business_keys text[], cycles text[], effective_dates date[], due_ats timestamp with time zone[], payloads text[], actor bigint, partition_keys text[], labels text[], start_bys timestamp with time zone[], complete_bys timestamp with time zone[], definition_nos bigint[], event_nos bigint[], tzdata text, nominals text[], zones text[], decisions text[], smears double precision[], traceparents text[], skip_reasons text[], overlap_rules smallint[], overlap_keys text[], ids uuid[]) TO ledger_operator;
GRANT ALL ON FUNCTION ledger.emit_items(flow_tenants text[], flow_kinds text[], flow_lanes text[], flow_of integer[], business_keys text[], cycles text[], effective_dates date[], due_ats timestamp with time zone[], payloads text[], actor bigint, partition_keys text[], labels text[], start_bys timestamp with time zone[], complete_bys timestamp with time zone[], definition_nos bigint[], event_nos bigint[], tzdata text, nominals text[], zones text[], decisions text[], smears double precision[], traceparents text[], skip_reasons text[], overlap_rules smallint[], overlap_keys text[], ids uuid[]) TO ledger_reconciler;

REVOKE ALL ON FUNCTION ledger.emit_many(items json) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.emit_many(items json) TO ledger_emitter;

REVOKE ALL ON FUNCTION ledger.emitting_actor(tenant text) FROM PUBLIC;

REVOKE ALL ON FUNCTION ledger.ensure_flows(tenants text[], kinds text[], lanes text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.ensure_flows(tenants text[], kinds text[], lanes text[]) TO ledger_operator;

REVOKE ALL ON FUNCTION ledger.find_other_terms(items json, ords bigint[]) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.find_other_terms(items json, ords bigint[]) TO ledger_emitter;

REVOKE ALL ON FUNCTION ledger.finish_items() FROM PUBLIC;

REVOKE ALL ON FUNCTION ledger.finish_month() FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.finish_month() TO ledger_upkeep;

REVOKE ALL ON FUNCTION ledger.forget_past_load(before timestamp with time zone, row_max integer) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.forget_past_load(before timestamp with time zone, row_max integer) TO ledger_reconciler;

REVOKE ALL ON FUNCTION ledger.has_token(fence bigint, claimed_at timestamp with time zone, token text) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.has_token(fence bigint, claimed_at timestamp with time zone, token text) TO ledger_auditor;
GRANT ALL ON FUNCTION ledger.has_token(fence bigint, claimed_at timestamp with time zone, token text) TO ledger_reconciler;

REVOKE ALL ON FUNCTION ledger.lift_sequence(name text) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.lift_sequence(name text) TO ledger_allocator;
GRANT ALL ON FUNCTION ledger.lift_sequence(name text) TO ledger_outcome_intake;
GRANT ALL ON FUNCTION ledger.lift_sequence(name text) TO ledger_service;
GRANT ALL ON FUNCTION ledger.lift_sequence(name text) TO ledger_worker;

REVOKE ALL ON FUNCTION ledger.list_sequences() FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.list_sequences() TO ledger_auditor;
GRANT ALL ON FUNCTION ledger.list_sequences() TO ledger_operator;

REVOKE ALL ON FUNCTION ledger.lock_name(subject text, name text) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.lock_name(subject text, name text) TO ledger_operator;

REVOKE ALL ON FUNCTION ledger.lock_partitions() FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.lock_partitions() TO ledger_allocator;
GRANT ALL ON FUNCTION ledger.lock_partitions() TO ledger_outcome_intake;
GRANT ALL ON FUNCTION ledger.lock_partitions() TO ledger_pull_worker;
GRANT ALL ON FUNCTION ledger.lock_partitions() TO ledger_reconciler;
GRANT ALL ON FUNCTION ledger.lock_partitions() TO ledger_upkeep;
GRANT ALL ON FUNCTION ledger.lock_partitions() TO ledger_worker;

REVOKE ALL ON FUNCTION ledger.lock_rows(subject text, keys text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.lock_rows(subject text, keys text[]) TO ledger_intake;

REVOKE ALL ON FUNCTION ledger.make_partition(parent text, day date, rows_max integer) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.make_partition(parent text, day date, rows_max integer) TO ledger_intake;
GRANT ALL ON FUNCTION ledger.make_partition(parent text, day date, rows_max integer) TO ledger_materialiser;
GRANT ALL ON FUNCTION ledger.make_partition(parent text, day date, rows_max integer) TO ledger_upkeep;

REVOKE ALL ON FUNCTION ledger.measure_depth(up_to integer, of_flows integer[], counts_waiting boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.measure_depth(up_to integer, of_flows integer[], counts_waiting boolean) TO ledger_auditor;
GRANT ALL ON FUNCTION ledger.measure_depth(up_to integer, of_flows integer[], counts_waiting boolean) TO ledger_monitor;
GRANT ALL ON FUNCTION ledger.measure_depth(up_to integer, of_flows integer[], counts_waiting boolean) TO ledger_operator;

REVOKE ALL ON FUNCTION ledger.measure_gauges(series_max integer) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.measure_gauges(series_max integer) TO ledger_alerter;
GRANT ALL ON FUNCTION ledger.measure_gauges(series_max integer) TO ledger_monitor;
GRANT ALL ON FUNCTION ledger.measure_gauges(series_max integer) TO ledger_upkeep;

REVOKE ALL ON FUNCTION ledger.measure_overview_rates(runs_max integer) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.measure_overview_rates(runs_max integer) TO ledger_service;

REVOKE ALL ON FUNCTION ledger.move_items(definition_no bigint, ids uuid[], due_ats timestamp with time zone[], decisions text[], skip_reasons text[], tzdata text, actor bigint, change_no bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.move_items(definition_no bigint, ids uuid[], due_ats timestamp with time zone[], decisions text[], skip_reasons text[], tzdata text, actor bigint, change_no bigint) TO ledger_operator;

REVOKE ALL ON FUNCTION ledger.name_repair_tenant() FROM PUBLIC;

GRANT SELECT ON TABLE ledger.expedited TO ledger_allocator;
GRANT SELECT ON TABLE ledger.expedited TO ledger_auditor;
GRANT SELECT ON TABLE ledger.expedited TO ledger_materialiser;
GRANT SELECT,INSERT ON TABLE ledger.expedited TO ledger_operator;
GRANT SELECT ON TABLE ledger.expedited TO ledger_outcome_intake;
GRANT SELECT ON TABLE ledger.expedited TO ledger_pull_worker;
GRANT SELECT ON TABLE ledger.expedited TO ledger_reconciler;
GRANT SELECT,INSERT ON TABLE ledger.expedited TO ledger_upkeep;
GRANT SELECT ON TABLE ledger.expedited TO ledger_worker;

GRANT SELECT ON TABLE ledger.kind TO ledger_allocator;
GRANT SELECT ON TABLE ledger.kind TO ledger_auditor;
GRANT SELECT,INSERT ON TABLE ledger.kind TO ledger_operator;
GRANT SELECT ON TABLE ledger.kind TO ledger_outcome_intake;
GRANT SELECT ON TABLE ledger.kind TO ledger_pull_worker;
GRANT SELECT ON TABLE ledger.kind TO ledger_reconciler;
GRANT SELECT ON TABLE ledger.kind TO ledger_upkeep;
GRANT SELECT ON TABLE ledger.kind TO ledger_worker;

GRANT UPDATE(topic) ON TABLE ledger.kind TO ledger_operator;

GRANT UPDATE(queue_seconds) ON TABLE ledger.kind TO ledger_operator;

GRANT UPDATE(lease_seconds) ON TABLE ledger.kind TO ledger_operator;

GRANT UPDATE(attempt_max) ON TABLE ledger.kind TO ledger_operator;

GRANT UPDATE(start_max) ON TABLE ledger.kind TO ledger_operator;

GRANT UPDATE(backoff_base_seconds) ON TABLE ledger.kind TO ledger_operator;

GRANT UPDATE(backoff_cap_seconds) ON TABLE ledger.kind TO ledger_operator;

GRANT UPDATE(grace_seconds) ON TABLE ledger.kind TO ledger_operator;

GRANT UPDATE(dispatch) ON TABLE ledger.kind TO ledger_operator;

GRANT UPDATE(http) ON TABLE ledger.kind TO ledger_operator;

GRANT UPDATE(settled_by) ON TABLE ledger.kind TO ledger_operator;

GRANT UPDATE(dispatch_seconds) ON TABLE ledger.kind TO ledger_operator;

GRANT UPDATE(run_seconds) ON TABLE ledger.kind TO ledger_operator;

GRANT UPDATE(total_seconds) ON TABLE ledger.kind TO ledger_operator;

GRANT UPDATE(queue_late) ON TABLE ledger.kind TO ledger_operator;

GRANT UPDATE(run_late) ON TABLE ledger.kind TO ledger_operator;

GRANT UPDATE(ordering) ON TABLE ledger.kind TO ledger_operator;

GRANT UPDATE(failure_holds) ON TABLE ledger.kind TO ledger_operator;

GRANT UPDATE(streak_max) ON TABLE ledger.kind TO ledger_operator;

GRANT UPDATE(outcome_topic) ON TABLE ledger.kind TO ledger_operator;

GRANT UPDATE(compression) ON TABLE ledger.kind TO ledger_operator;

GRANT UPDATE(no_replay) ON TABLE ledger.kind TO ledger_operator;

GRANT UPDATE(redacted_fields) ON TABLE ledger.kind TO ledger_operator;

GRANT UPDATE(operation_approval_above) ON TABLE ledger.kind TO ledger_operator;

GRANT UPDATE(policy_version) ON TABLE ledger.kind TO ledger_operator;

REVOKE ALL ON FUNCTION ledger.read_overview_runs(items_max integer) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.read_overview_runs(items_max integer) TO ledger_service;

REVOKE ALL ON FUNCTION ledger.record_findings(reconciliation_no bigint, ids uuid[], types text[], severities text[], tenants text[], kinds text[], subjects text[], item_ids uuid[], business_keys text[], effective_dates date[], due_ats timestamp with time zone[], sentences text[], expecteds text[], actuals text[], terms text[], resolutions text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.record_findings(reconciliation_no bigint, ids uuid[], types text[], severities text[], tenants text[], kinds text[], subjects text[], item_ids uuid[], business_keys text[], effective_dates date[], due_ats timestamp with time zone[], sentences text[], expecteds text[], actuals text[], terms text[], resolutions text[]) TO ledger_reconciler;

REVOKE ALL ON FUNCTION ledger.record_past_load(from_date date, to_date date, tenants text[], kinds text[], quarters timestamp with time zone[], effective_dates date[], items integer[], completed integer[], completed_late integer[], in_review integer[], withdrawn integer[], written_off integer[], had_failures integer[]) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.record_past_load(from_date date, to_date date, tenants text[], kinds text[], quarters timestamp with time zone[], effective_dates date[], items integer[], completed integer[], completed_late integer[], in_review integer[], withdrawn integer[], written_off integer[], had_failures integer[]) TO ledger_reconciler;

REVOKE ALL ON FUNCTION ledger.register_actor(name text, kind text) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.register_actor(name text, kind text) TO ledger_alerter;
GRANT ALL ON FUNCTION ledger.register_actor(name text, kind text) TO ledger_allocator;
GRANT ALL ON FUNCTION ledger.register_actor(name text, kind text) TO ledger_approver;
GRANT ALL ON FUNCTION ledger.register_actor(name text, kind text) TO ledger_intake;
GRANT ALL ON FUNCTION ledger.register_actor(name text, kind text) TO ledger_materialiser;
GRANT ALL ON FUNCTION ledger.register_actor(name text, kind text) TO ledger_operator;
GRANT ALL ON FUNCTION ledger.register_actor(name text, kind text) TO ledger_outcome_intake;
GRANT ALL ON FUNCTION ledger.register_actor(name text, kind text) TO ledger_reconciler;
GRANT ALL ON FUNCTION ledger.register_actor(name text, kind text) TO ledger_relay;
GRANT ALL ON FUNCTION ledger.register_actor(name text, kind text) TO ledger_service;
GRANT ALL ON FUNCTION ledger.register_actor(name text, kind text) TO ledger_worker;

REVOKE ALL ON FUNCTION ledger.revise_items(flow_tenants text[], flow_kinds text[], flow_lanes text[], flow_of integer[], business_keys text[], cycles text[], effective_dates date[], due_ats timestamp with time zone[], payloads text[], actor bigint, since timestamp with time zone[], definition_nos bigint[], reason text, partition_keys text[], labels text[], start_bys timestamp with time zone[], complete_bys timestamp with time zone[], tzdata text, nominals text[], zones text[], decisions text[], smears double precision[], skip_reasons text[], overlap_rules smallint[], overlap_keys text[], event_nos bigint[], replaced_event_nos bigint[], traceparents text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.revise_items(flow_tenants text[], flow_kinds text[], flow_lanes text[], flow_of integer[], business_keys text[], cycles text[], effective_dates date[], due_ats timestamp with time zone[], payloads text[], actor bigint, since timestamp with time zone[], definition_nos bigint[], reason text, partition_keys text[], labels text[], start_bys timestamp with time zone[], complete_bys timestamp with time zone[], tzdata text, nominals text[], zones text[], decisions text[], smears double precision[], skip_reasons text[], overlap_rules smallint[], overlap_keys text[], event_nos bigint[], replaced_event_nos bigint[], traceparents text[]) TO ledger_intake;
GRANT ALL ON FUNCTION ledger.revise_items(flow_tenants text[], flow_kinds text[], flow_lanes text[], flow_of integer[], business_keys text[], cycles text[], effective_dates date[], due_ats timestamp with time zone[], payloads text[], actor bigint, since timestamp with time zone[], definition_nos bigint[], reason text, partition_keys text[], labels text[], start_bys timestamp with time zone[], complete_bys timestamp with time zone[], tzdata text, nominals text[], zones text[], decisions text[], smears double precision[], skip_reasons text[], overlap_rules smallint[], overlap_keys text[], event_nos bigint[], replaced_event_nos bigint[], traceparents text[]) TO ledger_materialiser;

REVOKE ALL ON FUNCTION ledger.seal_row() FROM PUBLIC;

REVOKE ALL ON FUNCTION ledger.skip_detail(reason text) FROM PUBLIC;

REVOKE ALL ON FUNCTION ledger.take_lead(task text, holder text, seconds double precision) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.take_lead(task text, holder text, seconds double precision) TO ledger_alerter;
GRANT ALL ON FUNCTION ledger.take_lead(task text, holder text, seconds double precision) TO ledger_service;
GRANT ALL ON FUNCTION ledger.take_lead(task text, holder text, seconds double precision) TO ledger_upkeep;

REVOKE ALL ON FUNCTION ledger.try_lock_rows(subject text, keys text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.try_lock_rows(subject text, keys text[]) TO ledger_allocator;
GRANT ALL ON FUNCTION ledger.try_lock_rows(subject text, keys text[]) TO ledger_pull_worker;
GRANT ALL ON FUNCTION ledger.try_lock_rows(subject text, keys text[]) TO ledger_reconciler;
GRANT ALL ON FUNCTION ledger.try_lock_rows(subject text, keys text[]) TO ledger_upkeep;

REVOKE ALL ON FUNCTION ledger.wake_for_updates() FROM PUBLIC;

REVOKE ALL ON FUNCTION ledger.wake_sleepers(flow_nos integer[], available_ats timestamp with time zone[]) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.wake_sleepers(flow_nos integer[], available_ats timestamp with time zone[]) TO ledger_allocator;
GRANT ALL ON FUNCTION ledger.wake_sleepers(flow_nos integer[], available_ats timestamp with time zone[]) TO ledger_operator;
GRANT ALL ON FUNCTION ledger.wake_sleepers(flow_nos integer[], available_ats timestamp with time zone[]) TO ledger_outcome_intake;
GRANT ALL ON FUNCTION ledger.wake_sleepers(flow_nos integer[], available_ats timestamp with time zone[]) TO ledger_pull_worker;
GRANT ALL ON FUNCTION ledger.wake_sleepers(flow_nos integer[], available_ats timestamp with time zone[]) TO ledger_reconciler;
GRANT ALL ON FUNCTION ledger.wake_sleepers(flow_nos integer[], available_ats timestamp with time zone[]) TO ledger_upkeep;
GRANT ALL ON FUNCTION ledger.wake_sleepers(flow_nos integer[], available_ats timestamp with time zone[]) TO ledger_worker;

GRANT SELECT ON TABLE ledger.actor TO ledger_approver;
GRANT SELECT ON TABLE ledger.actor TO ledger_auditor;
GRANT SELECT,INSERT ON TABLE ledger.actor TO ledger_key_manager;
GRANT SELECT ON TABLE ledger.actor TO ledger_operator;
GRANT SELECT ON TABLE ledger.actor TO ledger_reconciler;
GRANT SELECT ON TABLE ledger.actor TO ledger_service;

GRANT UPDATE(seen_at) ON TABLE ledger.actor TO ledger_key_manager;

GRANT SELECT,INSERT,DELETE ON TABLE ledger.alert TO ledger_alerter;
GRANT SELECT ON TABLE ledger.alert TO ledger_auditor;

GRANT UPDATE(value) ON TABLE ledger.alert TO ledger_alerter;

GRANT UPDATE(since) ON TABLE ledger.alert TO ledger_alerter;

GRANT UPDATE(ended_at) ON TABLE ledger.alert TO ledger_alerter;

GRANT UPDATE(sent_to) ON TABLE ledger.alert TO ledger_alerter;

GRANT UPDATE(end_sent_to) ON TABLE ledger.alert TO ledger_alerter;

GRANT SELECT,INSERT ON TABLE ledger.api_answer TO ledger_service;
GRANT SELECT,DELETE ON TABLE ledger.api_answer TO ledger_upkeep;

GRANT UPDATE(status) ON TABLE ledger.api_answer TO ledger_service;
GRANT UPDATE(status) ON TABLE ledger.api_answer TO ledger_upkeep;

GRANT UPDATE(body) ON TABLE ledger.api_answer TO ledger_service;

GRANT UPDATE(location) ON TABLE ledger.api_answer TO ledger_service;

GRANT SELECT,INSERT ON TABLE ledger.api_key TO ledger_key_manager;
GRANT SELECT ON TABLE ledger.api_key TO ledger_service;

GRANT UPDATE(expires_at) ON TABLE ledger.api_key TO ledger_key_manager;

GRANT UPDATE(last_used_at) ON TABLE ledger.api_key TO ledger_service;

GRANT UPDATE(revoked_at) ON TABLE ledger.api_key TO ledger_key_manager;

GRANT UPDATE(revoked_by) ON TABLE ledger.api_key TO ledger_key_manager;

GRANT SELECT ON TABLE ledger.audit TO ledger_auditor;
GRANT SELECT ON TABLE ledger.audit TO ledger_operator;
GRANT SELECT,DELETE ON TABLE ledger.audit TO ledger_upkeep;

GRANT INSERT(actor_no) ON TABLE ledger.audit TO ledger_approver;
GRANT INSERT(actor_no) ON TABLE ledger.audit TO ledger_key_manager;
GRANT INSERT(actor_no) ON TABLE ledger.audit TO ledger_operator;

GRANT INSERT(operation) ON TABLE ledger.audit TO ledger_approver;
GRANT INSERT(operation) ON TABLE ledger.audit TO ledger_key_manager;
GRANT INSERT(operation) ON TABLE ledger.audit TO ledger_operator;

GRANT INSERT(target) ON TABLE ledger.audit TO ledger_approver;
GRANT INSERT(target) ON TABLE ledger.audit TO ledger_key_manager;
GRANT INSERT(target) ON TABLE ledger.audit TO ledger_operator;

GRANT INSERT(tenants) ON TABLE ledger.audit TO ledger_approver;
GRANT INSERT(tenants) ON TABLE ledger.audit TO ledger_key_manager;
GRANT INSERT(tenants) ON TABLE ledger.audit TO ledger_operator;

GRANT INSERT(reason) ON TABLE ledger.audit TO ledger_approver;
GRANT INSERT(reason) ON TABLE ledger.audit TO ledger_key_manager;
GRANT INSERT(reason) ON TABLE ledger.audit TO ledger_operator;

GRANT INSERT(detail) ON TABLE ledger.audit TO ledger_approver;
GRANT INSERT(detail) ON TABLE ledger.audit TO ledger_key_manager;
GRANT INSERT(detail) ON TABLE ledger.audit TO ledger_operator;

GRANT INSERT(request_id) ON TABLE ledger.audit TO ledger_approver;
GRANT INSERT(request_id) ON TABLE ledger.audit TO ledger_key_manager;
GRANT INSERT(request_id) ON TABLE ledger.audit TO ledger_operator;

GRANT SELECT ON TABLE ledger.calendar TO ledger_auditor;
GRANT SELECT ON TABLE ledger.calendar TO ledger_intake;
GRANT SELECT ON TABLE ledger.calendar TO ledger_materialiser;
GRANT SELECT,INSERT ON TABLE ledger.calendar TO ledger_operator;
GRANT SELECT ON TABLE ledger.calendar TO ledger_reconciler;

GRANT SELECT ON TABLE ledger.calendar_use TO ledger_auditor;
GRANT SELECT,INSERT ON TABLE ledger.calendar_use TO ledger_materialiser;
GRANT SELECT ON TABLE ledger.calendar_use TO ledger_operator;
GRANT SELECT ON TABLE ledger.calendar_use TO ledger_reconciler;

GRANT SELECT ON TABLE ledger.cell TO ledger_auditor;
GRANT SELECT ON TABLE ledger.cell TO ledger_reconciler;

GRANT INSERT ON TABLE ledger.claim TO ledger_allocator;
GRANT INSERT ON TABLE ledger.claim TO ledger_pull_worker;

GRANT SELECT(fence) ON TABLE ledger.claim TO ledger_allocator;
GRANT SELECT(fence) ON TABLE ledger.claim TO ledger_auditor;
GRANT SELECT(fence) ON TABLE ledger.claim TO ledger_operator;
GRANT SELECT(fence) ON TABLE ledger.claim TO ledger_outcome_intake;
GRANT SELECT(fence) ON TABLE ledger.claim TO ledger_pull_worker;
GRANT SELECT(fence) ON TABLE ledger.claim TO ledger_reconciler;
GRANT SELECT(fence) ON TABLE ledger.claim TO ledger_upkeep;
GRANT SELECT(fence) ON TABLE ledger.claim TO ledger_worker;

GRANT SELECT(claimed_at) ON TABLE ledger.claim TO ledger_allocator;
GRANT SELECT(claimed_at) ON TABLE ledger.claim TO ledger_auditor;
GRANT SELECT(claimed_at) ON TABLE ledger.claim TO ledger_operator;
GRANT SELECT(claimed_at) ON TABLE ledger.claim TO ledger_outcome_intake;
GRANT SELECT(claimed_at) ON TABLE ledger.claim TO ledger_pull_worker;
GRANT SELECT(claimed_at) ON TABLE ledger.claim TO ledger_reconciler;
GRANT SELECT(claimed_at) ON TABLE ledger.claim TO ledger_upkeep;
GRANT SELECT(claimed_at) ON TABLE ledger.claim TO ledger_worker;

GRANT SELECT(allocator_no) ON TABLE ledger.claim TO ledger_allocator;
GRANT SELECT(allocator_no) ON TABLE ledger.claim TO ledger_auditor;
GRANT SELECT(allocator_no) ON TABLE ledger.claim TO ledger_operator;
GRANT SELECT(allocator_no) ON TABLE ledger.claim TO ledger_outcome_intake;
GRANT SELECT(allocator_no) ON TABLE ledger.claim TO ledger_pull_worker;
GRANT SELECT(allocator_no) ON TABLE ledger.claim TO ledger_upkeep;
GRANT SELECT(allocator_no) ON TABLE ledger.claim TO ledger_worker;

GRANT SELECT(topic) ON TABLE ledger.claim TO ledger_allocator;
GRANT SELECT(topic) ON TABLE ledger.claim TO ledger_auditor;
GRANT SELECT(topic) ON TABLE ledger.claim TO ledger_operator;
GRANT SELECT(topic) ON TABLE ledger.claim TO ledger_pull_worker;
GRANT SELECT(topic) ON TABLE ledger.claim TO ledger_reconciler;
GRANT SELECT(topic) ON TABLE ledger.claim TO ledger_upkeep;
GRANT SELECT(topic) ON TABLE ledger.claim TO ledger_worker;

GRANT SELECT(partition) ON TABLE ledger.claim TO ledger_auditor;
GRANT SELECT(partition) ON TABLE ledger.claim TO ledger_operator;
GRANT SELECT(partition) ON TABLE ledger.claim TO ledger_outcome_intake;
GRANT SELECT(partition) ON TABLE ledger.claim TO ledger_pull_worker;
GRANT SELECT(partition) ON TABLE ledger.claim TO ledger_reconciler;
GRANT SELECT(partition) ON TABLE ledger.claim TO ledger_upkeep;
GRANT SELECT(partition) ON TABLE ledger.claim TO ledger_worker;

GRANT SELECT(size) ON TABLE ledger.claim TO ledger_allocator;
GRANT SELECT(size) ON TABLE ledger.claim TO ledger_auditor;
GRANT SELECT(size) ON TABLE ledger.claim TO ledger_operator;
GRANT SELECT(size) ON TABLE ledger.claim TO ledger_outcome_intake;
GRANT SELECT(size) ON TABLE ledger.claim TO ledger_pull_worker;
GRANT SELECT(size) ON TABLE ledger.claim TO ledger_reconciler;
GRANT SELECT(size) ON TABLE ledger.claim TO ledger_worker;

GRANT SELECT(item_no) ON TABLE ledger.claim TO ledger_allocator;
GRANT SELECT(item_no) ON TABLE ledger.claim TO ledger_auditor;
GRANT SELECT(item_no) ON TABLE ledger.claim TO ledger_operator;
GRANT SELECT(item_no) ON TABLE ledger.claim TO ledger_outcome_intake;
GRANT SELECT(item_no) ON TABLE ledger.claim TO ledger_pull_worker;
GRANT SELECT(item_no) ON TABLE ledger.claim TO ledger_reconciler;
GRANT SELECT(item_no) ON TABLE ledger.claim TO ledger_upkeep;
GRANT SELECT(item_no) ON TABLE ledger.claim TO ledger_worker;

GRANT SELECT(effective_date) ON TABLE ledger.claim TO ledger_allocator;
GRANT SELECT(effective_date) ON TABLE ledger.claim TO ledger_auditor;
GRANT SELECT(effective_date) ON TABLE ledger.claim TO ledger_operator;
GRANT SELECT(effective_date) ON TABLE ledger.claim TO ledger_outcome_intake;
GRANT SELECT(effective_date) ON TABLE ledger.claim TO ledger_pull_worker;
GRANT SELECT(effective_date) ON TABLE ledger.claim TO ledger_reconciler;
GRANT SELECT(effective_date) ON TABLE ledger.claim TO ledger_upkeep;
GRANT SELECT(effective_date) ON TABLE ledger.claim TO ledger_worker;

GRANT SELECT(attempt) ON TABLE ledger.claim TO ledger_allocator;
GRANT SELECT(attempt) ON TABLE ledger.claim TO ledger_auditor;
GRANT SELECT(attempt) ON TABLE ledger.claim TO ledger_operator;
GRANT SELECT(attempt) ON TABLE ledger.claim TO ledger_outcome_intake;
GRANT SELECT(attempt) ON TABLE ledger.claim TO ledger_pull_worker;
GRANT SELECT(attempt) ON TABLE ledger.claim TO ledger_reconciler;
GRANT SELECT(attempt) ON TABLE ledger.claim TO ledger_upkeep;
GRANT SELECT(attempt) ON TABLE ledger.claim TO ledger_worker;

GRANT SELECT(starts) ON TABLE ledger.claim TO ledger_allocator;
GRANT SELECT(starts) ON TABLE ledger.claim TO ledger_outcome_intake;
GRANT SELECT(starts) ON TABLE ledger.claim TO ledger_pull_worker;
GRANT SELECT(starts) ON TABLE ledger.claim TO ledger_reconciler;
GRANT SELECT(starts) ON TABLE ledger.claim TO ledger_upkeep;
GRANT SELECT(starts) ON TABLE ledger.claim TO ledger_worker;

GRANT SELECT(batch_max) ON TABLE ledger.claim TO ledger_allocator;
GRANT SELECT(batch_max) ON TABLE ledger.claim TO ledger_auditor;
GRANT SELECT(batch_max) ON TABLE ledger.claim TO ledger_operator;
GRANT SELECT(batch_max) ON TABLE ledger.claim TO ledger_outcome_intake;
GRANT SELECT(batch_max) ON TABLE ledger.claim TO ledger_pull_worker;
GRANT SELECT(batch_max) ON TABLE ledger.claim TO ledger_reconciler;
GRANT SELECT(batch_max) ON TABLE ledger.claim TO ledger_upkeep;
GRANT SELECT(batch_max) ON TABLE ledger.claim TO ledger_worker;

GRANT SELECT(published_at),UPDATE(published_at) ON TABLE ledger.claim TO ledger_allocator;
GRANT SELECT(published_at) ON TABLE ledger.claim TO ledger_auditor;
GRANT SELECT(published_at) ON TABLE ledger.claim TO ledger_operator;
GRANT SELECT(published_at) ON TABLE ledger.claim TO ledger_outcome_intake;
GRANT SELECT(published_at) ON TABLE ledger.claim TO ledger_pull_worker;
GRANT SELECT(published_at) ON TABLE ledger.claim TO ledger_reconciler;
GRANT SELECT(published_at) ON TABLE ledger.claim TO ledger_upkeep;

GRANT UPDATE(base_offset) ON TABLE ledger.claim TO ledger_allocator;
GRANT SELECT(base_offset) ON TABLE ledger.claim TO ledger_auditor;
GRANT SELECT(base_offset) ON TABLE ledger.claim TO ledger_operator;
GRANT SELECT(base_offset) ON TABLE ledger.claim TO ledger_reconciler;

GRANT SELECT(started),UPDATE(started) ON TABLE ledger.claim TO ledger_allocator;
GRANT SELECT(started) ON TABLE ledger.claim TO ledger_auditor;
GRANT SELECT(started) ON TABLE ledger.claim TO ledger_operator;
GRANT SELECT(started),UPDATE(started) ON TABLE ledger.claim TO ledger_outcome_intake;
GRANT SELECT(started),UPDATE(started) ON TABLE ledger.claim TO ledger_pull_worker;
GRANT SELECT(started) ON TABLE ledger.claim TO ledger_reconciler;
GRANT SELECT(started) ON TABLE ledger.claim TO ledger_upkeep;
GRANT SELECT(started),UPDATE(started) ON TABLE ledger.claim TO ledger_worker;

GRANT SELECT(deadline),UPDATE(deadline) ON TABLE ledger.claim TO ledger_allocator;
GRANT SELECT(deadline) ON TABLE ledger.claim TO ledger_auditor;
GRANT SELECT(deadline) ON TABLE ledger.claim TO ledger_operator;
GRANT SELECT(deadline) ON TABLE ledger.claim TO ledger_reconciler;
GRANT SELECT(deadline),UPDATE(deadline) ON TABLE ledger.claim TO ledger_upkeep;
GRANT SELECT(deadline) ON TABLE ledger.claim TO ledger_worker;

GRANT SELECT(closed_at),UPDATE(closed_at) ON TABLE ledger.claim TO ledger_allocator;
GRANT SELECT(closed_at) ON TABLE ledger.claim TO ledger_auditor;
GRANT SELECT(closed_at) ON TABLE ledger.claim TO ledger_operator;
GRANT SELECT(closed_at),UPDATE(closed_at) ON TABLE ledger.claim TO ledger_outcome_intake;
GRANT SELECT(closed_at),UPDATE(closed_at) ON TABLE ledger.claim TO ledger_pull_worker;
GRANT SELECT(closed_at),UPDATE(closed_at) ON TABLE ledger.claim TO ledger_reconciler;
GRANT SELECT(closed_at),UPDATE(closed_at) ON TABLE ledger.claim TO ledger_upkeep;
GRANT SELECT(closed_at),UPDATE(closed_at) ON TABLE ledger.claim TO ledger_worker;

GRANT SELECT(token) ON TABLE ledger.claim TO ledger_allocator;
GRANT SELECT(token) ON TABLE ledger.claim TO ledger_outcome_intake;
GRANT SELECT(token) ON TABLE ledger.claim TO ledger_pull_worker;
GRANT SELECT(token) ON TABLE ledger.claim TO ledger_worker;

GRANT SELECT(flow_no) ON TABLE ledger.claim TO ledger_allocator;
GRANT SELECT(flow_no) ON TABLE ledger.claim TO ledger_auditor;
GRANT SELECT(flow_no),UPDATE(flow_no) ON TABLE ledger.claim TO ledger_operator;
GRANT SELECT(flow_no) ON TABLE ledger.claim TO ledger_outcome_intake;
GRANT SELECT(flow_no) ON TABLE ledger.claim TO ledger_pull_worker;
GRANT SELECT(flow_no) ON TABLE ledger.claim TO ledger_worker;

GRANT SELECT(topic_actor_no) ON TABLE ledger.claim TO ledger_allocator;
GRANT SELECT(topic_actor_no) ON TABLE ledger.claim TO ledger_auditor;
GRANT SELECT(topic_actor_no) ON TABLE ledger.claim TO ledger_operator;
GRANT SELECT(topic_actor_no) ON TABLE ledger.claim TO ledger_outcome_intake;
GRANT SELECT(topic_actor_no) ON TABLE ledger.claim TO ledger_pull_worker;
GRANT SELECT(topic_actor_no) ON TABLE ledger.claim TO ledger_reconciler;
GRANT SELECT(topic_actor_no) ON TABLE ledger.claim TO ledger_upkeep;
GRANT SELECT(topic_actor_no) ON TABLE ledger.claim TO ledger_worker;

GRANT SELECT(lease_seconds) ON TABLE ledger.claim TO ledger_allocator;
GRANT SELECT(lease_seconds) ON TABLE ledger.claim TO ledger_outcome_intake;
GRANT SELECT(lease_seconds) ON TABLE ledger.claim TO ledger_pull_worker;

GRANT SELECT(queue_seconds) ON TABLE ledger.claim TO ledger_allocator;
GRANT SELECT(queue_seconds) ON TABLE ledger.claim TO ledger_auditor;
GRANT SELECT(queue_seconds) ON TABLE ledger.claim TO ledger_reconciler;

GRANT SELECT(run_seconds) ON TABLE ledger.claim TO ledger_allocator;
GRANT SELECT(run_seconds) ON TABLE ledger.claim TO ledger_outcome_intake;
GRANT SELECT(run_seconds) ON TABLE ledger.claim TO ledger_pull_worker;
GRANT SELECT(run_seconds) ON TABLE ledger.claim TO ledger_worker;

GRANT SELECT(flow_nos) ON TABLE ledger.claim TO ledger_auditor;
GRANT SELECT(flow_nos) ON TABLE ledger.claim TO ledger_operator;
GRANT SELECT(flow_nos) ON TABLE ledger.claim TO ledger_upkeep;

GRANT SELECT(lag_flow_no) ON TABLE ledger.claim TO ledger_allocator;

GRANT SELECT(available_since) ON TABLE ledger.claim TO ledger_allocator;

GRANT SELECT,INSERT ON TABLE ledger.console_session TO ledger_service;
GRANT SELECT,DELETE ON TABLE ledger.console_session TO ledger_upkeep;

GRANT UPDATE(expires_at) ON TABLE ledger.console_session TO ledger_service;
GRANT UPDATE(expires_at) ON TABLE ledger.console_session TO ledger_upkeep;

GRANT SELECT ON TABLE ledger.credit TO ledger_allocator;
GRANT SELECT ON TABLE ledger.credit TO ledger_auditor;
GRANT SELECT ON TABLE ledger.credit TO ledger_operator;
GRANT SELECT,DELETE ON TABLE ledger.credit TO ledger_upkeep;
GRANT SELECT,INSERT,DELETE ON TABLE ledger.credit TO ledger_worker;

GRANT UPDATE(items) ON TABLE ledger.credit TO ledger_worker;

GRANT UPDATE(granted_until) ON TABLE ledger.credit TO ledger_worker;

GRANT SELECT ON TABLE ledger.cursor_secret TO ledger_service;

GRANT SELECT ON TABLE ledger.definition TO ledger_auditor;
GRANT SELECT ON TABLE ledger.definition TO ledger_intake;
GRANT SELECT ON TABLE ledger.definition TO ledger_materialiser;
GRANT SELECT,INSERT ON TABLE ledger.definition TO ledger_operator;
GRANT SELECT ON TABLE ledger.definition TO ledger_reconciler;

GRANT SELECT ON TABLE ledger.depth TO ledger_monitor;

GRANT SELECT ON TABLE ledger.due_item_default TO ledger_allocator;
GRANT SELECT ON TABLE ledger.due_item_default TO ledger_auditor;
GRANT SELECT ON TABLE ledger.due_item_default TO ledger_intake;
GRANT SELECT ON TABLE ledger.due_item_default TO ledger_materialiser;
GRANT SELECT ON TABLE ledger.due_item_default TO ledger_operator;
GRANT SELECT ON TABLE ledger.due_item_default TO ledger_outcome_intake;
GRANT SELECT ON TABLE ledger.due_item_default TO ledger_pull_worker;
GRANT SELECT ON TABLE ledger.due_item_default TO ledger_reconciler;
GRANT SELECT ON TABLE ledger.due_item_default TO ledger_upkeep;
GRANT SELECT ON TABLE ledger.due_item_default TO ledger_worker;

GRANT SELECT ON TABLE ledger.event TO ledger_auditor;
GRANT SELECT,INSERT ON TABLE ledger.event TO ledger_intake;
GRANT SELECT ON TABLE ledger.event TO ledger_reconciler;

GRANT SELECT ON TABLE ledger.event_key TO ledger_auditor;
GRANT SELECT,INSERT ON TABLE ledger.event_key TO ledger_intake;
GRANT SELECT ON TABLE ledger.event_key TO ledger_reconciler;
GRANT SELECT,DELETE ON TABLE ledger.event_key TO ledger_upkeep;

GRANT UPDATE(received_at) ON TABLE ledger.event_key TO ledger_upkeep;

GRANT SELECT ON TABLE ledger.event_other_key TO ledger_auditor;
GRANT SELECT,INSERT ON TABLE ledger.event_other_key TO ledger_intake;
GRANT SELECT ON TABLE ledger.event_other_key TO ledger_reconciler;

GRANT SELECT ON TABLE ledger.failure_streak TO ledger_auditor;
GRANT SELECT ON TABLE ledger.failure_streak TO ledger_operator;
GRANT SELECT,INSERT ON TABLE ledger.failure_streak TO ledger_outcome_intake;
GRANT SELECT,INSERT ON TABLE ledger.failure_streak TO ledger_pull_worker;
GRANT SELECT,INSERT ON TABLE ledger.failure_streak TO ledger_reconciler;
GRANT SELECT,INSERT ON TABLE ledger.failure_streak TO ledger_upkeep;
GRANT SELECT,INSERT ON TABLE ledger.failure_streak TO ledger_worker;

GRANT UPDATE(failures) ON TABLE ledger.failure_streak TO ledger_outcome_intake;
GRANT UPDATE(failures) ON TABLE ledger.failure_streak TO ledger_pull_worker;
GRANT UPDATE(failures) ON TABLE ledger.failure_streak TO ledger_reconciler;
GRANT UPDATE(failures) ON TABLE ledger.failure_streak TO ledger_upkeep;
GRANT UPDATE(failures) ON TABLE ledger.failure_streak TO ledger_worker;

GRANT UPDATE(first_at) ON TABLE ledger.failure_streak TO ledger_upkeep;

GRANT UPDATE(last_at) ON TABLE ledger.failure_streak TO ledger_outcome_intake;
GRANT UPDATE(last_at) ON TABLE ledger.failure_streak TO ledger_pull_worker;
GRANT UPDATE(last_at) ON TABLE ledger.failure_streak TO ledger_reconciler;
GRANT UPDATE(last_at) ON TABLE ledger.failure_streak TO ledger_upkeep;
GRANT UPDATE(last_at) ON TABLE ledger.failure_streak TO ledger_worker;

GRANT UPDATE(reason) ON TABLE ledger.failure_streak TO ledger_outcome_intake;
GRANT UPDATE(reason) ON TABLE ledger.failure_streak TO ledger_pull_worker;
GRANT UPDATE(reason) ON TABLE ledger.failure_streak TO ledger_reconciler;
GRANT UPDATE(reason) ON TABLE ledger.failure_streak TO ledger_upkeep;
GRANT UPDATE(reason) ON TABLE ledger.failure_streak TO ledger_worker;

GRANT UPDATE(flagged_at) ON TABLE ledger.failure_streak TO ledger_upkeep;

GRANT UPDATE(judged_at) ON TABLE ledger.failure_streak TO ledger_upkeep;

GRANT USAGE ON SEQUENCE ledger.fence TO ledger_allocator;
GRANT USAGE ON SEQUENCE ledger.fence TO ledger_pull_worker;

GRANT SELECT ON TABLE ledger.finding TO ledger_approver;
GRANT SELECT ON TABLE ledger.finding TO ledger_auditor;
GRANT SELECT ON TABLE ledger.finding TO ledger_operator;
GRANT SELECT ON TABLE ledger.finding TO ledger_reconciler;

GRANT UPDATE(closed_at) ON TABLE ledger.finding TO ledger_approver;
GRANT UPDATE(closed_at) ON TABLE ledger.finding TO ledger_reconciler;

GRANT UPDATE(resolution) ON TABLE ledger.finding TO ledger_approver;
GRANT UPDATE(resolution) ON TABLE ledger.finding TO ledger_reconciler;

GRANT UPDATE(reason) ON TABLE ledger.finding TO ledger_approver;
GRANT UPDATE(reason) ON TABLE ledger.finding TO ledger_reconciler;

GRANT UPDATE(resolved_by) ON TABLE ledger.finding TO ledger_approver;

GRANT UPDATE(taken_by) ON TABLE ledger.finding TO ledger_approver;
GRANT UPDATE(taken_by) ON TABLE ledger.finding TO ledger_reconciler;

GRANT UPDATE(taken_at) ON TABLE ledger.finding TO ledger_approver;
GRANT UPDATE(taken_at) ON TABLE ledger.finding TO ledger_reconciler;

GRANT SELECT ON TABLE ledger.flood_pace TO ledger_allocator;
GRANT SELECT ON TABLE ledger.flood_pace TO ledger_auditor;
GRANT SELECT ON TABLE ledger.flood_pace TO ledger_operator;

GRANT UPDATE(share) ON TABLE ledger.flood_pace TO ledger_allocator;

GRANT UPDATE(stepped_at) ON TABLE ledger.flood_pace TO ledger_allocator;

GRANT UPDATE(counted_from) ON TABLE ledger.flood_pace TO ledger_allocator;

GRANT UPDATE(slowed_at) ON TABLE ledger.flood_pace TO ledger_allocator;

GRANT UPDATE(flow_no) ON TABLE ledger.flood_pace TO ledger_allocator;

GRANT UPDATE(lag_seconds) ON TABLE ledger.flood_pace TO ledger_allocator;

GRANT UPDATE(lag_target_seconds) ON TABLE ledger.flood_pace TO ledger_allocator;

GRANT SELECT ON TABLE ledger.flow TO ledger_allocator;
GRANT SELECT ON TABLE ledger.flow TO ledger_auditor;
GRANT SELECT ON TABLE ledger.flow TO ledger_intake;
GRANT SELECT ON TABLE ledger.flow TO ledger_operator;
GRANT SELECT ON TABLE ledger.flow TO ledger_outcome_intake;
GRANT SELECT ON TABLE ledger.flow TO ledger_pull_worker;
GRANT SELECT ON TABLE ledger.flow TO ledger_reconciler;
GRANT SELECT ON TABLE ledger.flow TO ledger_upkeep;
GRANT SELECT ON TABLE ledger.flow TO ledger_worker;

GRANT UPDATE(weight) ON TABLE ledger.flow TO ledger_operator;

GRANT UPDATE(rate_per_second) ON TABLE ledger.flow TO ledger_operator;

GRANT UPDATE(concurrency_max) ON TABLE ledger.flow TO ledger_operator;

GRANT UPDATE(window_items) ON TABLE ledger.flow TO ledger_operator;

GRANT UPDATE(paused_at) ON TABLE ledger.flow TO ledger_operator;
GRANT UPDATE(paused_at) ON TABLE ledger.flow TO ledger_upkeep;

GRANT UPDATE(paused_by) ON TABLE ledger.flow TO ledger_operator;
GRANT UPDATE(paused_by) ON TABLE ledger.flow TO ledger_upkeep;

GRANT UPDATE(pause_reason) ON TABLE ledger.flow TO ledger_operator;
GRANT UPDATE(pause_reason) ON TABLE ledger.flow TO ledger_upkeep;

GRANT UPDATE(retry_share) ON TABLE ledger.flow TO ledger_operator;

GRANT UPDATE(tokens) ON TABLE ledger.flow TO ledger_allocator;
GRANT UPDATE(tokens) ON TABLE ledger.flow TO ledger_pull_worker;

GRANT UPDATE(tokens_at) ON TABLE ledger.flow TO ledger_allocator;
GRANT UPDATE(tokens_at) ON TABLE ledger.flow TO ledger_pull_worker;

GRANT UPDATE(circuit_failure_ratio) ON TABLE ledger.flow TO ledger_operator;

GRANT UPDATE(circuit_calls_min) ON TABLE ledger.flow TO ledger_operator;

GRANT UPDATE(circuit_window_seconds) ON TABLE ledger.flow TO ledger_operator;

GRANT UPDATE(circuit_rest_seconds) ON TABLE ledger.flow TO ledger_operator;

GRANT UPDATE(circuit) ON TABLE ledger.flow TO ledger_operator;
GRANT UPDATE(circuit) ON TABLE ledger.flow TO ledger_upkeep;

GRANT UPDATE(circuit_at) ON TABLE ledger.flow TO ledger_operator;
GRANT UPDATE(circuit_at) ON TABLE ledger.flow TO ledger_upkeep;

GRANT UPDATE(circuit_run_no) ON TABLE ledger.flow TO ledger_operator;
GRANT UPDATE(circuit_run_no) ON TABLE ledger.flow TO ledger_upkeep;

GRANT UPDATE(lag_target_seconds) ON TABLE ledger.flow TO ledger_operator;

GRANT INSERT ON TABLE ledger.flow_change TO ledger_operator;

GRANT SELECT ON TABLE ledger.flow_outcome TO ledger_allocator;
GRANT INSERT ON TABLE ledger.flow_outcome TO ledger_outcome_intake;
GRANT SELECT,INSERT ON TABLE ledger.flow_outcome TO ledger_pull_worker;
GRANT INSERT ON TABLE ledger.flow_outcome TO ledger_reconciler;
GRANT SELECT,INSERT,DELETE ON TABLE ledger.flow_outcome TO ledger_upkeep;
GRANT INSERT ON TABLE ledger.flow_outcome TO ledger_worker;

GRANT SELECT ON TABLE ledger.following TO ledger_auditor;
GRANT SELECT,INSERT ON TABLE ledger.following TO ledger_materialiser;
GRANT SELECT ON TABLE ledger.following TO ledger_outcome_intake;
GRANT SELECT ON TABLE ledger.following TO ledger_pull_worker;
GRANT SELECT ON TABLE ledger.following TO ledger_reconciler;
GRANT SELECT ON TABLE ledger.following TO ledger_upkeep;
GRANT SELECT ON TABLE ledger.following TO ledger_worker;

GRANT UPDATE(definition_no) ON TABLE ledger.following TO ledger_materialiser;

GRANT UPDATE(delay_seconds) ON TABLE ledger.following TO ledger_materialiser;

GRANT SELECT,INSERT ON TABLE ledger.held_key TO ledger_allocator;
GRANT SELECT ON TABLE ledger.held_key TO ledger_auditor;
GRANT SELECT ON TABLE ledger.held_key TO ledger_operator;
GRANT SELECT ON TABLE ledger.held_key TO ledger_outcome_intake;
GRANT SELECT,INSERT ON TABLE ledger.held_key TO ledger_pull_worker;
GRANT SELECT,DELETE ON TABLE ledger.held_key TO ledger_reconciler;
GRANT SELECT,DELETE ON TABLE ledger.held_key TO ledger_upkeep;
GRANT SELECT ON TABLE ledger.held_key TO ledger_worker;

GRANT SELECT ON TABLE ledger.materialised TO ledger_auditor;
GRANT SELECT ON TABLE ledger.materialised TO ledger_materialiser;
GRANT SELECT,INSERT ON TABLE ledger.materialised TO ledger_operator;
GRANT SELECT ON TABLE ledger.materialised TO ledger_reconciler;

GRANT UPDATE(materialised_until) ON TABLE ledger.materialised TO ledger_materialiser;

GRANT UPDATE(failed_at) ON TABLE ledger.materialised TO ledger_materialiser;

GRANT UPDATE(failure) ON TABLE ledger.materialised TO ledger_materialiser;

GRANT UPDATE(ends_at) ON TABLE ledger.materialised TO ledger_operator;

GRANT UPDATE(tzdata) ON TABLE ledger.materialised TO ledger_materialiser;

GRANT SELECT ON TABLE ledger.missed_range TO ledger_auditor;
GRANT SELECT,INSERT ON TABLE ledger.missed_range TO ledger_materialiser;
GRANT SELECT ON TABLE ledger.missed_range TO ledger_reconciler;

GRANT UPDATE(until_at) ON TABLE ledger.missed_range TO ledger_materialiser;

GRANT UPDATE(occurrences) ON TABLE ledger.missed_range TO ledger_materialiser;

GRANT UPDATE(recorded_at) ON TABLE ledger.missed_range TO ledger_materialiser;

GRANT SELECT,INSERT ON TABLE ledger.run TO ledger_allocator;
GRANT SELECT ON TABLE ledger.run TO ledger_auditor;
GRANT SELECT ON TABLE ledger.run TO ledger_operator;
GRANT SELECT,INSERT ON TABLE ledger.run TO ledger_outcome_intake;
GRANT SELECT,INSERT ON TABLE ledger.run TO ledger_pull_worker;
GRANT SELECT ON TABLE ledger.run TO ledger_reconciler;
GRANT SELECT ON TABLE ledger.run TO ledger_upkeep;
GRANT SELECT,INSERT ON TABLE ledger.run TO ledger_worker;

GRANT UPDATE(lease_until) ON TABLE ledger.run TO ledger_outcome_intake;
GRANT UPDATE(lease_until) ON TABLE ledger.run TO ledger_pull_worker;
GRANT UPDATE(lease_until) ON TABLE ledger.run TO ledger_upkeep;
GRANT UPDATE(lease_until) ON TABLE ledger.run TO ledger_worker;

GRANT UPDATE(lease_seconds) ON TABLE ledger.run TO ledger_outcome_intake;
GRANT UPDATE(lease_seconds) ON TABLE ledger.run TO ledger_pull_worker;
GRANT UPDATE(lease_seconds) ON TABLE ledger.run TO ledger_worker;

GRANT UPDATE(ended) ON TABLE ledger.run TO ledger_outcome_intake;
GRANT UPDATE(ended) ON TABLE ledger.run TO ledger_pull_worker;
GRANT UPDATE(ended) ON TABLE ledger.run TO ledger_worker;

GRANT UPDATE(closed_at) ON TABLE ledger.run TO ledger_outcome_intake;
GRANT UPDATE(closed_at) ON TABLE ledger.run TO ledger_pull_worker;
GRANT UPDATE(closed_at) ON TABLE ledger.run TO ledger_reconciler;
GRANT UPDATE(closed_at) ON TABLE ledger.run TO ledger_upkeep;
GRANT UPDATE(closed_at) ON TABLE ledger.run TO ledger_worker;

GRANT UPDATE(flow_no) ON TABLE ledger.run TO ledger_operator;

GRANT UPDATE(extended_at) ON TABLE ledger.run TO ledger_outcome_intake;
GRANT UPDATE(extended_at) ON TABLE ledger.run TO ledger_pull_worker;
GRANT UPDATE(extended_at) ON TABLE ledger.run TO ledger_worker;

GRANT UPDATE(overran) ON TABLE ledger.run TO ledger_worker;

GRANT SELECT ON TABLE ledger.open_item TO ledger_auditor;
GRANT SELECT ON TABLE ledger.open_item TO ledger_operator;
GRANT SELECT ON TABLE ledger.open_item TO ledger_reconciler;
GRANT SELECT ON TABLE ledger.open_item TO ledger_upkeep;

GRANT SELECT ON TABLE ledger.operation TO ledger_approver;
GRANT SELECT ON TABLE ledger.operation TO ledger_auditor;
GRANT SELECT,INSERT ON TABLE ledger.operation TO ledger_operator;
GRANT SELECT ON TABLE ledger.operation TO ledger_upkeep;

GRANT UPDATE(reached_item_no) ON TABLE ledger.operation TO ledger_upkeep;

GRANT UPDATE(done) ON TABLE ledger.operation TO ledger_upkeep;

GRANT UPDATE(requested) ON TABLE ledger.operation TO ledger_upkeep;

GRANT UPDATE(advanced_at) ON TABLE ledger.operation TO ledger_upkeep;

GRANT UPDATE(ended_at) ON TABLE ledger.operation TO ledger_operator;
GRANT UPDATE(ended_at) ON TABLE ledger.operation TO ledger_upkeep;

GRANT UPDATE(aborted_by) ON TABLE ledger.operation TO ledger_operator;

GRANT UPDATE(abort_reason) ON TABLE ledger.operation TO ledger_operator;

GRANT UPDATE(paused_at) ON TABLE ledger.operation TO ledger_operator;

GRANT UPDATE(paused_by) ON TABLE ledger.operation TO ledger_operator;

GRANT UPDATE(pause_reason) ON TABLE ledger.operation TO ledger_operator;

GRANT UPDATE(stepped_at) ON TABLE ledger.operation TO ledger_operator;
GRANT UPDATE(stepped_at) ON TABLE ledger.operation TO ledger_upkeep;

GRANT UPDATE(worked_seconds) ON TABLE ledger.operation TO ledger_upkeep;

GRANT UPDATE(approved_at) ON TABLE ledger.operation TO ledger_approver;

GRANT UPDATE(approved_by) ON TABLE ledger.operation TO ledger_approver;

GRANT UPDATE(approval_reason) ON TABLE ledger.operation TO ledger_approver;

GRANT SELECT ON TABLE ledger.operation_state TO ledger_auditor;
GRANT SELECT ON TABLE ledger.operation_state TO ledger_operator;
GRANT SELECT ON TABLE ledger.operation_state TO ledger_upkeep;

GRANT SELECT ON TABLE ledger.overview TO ledger_auditor;

GRANT SELECT ON TABLE ledger.overview_flow TO ledger_auditor;

GRANT SELECT ON TABLE ledger.overview_minute TO ledger_auditor;

GRANT SELECT ON TABLE ledger.overview_reader TO ledger_auditor;

GRANT SELECT ON TABLE ledger.partition_backoff TO ledger_auditor;
GRANT SELECT,DELETE ON TABLE ledger.partition_backoff TO ledger_pull_worker;
GRANT SELECT,INSERT ON TABLE ledger.partition_backoff TO ledger_reconciler;
GRANT SELECT,INSERT,DELETE ON TABLE ledger.partition_backoff TO ledger_upkeep;
GRANT SELECT,DELETE ON TABLE ledger.partition_backoff TO ledger_worker;

GRANT UPDATE(expirations) ON TABLE ledger.partition_backoff TO ledger_reconciler;
GRANT UPDATE(expirations) ON TABLE ledger.partition_backoff TO ledger_upkeep;

GRANT UPDATE(available_at) ON TABLE ledger.partition_backoff TO ledger_pull_worker;
GRANT UPDATE(available_at) ON TABLE ledger.partition_backoff TO ledger_reconciler;
GRANT UPDATE(available_at) ON TABLE ledger.partition_backoff TO ledger_upkeep;
GRANT UPDATE(available_at) ON TABLE ledger.partition_backoff TO ledger_worker;

GRANT SELECT ON TABLE ledger.partition_span TO ledger_auditor;
GRANT SELECT ON TABLE ledger.partition_span TO ledger_intake;
GRANT SELECT ON TABLE ledger.partition_span TO ledger_materialiser;
GRANT SELECT ON TABLE ledger.partition_span TO ledger_operator;
GRANT SELECT ON TABLE ledger.partition_span TO ledger_reconciler;
GRANT SELECT ON TABLE ledger.partition_span TO ledger_upkeep;

GRANT UPDATE(checked_at) ON TABLE ledger.partition_span TO ledger_upkeep;

GRANT SELECT ON TABLE ledger.past_load_count TO ledger_auditor;
GRANT SELECT,INSERT ON TABLE ledger.past_load_count TO ledger_reconciler;

GRANT UPDATE(as_of) ON TABLE ledger.past_load_count TO ledger_reconciler;

GRANT UPDATE(counted_from) ON TABLE ledger.past_load_count TO ledger_reconciler;

GRANT SELECT ON TABLE ledger.past_sum TO ledger_auditor;

GRANT SELECT ON TABLE ledger.pause TO ledger_auditor;
GRANT SELECT,INSERT ON TABLE ledger.pause TO ledger_operator;
GRANT SELECT ON TABLE ledger.pause TO ledger_reconciler;
GRANT SELECT ON TABLE ledger.pause TO ledger_upkeep;

GRANT UPDATE(resumed_at) ON TABLE ledger.pause TO ledger_operator;
GRANT UPDATE(resumed_at) ON TABLE ledger.pause TO ledger_upkeep;

GRANT UPDATE(resumed_by) ON TABLE ledger.pause TO ledger_operator;

GRANT UPDATE(paused_until) ON TABLE ledger.pause TO ledger_operator;

GRANT SELECT,INSERT,DELETE ON TABLE ledger.pending TO ledger_allocator;
GRANT SELECT ON TABLE ledger.pending TO ledger_auditor;
GRANT SELECT,DELETE ON TABLE ledger.pending TO ledger_intake;
GRANT SELECT,DELETE ON TABLE ledger.pending TO ledger_materialiser;
GRANT SELECT,INSERT,DELETE ON TABLE ledger.pending TO ledger_operator;
GRANT SELECT,INSERT ON TABLE ledger.pending TO ledger_outcome_intake;
GRANT SELECT,INSERT,DELETE ON TABLE ledger.pending TO ledger_pull_worker;
GRANT SELECT,INSERT,DELETE ON TABLE ledger.pending TO ledger_reconciler;
GRANT SELECT,INSERT,DELETE ON TABLE ledger.pending TO ledger_upkeep;
GRANT SELECT,INSERT ON TABLE ledger.pending TO ledger_worker;

GRANT UPDATE(available_at) ON TABLE ledger.pending TO ledger_allocator;
GRANT UPDATE(available_at) ON TABLE ledger.pending TO ledger_operator;
GRANT UPDATE(available_at) ON TABLE ledger.pending TO ledger_pull_worker;
GRANT UPDATE(available_at) ON TABLE ledger.pending TO ledger_upkeep;

GRANT UPDATE(state) ON TABLE ledger.pending TO ledger_operator;
GRANT UPDATE(state) ON TABLE ledger.pending TO ledger_upkeep;

GRANT UPDATE(batch_max) ON TABLE ledger.pending TO ledger_intake;
GRANT UPDATE(batch_max) ON TABLE ledger.pending TO ledger_materialiser;
GRANT UPDATE(batch_max) ON TABLE ledger.pending TO ledger_reconciler;

GRANT UPDATE(overlap) ON TABLE ledger.pending TO ledger_operator;
GRANT UPDATE(overlap) ON TABLE ledger.pending TO ledger_upkeep;

GRANT UPDATE(snoozed_until) ON TABLE ledger.pending TO ledger_operator;
GRANT UPDATE(snoozed_until) ON TABLE ledger.pending TO ledger_upkeep;

GRANT SELECT ON TABLE ledger.population TO ledger_auditor;
GRANT SELECT,INSERT ON TABLE ledger.population TO ledger_reconciler;
GRANT SELECT,DELETE ON TABLE ledger.population TO ledger_upkeep;

GRANT SELECT,INSERT ON TABLE ledger.process TO ledger_alerter;
GRANT SELECT,INSERT ON TABLE ledger.process TO ledger_allocator;
GRANT SELECT,INSERT ON TABLE ledger.process TO ledger_intake;
GRANT SELECT,INSERT ON TABLE ledger.process TO ledger_materialiser;
GRANT SELECT ON TABLE ledger.process TO ledger_operator;
GRANT SELECT,INSERT ON TABLE ledger.process TO ledger_outcome_intake;
GRANT SELECT ON TABLE ledger.process TO ledger_pull_worker;
GRANT SELECT,INSERT ON TABLE ledger.process TO ledger_reconciler;
GRANT SELECT,INSERT ON TABLE ledger.process TO ledger_relay;
GRANT SELECT,INSERT ON TABLE ledger.process TO ledger_service;
GRANT SELECT,DELETE ON TABLE ledger.process TO ledger_upkeep;
GRANT SELECT,INSERT ON TABLE ledger.process TO ledger_worker;

GRANT UPDATE(seen_at) ON TABLE ledger.process TO ledger_alerter;
GRANT UPDATE(seen_at) ON TABLE ledger.process TO ledger_allocator;
GRANT UPDATE(seen_at) ON TABLE ledger.process TO ledger_intake;
GRANT UPDATE(seen_at) ON TABLE ledger.process TO ledger_materialiser;
GRANT UPDATE(seen_at) ON TABLE ledger.process TO ledger_outcome_intake;
GRANT UPDATE(seen_at) ON TABLE ledger.process TO ledger_reconciler;
GRANT UPDATE(seen_at) ON TABLE ledger.process TO ledger_relay;
GRANT UPDATE(seen_at) ON TABLE ledger.process TO ledger_service;
GRANT UPDATE(seen_at) ON TABLE ledger.process TO ledger_worker;

GRANT UPDATE(ended_at) ON TABLE ledger.process TO ledger_alerter;
GRANT UPDATE(ended_at) ON TABLE ledger.process TO ledger_allocator;
GRANT UPDATE(ended_at) ON TABLE ledger.process TO ledger_intake;
GRANT UPDATE(ended_at) ON TABLE ledger.process TO ledger_materialiser;
GRANT UPDATE(ended_at) ON TABLE ledger.process TO ledger_outcome_intake;
GRANT UPDATE(ended_at) ON TABLE ledger.process TO ledger_reconciler;
GRANT UPDATE(ended_at) ON TABLE ledger.process TO ledger_relay;
GRANT UPDATE(ended_at) ON TABLE ledger.process TO ledger_service;
GRANT UPDATE(ended_at) ON TABLE ledger.process TO ledger_worker;

GRANT UPDATE(locked_on) ON TABLE ledger.process TO ledger_alerter;
GRANT UPDATE(locked_on) ON TABLE ledger.process TO ledger_allocator;
GRANT UPDATE(locked_on) ON TABLE ledger.process TO ledger_intake;
GRANT UPDATE(locked_on) ON TABLE ledger.process TO ledger_materialiser;
GRANT UPDATE(locked_on) ON TABLE ledger.process TO ledger_outcome_intake;
GRANT UPDATE(locked_on) ON TABLE ledger.process TO ledger_reconciler;
GRANT UPDATE(locked_on) ON TABLE ledger.process TO ledger_relay;
GRANT UPDATE(locked_on) ON TABLE ledger.process TO ledger_service;
GRANT UPDATE(locked_on) ON TABLE ledger.process TO ledger_worker;

GRANT UPDATE(unlocked_at) ON TABLE ledger.process TO ledger_alerter;
GRANT UPDATE(unlocked_at) ON TABLE ledger.process TO ledger_allocator;
GRANT UPDATE(unlocked_at) ON TABLE ledger.process TO ledger_intake;
GRANT UPDATE(unlocked_at) ON TABLE ledger.process TO ledger_materialiser;
GRANT UPDATE(unlocked_at) ON TABLE ledger.process TO ledger_outcome_intake;
GRANT UPDATE(unlocked_at) ON TABLE ledger.process TO ledger_reconciler;
GRANT UPDATE(unlocked_at) ON TABLE ledger.process TO ledger_relay;
GRANT UPDATE(unlocked_at) ON TABLE ledger.process TO ledger_service;
GRANT UPDATE(unlocked_at) ON TABLE ledger.process TO ledger_upkeep;
GRANT UPDATE(unlocked_at) ON TABLE ledger.process TO ledger_worker;

GRANT UPDATE(yields) ON TABLE ledger.process TO ledger_alerter;
GRANT UPDATE(yields) ON TABLE ledger.process TO ledger_allocator;
GRANT UPDATE(yields) ON TABLE ledger.process TO ledger_intake;
GRANT UPDATE(yields) ON TABLE ledger.process TO ledger_materialiser;
GRANT UPDATE(yields) ON TABLE ledger.process TO ledger_outcome_intake;
GRANT UPDATE(yields) ON TABLE ledger.process TO ledger_reconciler;
GRANT UPDATE(yields) ON TABLE ledger.process TO ledger_relay;
GRANT UPDATE(yields) ON TABLE ledger.process TO ledger_service;
GRANT UPDATE(yields) ON TABLE ledger.process TO ledger_worker;

GRANT UPDATE(kinds) ON TABLE ledger.process TO ledger_alerter;
GRANT UPDATE(kinds) ON TABLE ledger.process TO ledger_allocator;
GRANT UPDATE(kinds) ON TABLE ledger.process TO ledger_intake;
GRANT UPDATE(kinds) ON TABLE ledger.process TO ledger_materialiser;
GRANT UPDATE(kinds) ON TABLE ledger.process TO ledger_outcome_intake;
GRANT UPDATE(kinds) ON TABLE ledger.process TO ledger_reconciler;
GRANT UPDATE(kinds) ON TABLE ledger.process TO ledger_relay;
GRANT UPDATE(kinds) ON TABLE ledger.process TO ledger_service;
GRANT UPDATE(kinds) ON TABLE ledger.process TO ledger_worker;

GRANT UPDATE(kind_tenants) ON TABLE ledger.process TO ledger_alerter;
GRANT UPDATE(kind_tenants) ON TABLE ledger.process TO ledger_allocator;
GRANT UPDATE(kind_tenants) ON TABLE ledger.process TO ledger_intake;
GRANT UPDATE(kind_tenants) ON TABLE ledger.process TO ledger_materialiser;
GRANT UPDATE(kind_tenants) ON TABLE ledger.process TO ledger_outcome_intake;
GRANT UPDATE(kind_tenants) ON TABLE ledger.process TO ledger_reconciler;
GRANT UPDATE(kind_tenants) ON TABLE ledger.process TO ledger_relay;
GRANT UPDATE(kind_tenants) ON TABLE ledger.process TO ledger_service;
GRANT UPDATE(kind_tenants) ON TABLE ledger.process TO ledger_worker;

GRANT UPDATE(sleeps_until) ON TABLE ledger.process TO ledger_alerter;
GRANT UPDATE(sleeps_until) ON TABLE ledger.process TO ledger_allocator;
GRANT UPDATE(sleeps_until) ON TABLE ledger.process TO ledger_intake;
GRANT UPDATE(sleeps_until) ON TABLE ledger.process TO ledger_materialiser;
GRANT UPDATE(sleeps_until) ON TABLE ledger.process TO ledger_outcome_intake;
GRANT UPDATE(sleeps_until) ON TABLE ledger.process TO ledger_reconciler;
GRANT UPDATE(sleeps_until) ON TABLE ledger.process TO ledger_relay;
GRANT UPDATE(sleeps_until) ON TABLE ledger.process TO ledger_service;
GRANT UPDATE(sleeps_until) ON TABLE ledger.process TO ledger_worker;

GRANT UPDATE(failing_since) ON TABLE ledger.process TO ledger_alerter;
GRANT UPDATE(failing_since) ON TABLE ledger.process TO ledger_allocator;
GRANT UPDATE(failing_since) ON TABLE ledger.process TO ledger_intake;
GRANT UPDATE(failing_since) ON TABLE ledger.process TO ledger_materialiser;
GRANT UPDATE(failing_since) ON TABLE ledger.process TO ledger_outcome_intake;
GRANT UPDATE(failing_since) ON TABLE ledger.process TO ledger_reconciler;
GRANT UPDATE(failing_since) ON TABLE ledger.process TO ledger_relay;
GRANT UPDATE(failing_since) ON TABLE ledger.process TO ledger_service;
GRANT UPDATE(failing_since) ON TABLE ledger.process TO ledger_worker;

GRANT UPDATE(failure) ON TABLE ledger.process TO ledger_alerter;
GRANT UPDATE(failure) ON TABLE ledger.process TO ledger_allocator;
GRANT UPDATE(failure) ON TABLE ledger.process TO ledger_intake;
GRANT UPDATE(failure) ON TABLE ledger.process TO ledger_materialiser;
GRANT UPDATE(failure) ON TABLE ledger.process TO ledger_outcome_intake;
GRANT UPDATE(failure) ON TABLE ledger.process TO ledger_reconciler;
GRANT UPDATE(failure) ON TABLE ledger.process TO ledger_relay;
GRANT UPDATE(failure) ON TABLE ledger.process TO ledger_service;
GRANT UPDATE(failure) ON TABLE ledger.process TO ledger_worker;

GRANT UPDATE(failed_service) ON TABLE ledger.process TO ledger_alerter;
GRANT UPDATE(failed_service) ON TABLE ledger.process TO ledger_allocator;
GRANT UPDATE(failed_service) ON TABLE ledger.process TO ledger_intake;
GRANT UPDATE(failed_service) ON TABLE ledger.process TO ledger_materialiser;
GRANT UPDATE(failed_service) ON TABLE ledger.process TO ledger_outcome_intake;
GRANT UPDATE(failed_service) ON TABLE ledger.process TO ledger_reconciler;
GRANT UPDATE(failed_service) ON TABLE ledger.process TO ledger_relay;
GRANT UPDATE(failed_service) ON TABLE ledger.process TO ledger_service;
GRANT UPDATE(failed_service) ON TABLE ledger.process TO ledger_worker;

GRANT UPDATE(unavailable_topics) ON TABLE ledger.process TO ledger_alerter;
GRANT UPDATE(unavailable_topics) ON TABLE ledger.process TO ledger_allocator;
GRANT UPDATE(unavailable_topics) ON TABLE ledger.process TO ledger_intake;
GRANT UPDATE(unavailable_topics) ON TABLE ledger.process TO ledger_materialiser;
GRANT UPDATE(unavailable_topics) ON TABLE ledger.process TO ledger_outcome_intake;
GRANT UPDATE(unavailable_topics) ON TABLE ledger.process TO ledger_reconciler;
GRANT UPDATE(unavailable_topics) ON TABLE ledger.process TO ledger_relay;
GRANT UPDATE(unavailable_topics) ON TABLE ledger.process TO ledger_service;
GRANT UPDATE(unavailable_topics) ON TABLE ledger.process TO ledger_worker;

GRANT UPDATE(does_upkeep) ON TABLE ledger.process TO ledger_alerter;
GRANT UPDATE(does_upkeep) ON TABLE ledger.process TO ledger_allocator;
GRANT UPDATE(does_upkeep) ON TABLE ledger.process TO ledger_intake;
GRANT UPDATE(does_upkeep) ON TABLE ledger.process TO ledger_materialiser;
GRANT UPDATE(does_upkeep) ON TABLE ledger.process TO ledger_outcome_intake;
GRANT UPDATE(does_upkeep) ON TABLE ledger.process TO ledger_reconciler;
GRANT UPDATE(does_upkeep) ON TABLE ledger.process TO ledger_relay;
GRANT UPDATE(does_upkeep) ON TABLE ledger.process TO ledger_service;
GRANT UPDATE(does_upkeep) ON TABLE ledger.process TO ledger_worker;

GRANT UPDATE(certificate_expires_at) ON TABLE ledger.process TO ledger_service;

GRANT UPDATE(drains) ON TABLE ledger.process TO ledger_alerter;
GRANT UPDATE(drains) ON TABLE ledger.process TO ledger_allocator;
GRANT UPDATE(drains) ON TABLE ledger.process TO ledger_intake;
GRANT UPDATE(drains) ON TABLE ledger.process TO ledger_materialiser;
GRANT UPDATE(drains) ON TABLE ledger.process TO ledger_outcome_intake;
GRANT UPDATE(drains) ON TABLE ledger.process TO ledger_reconciler;
GRANT UPDATE(drains) ON TABLE ledger.process TO ledger_relay;
GRANT UPDATE(drains) ON TABLE ledger.process TO ledger_service;
GRANT UPDATE(drains) ON TABLE ledger.process TO ledger_worker;

GRANT UPDATE(drain_asked_at) ON TABLE ledger.process TO ledger_operator;

GRANT UPDATE(drain_asked_by) ON TABLE ledger.process TO ledger_operator;

GRANT UPDATE(drain_reason) ON TABLE ledger.process TO ledger_operator;

GRANT UPDATE(draining_since) ON TABLE ledger.process TO ledger_alerter;
GRANT UPDATE(draining_since) ON TABLE ledger.process TO ledger_allocator;
GRANT UPDATE(draining_since) ON TABLE ledger.process TO ledger_intake;
GRANT UPDATE(draining_since) ON TABLE ledger.process TO ledger_materialiser;
GRANT UPDATE(draining_since) ON TABLE ledger.process TO ledger_outcome_intake;
GRANT UPDATE(draining_since) ON TABLE ledger.process TO ledger_reconciler;
GRANT UPDATE(draining_since) ON TABLE ledger.process TO ledger_relay;
GRANT UPDATE(draining_since) ON TABLE ledger.process TO ledger_service;
GRANT UPDATE(draining_since) ON TABLE ledger.process TO ledger_worker;

GRANT UPDATE(ticked_at) ON TABLE ledger.process TO ledger_alerter;
GRANT UPDATE(ticked_at) ON TABLE ledger.process TO ledger_allocator;
GRANT UPDATE(ticked_at) ON TABLE ledger.process TO ledger_intake;
GRANT UPDATE(ticked_at) ON TABLE ledger.process TO ledger_materialiser;
GRANT UPDATE(ticked_at) ON TABLE ledger.process TO ledger_outcome_intake;
GRANT UPDATE(ticked_at) ON TABLE ledger.process TO ledger_reconciler;
GRANT UPDATE(ticked_at) ON TABLE ledger.process TO ledger_relay;
GRANT UPDATE(ticked_at) ON TABLE ledger.process TO ledger_service;
GRANT UPDATE(ticked_at) ON TABLE ledger.process TO ledger_worker;

GRANT UPDATE(tick_seconds) ON TABLE ledger.process TO ledger_alerter;
GRANT UPDATE(tick_seconds) ON TABLE ledger.process TO ledger_allocator;
GRANT UPDATE(tick_seconds) ON TABLE ledger.process TO ledger_intake;
GRANT UPDATE(tick_seconds) ON TABLE ledger.process TO ledger_materialiser;
GRANT UPDATE(tick_seconds) ON TABLE ledger.process TO ledger_outcome_intake;
GRANT UPDATE(tick_seconds) ON TABLE ledger.process TO ledger_reconciler;
GRANT UPDATE(tick_seconds) ON TABLE ledger.process TO ledger_relay;
GRANT UPDATE(tick_seconds) ON TABLE ledger.process TO ledger_service;
GRANT UPDATE(tick_seconds) ON TABLE ledger.process TO ledger_worker;

GRANT UPDATE(outbox_items) ON TABLE ledger.process TO ledger_alerter;
GRANT UPDATE(outbox_items) ON TABLE ledger.process TO ledger_allocator;
GRANT UPDATE(outbox_items) ON TABLE ledger.process TO ledger_intake;
GRANT UPDATE(outbox_items) ON TABLE ledger.process TO ledger_materialiser;
GRANT UPDATE(outbox_items) ON TABLE ledger.process TO ledger_outcome_intake;
GRANT UPDATE(outbox_items) ON TABLE ledger.process TO ledger_reconciler;
GRANT UPDATE(outbox_items) ON TABLE ledger.process TO ledger_relay;
GRANT UPDATE(outbox_items) ON TABLE ledger.process TO ledger_service;
GRANT UPDATE(outbox_items) ON TABLE ledger.process TO ledger_worker;

GRANT SELECT ON TABLE ledger.process_status TO ledger_alerter;
GRANT SELECT ON TABLE ledger.process_status TO ledger_allocator;
GRANT SELECT ON TABLE ledger.process_status TO ledger_auditor;
GRANT SELECT ON TABLE ledger.process_status TO ledger_intake;
GRANT SELECT ON TABLE ledger.process_status TO ledger_materialiser;
GRANT SELECT ON TABLE ledger.process_status TO ledger_operator;
GRANT SELECT ON TABLE ledger.process_status TO ledger_outcome_intake;
GRANT SELECT ON TABLE ledger.process_status TO ledger_reconciler;
GRANT SELECT ON TABLE ledger.process_status TO ledger_relay;
GRANT SELECT ON TABLE ledger.process_status TO ledger_service;
GRANT SELECT ON TABLE ledger.process_status TO ledger_upkeep;
GRANT SELECT ON TABLE ledger.process_status TO ledger_worker;

GRANT SELECT ON TABLE ledger.reconciliation TO ledger_auditor;
GRANT SELECT,INSERT ON TABLE ledger.reconciliation TO ledger_reconciler;
GRANT SELECT,DELETE ON TABLE ledger.reconciliation TO ledger_upkeep;

GRANT UPDATE(finished_at) ON TABLE ledger.reconciliation TO ledger_reconciler;

GRANT UPDATE(counts) ON TABLE ledger.reconciliation TO ledger_reconciler;

GRANT UPDATE(witness_credit_seconds) ON TABLE ledger.reconciliation TO ledger_reconciler;

GRANT SELECT ON TABLE ledger.rejected_write TO ledger_auditor;
GRANT SELECT,INSERT ON TABLE ledger.rejected_write TO ledger_operator;
GRANT INSERT ON TABLE ledger.rejected_write TO ledger_outcome_intake;
GRANT INSERT ON TABLE ledger.rejected_write TO ledger_pull_worker;
GRANT SELECT,INSERT ON TABLE ledger.rejected_write TO ledger_reconciler;
GRANT SELECT,INSERT,DELETE ON TABLE ledger.rejected_write TO ledger_upkeep;
GRANT INSERT ON TABLE ledger.rejected_write TO ledger_worker;

GRANT SELECT,INSERT ON TABLE ledger.repair TO ledger_approver;
GRANT SELECT ON TABLE ledger.repair TO ledger_auditor;
GRANT SELECT ON TABLE ledger.repair TO ledger_operator;
GRANT SELECT,INSERT ON TABLE ledger.repair TO ledger_reconciler;

GRANT UPDATE(status) ON TABLE ledger.repair TO ledger_reconciler;

GRANT UPDATE(executed_at) ON TABLE ledger.repair TO ledger_reconciler;

GRANT UPDATE(executed_by) ON TABLE ledger.repair TO ledger_reconciler;

GRANT UPDATE(command) ON TABLE ledger.repair TO ledger_reconciler;

GRANT UPDATE(held_because) ON TABLE ledger.repair TO ledger_reconciler;

GRANT UPDATE(judged_at) ON TABLE ledger.repair TO ledger_reconciler;

GRANT UPDATE(approved_at) ON TABLE ledger.repair TO ledger_approver;

GRANT UPDATE(approved_by) ON TABLE ledger.repair TO ledger_approver;

GRANT UPDATE(approval_reason) ON TABLE ledger.repair TO ledger_approver;

GRANT UPDATE(approved_over) ON TABLE ledger.repair TO ledger_approver;

GRANT UPDATE(outcome) ON TABLE ledger.repair TO ledger_reconciler;

GRANT SELECT ON TABLE ledger.report TO ledger_auditor;
GRANT INSERT ON TABLE ledger.report TO ledger_reconciler;
GRANT SELECT,DELETE ON TABLE ledger.report TO ledger_upkeep;

GRANT SELECT ON TABLE ledger.report_row TO ledger_auditor;
GRANT INSERT ON TABLE ledger.report_row TO ledger_reconciler;
GRANT SELECT,DELETE ON TABLE ledger.report_row TO ledger_upkeep;

GRANT SELECT ON TABLE ledger.retired_key TO ledger_auditor;
GRANT SELECT ON TABLE ledger.retired_key TO ledger_materialiser;
GRANT SELECT ON TABLE ledger.retired_key TO ledger_operator;
GRANT SELECT ON TABLE ledger.retired_key TO ledger_reconciler;

GRANT SELECT ON TABLE ledger.review TO ledger_auditor;
GRANT SELECT,DELETE ON TABLE ledger.review TO ledger_intake;
GRANT SELECT,INSERT,DELETE ON TABLE ledger.review TO ledger_operator;
GRANT INSERT ON TABLE ledger.review TO ledger_outcome_intake;
GRANT INSERT ON TABLE ledger.review TO ledger_pull_worker;
GRANT SELECT,INSERT,DELETE ON TABLE ledger.review TO ledger_reconciler;
GRANT SELECT,INSERT,DELETE ON TABLE ledger.review TO ledger_upkeep;
GRANT INSERT ON TABLE ledger.review TO ledger_worker;

GRANT UPDATE(reason) ON TABLE ledger.review TO ledger_intake;
GRANT UPDATE(reason) ON TABLE ledger.review TO ledger_reconciler;
GRANT UPDATE(reason) ON TABLE ledger.review TO ledger_upkeep;

GRANT UPDATE(taken_by) ON TABLE ledger.review TO ledger_operator;

GRANT UPDATE(taken_at) ON TABLE ledger.review TO ledger_operator;

GRANT USAGE ON SEQUENCE ledger.run_run_no_seq TO ledger_allocator;
GRANT USAGE ON SEQUENCE ledger.run_run_no_seq TO ledger_pull_worker;

GRANT SELECT ON TABLE ledger.seal TO ledger_auditor;
GRANT SELECT ON TABLE ledger.seal TO ledger_operator;
GRANT SELECT ON TABLE ledger.seal TO ledger_reconciler;

GRANT SELECT ON TABLE ledger.silent_topic TO ledger_allocator;
GRANT SELECT ON TABLE ledger.silent_topic TO ledger_auditor;
GRANT SELECT ON TABLE ledger.silent_topic TO ledger_operator;
GRANT SELECT,DELETE ON TABLE ledger.silent_topic TO ledger_outcome_intake;
GRANT SELECT,DELETE ON TABLE ledger.silent_topic TO ledger_pull_worker;
GRANT INSERT ON TABLE ledger.silent_topic TO ledger_reconciler;
GRANT INSERT ON TABLE ledger.silent_topic TO ledger_upkeep;

GRANT UPDATE(since) ON TABLE ledger.silent_topic TO ledger_outcome_intake;
GRANT UPDATE(since) ON TABLE ledger.silent_topic TO ledger_pull_worker;

GRANT SELECT ON TABLE ledger.stalled_partition TO ledger_auditor;
GRANT SELECT ON TABLE ledger.stalled_partition TO ledger_operator;
GRANT SELECT,DELETE ON TABLE ledger.stalled_partition TO ledger_upkeep;
GRANT SELECT,INSERT,DELETE ON TABLE ledger.stalled_partition TO ledger_worker;

GRANT SELECT ON TABLE ledger.state TO ledger_approver;
GRANT SELECT ON TABLE ledger.state TO ledger_auditor;
GRANT SELECT ON TABLE ledger.state TO ledger_operator;

GRANT SELECT ON TABLE ledger.transition_event TO ledger_auditor;
GRANT SELECT ON TABLE ledger.transition_event TO ledger_operator;

GRANT SELECT ON TABLE ledger.triggered TO ledger_auditor;
GRANT SELECT,INSERT ON TABLE ledger.triggered TO ledger_operator;
GRANT SELECT ON TABLE ledger.triggered TO ledger_reconciler;

GRANT SELECT ON TABLE ledger.tz_change TO ledger_auditor;
GRANT SELECT,INSERT ON TABLE ledger.tz_change TO ledger_operator;

GRANT SELECT ON TABLE ledger.tz_change_version TO ledger_auditor;
GRANT SELECT,INSERT ON TABLE ledger.tz_change_version TO ledger_operator;

GRANT UPDATE(applied_at) ON TABLE ledger.tz_change_version TO ledger_operator;

GRANT UPDATE(items) ON TABLE ledger.tz_change_version TO ledger_operator;

GRANT UPDATE(superseded) ON TABLE ledger.tz_change_version TO ledger_operator;

GRANT SELECT ON TABLE ledger.watermark TO ledger_auditor;
GRANT SELECT ON TABLE ledger.watermark TO ledger_monitor;
GRANT SELECT,INSERT ON TABLE ledger.watermark TO ledger_reconciler;

GRANT UPDATE(complete_before) ON TABLE ledger.watermark TO ledger_reconciler;

GRANT UPDATE(blocked_by) ON TABLE ledger.watermark TO ledger_reconciler;

GRANT UPDATE(as_of) ON TABLE ledger.watermark TO ledger_reconciler;

GRANT SELECT,INSERT,DELETE ON TABLE ledger.withdrawal TO ledger_allocator;
GRANT SELECT ON TABLE ledger.withdrawal TO ledger_auditor;
GRANT SELECT,INSERT,DELETE ON TABLE ledger.withdrawal TO ledger_intake;
GRANT SELECT,DELETE ON TABLE ledger.withdrawal TO ledger_materialiser;
GRANT SELECT,INSERT,DELETE ON TABLE ledger.withdrawal TO ledger_operator;
GRANT SELECT,INSERT,DELETE ON TABLE ledger.withdrawal TO ledger_pull_worker;
GRANT SELECT,INSERT,DELETE ON TABLE ledger.withdrawal TO ledger_reconciler;
GRANT SELECT,INSERT,DELETE ON TABLE ledger.withdrawal TO ledger_upkeep;
GRANT SELECT,DELETE ON TABLE ledger.withdrawal TO ledger_worker;

GRANT UPDATE(reason) ON TABLE ledger.withdrawal TO ledger_upkeep;

GRANT SELECT ON TABLE ledger.witnessed TO ledger_auditor;
GRANT SELECT,INSERT ON TABLE ledger.witnessed TO ledger_operator;
GRANT SELECT,INSERT ON TABLE ledger.witnessed TO ledger_reconciler;

GRANT UPDATE(agreement) ON TABLE ledger.witnessed TO ledger_operator;
GRANT UPDATE(agreement) ON TABLE ledger.witnessed TO ledger_reconciler;

GRANT UPDATE(package) ON TABLE ledger.witnessed TO ledger_operator;
GRANT UPDATE(package) ON TABLE ledger.witnessed TO ledger_reconciler;

GRANT UPDATE(reason) ON TABLE ledger.witnessed TO ledger_operator;
GRANT UPDATE(reason) ON TABLE ledger.witnessed TO ledger_reconciler;

GRANT UPDATE(times) ON TABLE ledger.witnessed TO ledger_operator;
GRANT UPDATE(times) ON TABLE ledger.witnessed TO ledger_reconciler;

GRANT UPDATE(asked_at) ON TABLE ledger.witnessed TO ledger_operator;
GRANT UPDATE(asked_at) ON TABLE ledger.witnessed TO ledger_reconciler;
