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

create table due_outbox.relay (
  name text primary key,
  sleeps_until timestamptz not null
);

comment on table due_outbox.relay is 'Relays that sleep. A statement that writes a row to carry notifies them.';

create function due_outbox.wake_relays() returns trigger
  language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
  -- Reads what is committed now, also where the statement began before a relay registered its sleep.
  perform from due_outbox.relay r where r.sleeps_until >= clock_timestamp();
  if found and coalesce(current_setting('due_outbox.wakes', true), '') <> 'off' then
    perform pg_notify('due_outbox', '');
  end if;
  return null;
end $$;

comment on function due_outbox.wake_relays is
  'Notify relays that sleep; those that are awake cost no notification. A transaction that is to be prepared (two-phase '
  'commit) may not notify: it sets due_outbox.wakes to off, and the next poll finds its rows.';

create trigger item_wakes_relays after insert or update of refused_at on due_outbox.item
  for each statement execute function due_outbox.wake_relays();
