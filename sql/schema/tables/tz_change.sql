create table ledger.tz_change (
  change_no bigint primary key,
  digest text not null,
  tzdata text not null,
  tzdata_before text[] not null,
  from_at timestamptz,
  opened_at timestamptz not null,
  actor_no bigint not null references ledger.actor
);

comment on table ledger.tz_change is
  'tz changes: what a newer tz database changes of pending items, as previewed and then applied. A change is open until '
  'each of its versions is applied.';
comment on column ledger.tz_change.change_no is
  'Without gaps: one change at a time is written, and a preview takes no number.';
comment on column ledger.tz_change.digest is 'Hash of all that it changes.';
comment on column ledger.tz_change.tzdata is 'The newer tz database.';
comment on column ledger.tz_change.tzdata_before is 'The tz databases that had placed the items.';
comment on column ledger.tz_change.from_at is 'Only items due from then on are changed; null: all.';

create table ledger.tz_change_version (
  -- Deferred: the digest of a change is known when its versions are written.
  change_no bigint not null references ledger.tz_change deferrable initially deferred,
  definition_no bigint not null references ledger.definition,
  page integer not null,
  superseded_at timestamptz,
  failure text,
  steps jsonb not null,
  applied_at timestamptz,
  items integer,
  superseded boolean not null default false,
  primary key (change_no, definition_no, page)
);

comment on table ledger.tz_change_version is
  'One version of a definition in a tz change, in pages of steps; all pages are applied in one transaction.';
comment on column ledger.tz_change_version.superseded_at is
  'When the next version takes over, as it was at the preview.';
comment on column ledger.tz_change_version.failure is 'Why the version cannot be expanded.';
comment on column ledger.tz_change_version.steps is
  'What becomes of each item: moved, withdrawn, skipped, or added, with the item to emit.';
comment on column ledger.tz_change_version.items is 'How many steps of the version took effect; the same on each page.';
comment on column ledger.tz_change_version.superseded is
  'Whether another version was defined before it was applied; nothing of it took effect then.';
