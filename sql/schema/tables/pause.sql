create table ledger.pause (
  pause_no integer generated always as identity primary key,
  tenant text not null,
  kind text,
  lane text,
  paused_at timestamptz not null,
  actor_no bigint not null references ledger.actor,
  reason text not null,
  resumed_at timestamptz,
  resumed_by bigint references ledger.actor,
  paused_until timestamptz
);

comment on table ledger.pause is
  'Pauses by tenant, kind and lane. A flow made while one is in force is paused from the start.';
comment on column ledger.pause.kind is 'Null: all kinds of the tenant.';
comment on column ledger.pause.lane is 'Null: all lanes of the kind.';
comment on column ledger.pause.resumed_at is 'When the pause ended; null while it is in force.';
comment on column ledger.pause.resumed_by is 'Null, too, of a pause that ended by its own end.';
comment on column ledger.pause.paused_until is
  'Its own end, at which upkeep ends it; null: a person ends it.';

create unique index pause_in_force_idx on ledger.pause (tenant, kind, lane) nulls not distinct
  where resumed_at is null;
