-- The insurer's own tables. Dueledger's live in the schema `ledger` of the same database, so that a renewal
-- and the completion of what was due commit together.

create schema if not exists insurer;

create table insurer.policy (
  policy_number text primary key,
  region text not null,
  product text not null,
  term text not null,
  premium numeric(12, 2) not null,
  expires_on date not null,
  status text not null check (status in ('active', 'cancelled'))
);

-- What happened to policies, written with the policy and sent to Kafka from here, in this order.
create table insurer.outbox (
  event_no bigint primary key,
  wave text not null check (wave in ('book', 'changes')),
  event_id text not null unique,
  event_type text not null,
  policy_number text not null,
  occurred_at timestamptz not null,
  body text not null,
  copies int not null check (copies between 0 and 2)  -- 0: lost on purpose, 2: sent twice
);

create table insurer.renewal_issued (
  policy_number text not null references insurer.policy,
  term text not null,
  due_item uuid not null unique,
  premium numeric(12, 2) not null,
  primary key (policy_number, term)
);

create table insurer.premium_booked (
  policy_number text not null references insurer.policy,
  term text not null,
  due_item uuid not null,
  amount numeric(12, 2) not null,
  booked_by text not null check (booked_by in ('renewal', 'repair')),
  primary key (policy_number, term)
);

-- What goes wrong on purpose: an event that is never sent, a premium that is not booked with its renewal.
create table insurer.fault (
  policy_number text primary key references insurer.policy,
  fault text not null check (fault in ('event_lost', 'premium_not_booked'))
);
