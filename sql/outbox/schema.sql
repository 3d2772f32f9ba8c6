-- The outbox of a service with a database of its own: copy it into the service's migrations. The service inserts rows in its
-- own transactions; `dueledger relay` carries what is committed to the ledger, and deletes it.
create schema due_outbox;

create table due_outbox.item (
  outbox_no bigint generated always as identity primary key,
  tenant text not null,
  kind text not null,
  business_key text not null,
  effective_date date not null,
  due_at timestamptz not null,
  payload json not null default '{}',
  cycle text not null default '',
  lane text not null default '',
  partition_key text,
  labels jsonb,
  traceparent text,
  written_at timestamptz not null default now(),
  refused_at timestamptz,
  refusal text,
  constraint item_refusal_given check ((refused_at is null) = (refusal is null))
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

comment on table due_outbox.item is 'Items that the ledger does not have yet, and those that it refused.';
comment on column due_outbox.item.refused_at is
  'When the ledger refused the row. Correct it and set this and refusal to null, and it is carried again; or delete it.';
comment on column due_outbox.item.refusal is 'Why the ledger refused the row.';

create index item_waiting_idx on due_outbox.item (outbox_no) where refused_at is null;
