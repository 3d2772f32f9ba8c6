-- Which items each verb may be applied to. The statement of a verb has the same states; a test compares both.
create table ledger.operation_state (
  verb text not null,
  state smallint not null references ledger.state,
  primary key (verb, state)
);

comment on table ledger.operation_state is 'States of the items that each verb of an operation is applied to.';

insert into ledger.operation_state (verb, state) values
  ('trigger', 1), ('trigger', 4),
  ('park', 4),
  ('redrive', 5),
  ('write_off', 5),
  ('snooze', 1), ('snooze', 4),
  ('cancel', 1), ('cancel', 2), ('cancel', 3), ('cancel', 4), ('cancel', 5);

create table ledger.operation (
  operation_no bigint generated always as identity primary key,
  verb text not null,
  tenant text,
  kind text,
  lane text,
  parked_reason text,
  error text,
  since timestamptz,
  state smallint references ledger.state,
  due_from timestamptz,
  due_before timestamptz,
  until timestamptz,
  in_flight boolean not null,
  as_of timestamptz not null,
  snapshot pg_snapshot not null default pg_current_snapshot(),
  item_no_max bigint not null,
  matched bigint not null,
  matched_capped boolean not null,
  actor_no bigint not null references ledger.actor,
  reason text not null,
  reached_item_no bigint not null default 0,
  done bigint not null default 0,
  requested bigint not null default 0,
  advanced_at timestamptz,
  ended_at timestamptz,
  aborted_by bigint references ledger.actor,
  abort_reason text,
  paused_at timestamptz,
  paused_by bigint references ledger.actor,
  pause_reason text,
  stepped_at timestamptz,
  worked_seconds double precision not null default 0,
  needs_approval boolean not null default false,
  approved_at timestamptz,
  approved_by bigint references ledger.actor,
  approval_reason text,
  awaits_approval boolean not null generated always as (needs_approval and approved_at is null and ended_at is null) stored,
  constraint operation_verb_known check (verb in ('trigger', 'park', 'redrive', 'write_off', 'snooze', 'cancel')),
  constraint operation_until_snoozes check ((verb = 'snooze') = (until is not null) and until < 'infinity'),
  constraint operation_in_flight_cancels check (
    not in_flight or (verb = 'cancel' and parked_reason is null and error is null and since is null and state is null)),
  constraint operation_state_known check (state in (1 /* Scheduled */, 4 /* RetryableFailure */, 5 /* ManualReview */)),
  constraint operation_abort_named check (
    (aborted_by is null) = (abort_reason is null) and (aborted_by is null or ended_at is not null)),
  constraint operation_pause_named check (num_nulls(paused_at, paused_by, pause_reason) in (0, 3)),
  constraint operation_approval_named check (
    num_nulls(approved_at, approved_by, approval_reason) in (0, 3) and (needs_approval or approved_at is null)),
  constraint operation_maker_is_not_checker check (approved_by <> actor_no)
);

comment on table ledger.operation is
  'Operations: what a person asked for all items of a filter. Upkeep carries them out, some items at a time. The filter '
  'and its bounds never change; only progress does.';
comment on column ledger.operation.lane is 'Only this lane; empty for the default one, null for all.';
comment on column ledger.operation.parked_reason is 'Only items that are parked for this reason.';
comment on column ledger.operation.error is 'Only items whose last error was of this class.';
comment on column ledger.operation.since is 'Only items that came into their state at this time or later.';
comment on column ledger.operation.state is 'Only items in this state; none that are handed out.';
comment on column ledger.operation.due_from is 'Only items that are due at this time or later.';
comment on column ledger.operation.due_before is 'Only items that are due before this time.';
comment on column ledger.operation.until is 'Of snooze: when the items may be handed out. Those that wait as long anyway are left alone, and all once it is past.';
comment on column ledger.operation.in_flight is
  'Whether items that are handed out are meant, too: each gets a request to end.';
comment on column ledger.operation.as_of is
  'When it was asked for. An item that came into its state later is left alone.';
comment on column ledger.operation.snapshot is
  'What was committed when it was asked for. Items that were emitted or moved then, and committed later, are left alone.';
comment on column ledger.operation.item_no_max is
  'Highest number of an open item then. Items emitted later are left alone.';
comment on column ledger.operation.matched is 'Items that matched then.';
comment on column ledger.operation.matched_capped is 'Whether counting stopped before all items were examined.';
comment on column ledger.operation.actor_no is 'The person who asked, whom the journal names for each item.';
comment on column ledger.operation.reached_item_no is 'Items up to this number are done with.';
comment on column ledger.operation.done is 'Items that were moved.';
comment on column ledger.operation.requested is 'Items in flight that got a request to end.';
comment on column ledger.operation.ended_at is 'When the last item was examined, or the operation was aborted.';
comment on column ledger.operation.paused_at is
  'While it is set, no item is moved. It stays where a paused operation was aborted.';
comment on column ledger.operation.stepped_at is
  'When its last step ended, on the machine''s clock; null before the first one, and after a pause.';
comment on column ledger.operation.worked_seconds is
  'How long it has been carried out, without pauses; of the time between two steps, a minute at most.';

comment on column ledger.operation.needs_approval is
  'Whether a policy of the kinds that it reaches asked for a second person when it was recorded.';
comment on column ledger.operation.approved_by is 'The person who approved it: never the actor that asked for it.';
comment on column ledger.operation.awaits_approval is 'While it is set, no item is moved.';

create index operation_open_idx on ledger.operation (operation_no) where ended_at is null;
-- No other index has this order: however few a tenant has among those of others, no plan reads theirs.
create index operation_tenant_idx on ledger.operation (tenant, (-operation_no));
create index operation_awaited_idx on ledger.operation (operation_no) where awaits_approval;
create index operation_tenant_awaited_idx on ledger.operation (tenant, (-operation_no)) where awaits_approval;
