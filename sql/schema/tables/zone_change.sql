create table ledger.zone_change (
  change_no bigint primary key,
  digest text,
  tzdata text not null,
  tzdata_before text[] not null default '{}',
  from_at timestamptz,
  opened_at timestamptz not null,
  closed_at timestamptz,
  actor_no integer not null references ledger.actor
);

comment on table ledger.zone_change is
  'tz changes: what a newer tz database changes of pending items, as previewed and then applied.';
comment on column ledger.zone_change.change_no is
  'Without gaps: one change at a time is written, and a preview takes no number.';
comment on column ledger.zone_change.digest is
  'Hash of all that it changes; null only in the transaction that writes it.';
comment on column ledger.zone_change.tzdata is 'The newer tz database.';
comment on column ledger.zone_change.tzdata_before is 'The tz databases that had placed the items.';
comment on column ledger.zone_change.from_at is 'Only items due from then on are changed; null: all.';

-- One change at a time is applied.
create unique index zone_change_open_idx on ledger.zone_change ((true)) where closed_at is null;

create table ledger.zone_change_part (
  change_no bigint not null references ledger.zone_change,
  definition_no bigint not null references ledger.definition,
  superseded_at timestamptz,
  failure text,
  applied_at timestamptz,
  items integer,
  overtaken boolean not null default false,
  primary key (change_no, definition_no)
);

comment on table ledger.zone_change_part is 'One version of a definition in a tz change; applied in one transaction.';
comment on column ledger.zone_change_part.superseded_at is
  'When the next version takes over, as it was at the preview.';
comment on column ledger.zone_change_part.failure is 'Why the version cannot be expanded.';
comment on column ledger.zone_change_part.items is 'How many of its steps took effect.';
comment on column ledger.zone_change_part.overtaken is
  'Whether another version was defined before it was applied; nothing of it took effect then.';

create table ledger.zone_change_step (
  change_no bigint not null,
  definition_no bigint not null,
  at timestamptz not null,
  id uuid not null,
  step text not null check (step in ('moved', 'withdrawn', 'skipped', 'added')),
  cycle text not null,
  zone text not null,
  due_at timestamptz,
  decision text,
  skip_reason text,
  tzdata_before text,
  draft jsonb,
  primary key (change_no, definition_no, at, id),
  foreign key (change_no, definition_no) references ledger.zone_change_part
);

comment on table ledger.zone_change_step is 'One item in a tz change. Append only.';
comment on column ledger.zone_change_step.at is 'When the item is due, or will be where it is added.';
comment on column ledger.zone_change_step.id is 'Id of the item.';
comment on column ledger.zone_change_step.due_at is 'When it is due after the change; null: it ends.';
comment on column ledger.zone_change_step.decision is 'Why due_at is not the nominal time: gap, fold or roll.';
comment on column ledger.zone_change_step.draft is 'The item to emit, where it is added.';
