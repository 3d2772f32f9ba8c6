create table ledger.finding (
  id uuid primary key,
  type text not null,
  severity text not null,
  tenant text not null,
  kind text not null,
  subject text not null,
  item_id uuid,
  business_key text,
  effective_date date,
  due_at timestamptz,
  sentence text not null,
  expected jsonb,
  actual jsonb,
  terms jsonb,
  opened_count integer not null default 1,
  first_seen_at timestamptz not null,
  last_seen_at timestamptz not null,
  closed_at timestamptz,
  reconciliation_no bigint,
  resolution text not null,
  reason text,
  resolved_by bigint references ledger.actor,
  taken_by bigint references ledger.actor,
  taken_at timestamptz,
  constraint finding_type_known check (type in (
    'MISSING', 'UNEXPECTED', 'DUPLICATE', 'WRONG_DATE', 'WRONG_TERMS', 'WITHDRAWN', 'UNEXCUSED', 'PREMATURE', 'OVERDUE',
    'STUCK', 'HELD_KEY',
    'PUBLISHED_NO_OUTCOME', 'OUTCOME_REJECTED', 'OUTCOME_CONFLICT', 'EFFECT_MISSING', 'EFFECT_UNRECORDED',
    'EFFECT_REPEATED', 'LATE', 'LATE_ARRIVING', 'EVENT_UNMATCHED', 'UNBALANCED', 'ORPHAN_RECORD', 'RECORD_MISSING', 'TAMPERED', 'SOURCE_FAILED',
    'DEFINITION_FAILED', 'DISAGREES'
  )),
  constraint finding_severity_known check (severity in ('information', 'warning', 'error', 'critical')),
  constraint finding_resolution_known check (
    resolution in ('open', 'explained', 'repaired', 'accepted', 'carried_forward', 'false_positive')
  ),
  constraint finding_open_is_not_closed check ((resolution = 'open') = (closed_at is null)),
  constraint finding_taken_named check ((taken_by is null) = (taken_at is null)),
  constraint finding_taken_is_open check (taken_by is null or closed_at is null)
);

comment on table ledger.finding is
  'Findings: recorded differences between expected and actual. One closes itself when it no longer holds.';
comment on column ledger.finding.id is
  'Hash of what the finding is about: the same difference has the same id in every pass.';
comment on column ledger.finding.subject is 'What the finding is about, as text: an item, a source, a definition.';
comment on column ledger.finding.sentence is 'The finding in one sentence, for a person.';
comment on column ledger.finding.expected is 'Evidence of the expected side.';
comment on column ledger.finding.actual is 'Evidence of the actual side.';
comment on column ledger.finding.terms is 'Terms of a missing item, from which a repair can emit it.';
comment on column ledger.finding.opened_count is 'How often it was opened; a repair is for one opening.';
comment on column ledger.finding.reconciliation_no is 'The latest pass that found it, of which upkeep may have deleted the row; null if only `define` did.';
comment on column ledger.finding.reason is 'Why it was resolved so.';
comment on column ledger.finding.taken_by is
  'Who decides about it, or about its repair, as others see; it hinders nobody. Null: nobody has taken it.';

create index finding_open_idx on ledger.finding (type, tenant, kind, effective_date) where closed_at is null;
create index finding_item_idx on ledger.finding (item_id) where item_id is not null;
create index finding_seen_idx on ledger.finding (first_seen_at, id);
create index finding_tenant_idx on ledger.finding (tenant, first_seen_at, id);
create index finding_taken_idx on ledger.finding (taken_by, first_seen_at, id) where taken_by is not null;
create index finding_undecided_idx on ledger.finding (first_seen_at, id)
  where closed_at is null and (ledger.needs_person(type) or taken_by is not null);
-- In an order that no other index has, as in operation.
create index finding_undecided_tenant_idx on ledger.finding (tenant, (first_seen_at at time zone 'UTC'), id)
  where closed_at is null and (ledger.needs_person(type) or taken_by is not null);

create table ledger.repair (
  id uuid primary key,
  finding_id uuid not null references ledger.finding,
  action text not null,
  opened_count integer not null,
  status text not null,
  proposed_at timestamptz not null,
  proposed_by bigint not null references ledger.actor,
  executed_at timestamptz,
  executed_by bigint references ledger.actor,
  command jsonb not null,
  held_because text,
  judged_at timestamptz,
  approved_at timestamptz,
  approved_by bigint references ledger.actor,
  approval_reason text,
  approved_over text[],
  outcome jsonb,
  tenant text not null,
  constraint repair_action_known check (
    action in ('materialise', 'redrive', 'release', 'cancel', 'complete', 'escalate')
  ),
  constraint repair_status_known check (status in ('proposed', 'executed', 'refused')),
  constraint repair_execution_named check ((status = 'proposed') = (executed_at is null)),
  constraint repair_executor_named check ((executed_at is null) = (executed_by is null)),
  constraint repair_approver_named check (
    (approved_at is null) = (approved_by is null) and (approved_at is null) = (approval_reason is null)),
  constraint repair_maker_is_not_checker check (approved_by <> proposed_by)
);

comment on table ledger.repair is 'Repairs: recorded, idempotent commands that resolve findings.';
comment on column ledger.repair.id is
  'Hash of finding, action, opening and the terms of an item to emit: a repair is executed once for each opening of a finding.';
comment on column ledger.repair.opened_count is 'The opening of the finding that the repair is for.';
comment on column ledger.repair.held_because is
  'Why it was not executed yet: what a person has to decide, or what forbids it.';
comment on column ledger.repair.judged_at is
  'When a reconciliation last asked everybody who could know of the item, and its policy. The command says what it does since then.';
comment on column ledger.repair.approved_over is
  'The reasons to ask that were known when it was approved: one that comes later is asked about again.';
comment on column ledger.repair.approved_by is 'The person who approved it: never the actor that proposed it.';
comment on column ledger.repair.outcome is 'What executing or refusing it returned.';
comment on column ledger.repair.tenant is 'The tenant of its finding, so that lists of a tenant read its own alone.';

create function ledger.name_repair_tenant() returns trigger
  language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  new.tenant := (select f.tenant from ledger.finding f where f.id = new.finding_id);
  return new;
end $$;

comment on function ledger.name_repair_tenant is 'Names the tenant of a repair, which is that of its finding.';

revoke execute on function ledger.name_repair_tenant from public;

create trigger repair_names_tenant before insert on ledger.repair
  for each row execute function ledger.name_repair_tenant();

create index repair_finding_idx on ledger.repair (finding_id);
create index repair_proposed_idx on ledger.repair (proposed_at, id) where status = 'proposed';
-- In an order that no other index has, as in operation.
create index repair_tenant_idx on ledger.repair (tenant, (proposed_at at time zone 'UTC'), id) where status = 'proposed';
create index repair_executed_idx on ledger.repair (executed_at) where executed_at is not null;

create table ledger.watermark (
  tenant text not null,
  kind text not null,
  complete_before timestamptz,
  blocked_by text,
  as_of timestamptz not null,
  first_as_of timestamptz not null default ledger.now(),
  primary key (tenant, kind)
);

comment on table ledger.watermark is
  'Completeness watermarks: everything expected of a kind before complete_before exists and is completed, '
  'explained or an open finding.';
comment on column ledger.watermark.blocked_by is 'What blocks the watermark.';
comment on column ledger.watermark.as_of is 'The moment on business time of the pass that computed it.';
comment on column ledger.watermark.first_as_of is 'When a pass computed it first: its age while nothing is complete.';
