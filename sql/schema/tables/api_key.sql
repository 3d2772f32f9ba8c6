create table ledger.api_key (
  key_no bigint generated always as identity primary key,
  prefix text not null unique,
  secret_digest bytea not null,
  actor_no bigint not null references ledger.actor,
  scopes text[] not null,
  created_at timestamptz not null default statement_timestamp(),
  created_by bigint not null references ledger.actor,
  expires_at timestamptz,
  last_used_at timestamptz,
  revoked_at timestamptz,
  revoked_by bigint references ledger.actor,
  rate_per_second double precision,
  rate_burst integer,
  constraint api_key_secret_is_digest check (octet_length(secret_digest) = 32),
  constraint api_key_scopes_known check (
    cardinality(scopes) > 0
    and scopes <@ array['read', 'emit', 'work', 'operate', 'approve', 'audit', 'admin']),
  constraint api_key_rate_range check (
    (rate_per_second is null) = (rate_burst is null) and rate_per_second > 0 and rate_per_second <= 100000
    and rate_burst between 1 and 1000000)
);

comment on table ledger.api_key is
  'Keys of the REST interface. Several keys may be one actor, as while one replaces another.';
comment on column ledger.api_key.prefix is 'First part of the key, by which it is found; no secret.';
comment on column ledger.api_key.secret_digest is 'SHA-256 of the whole key, which nobody else keeps.';
comment on column ledger.api_key.actor_no is 'Who writes with it; the actor has its name and its tenants.';
comment on column ledger.api_key.rate_per_second is
  'Requests a second that a process takes, after a burst of rate_burst; null: as its settings say.';
comment on column ledger.api_key.last_used_at is 'When it was last used, to the minute.';

-- In an order that no other index has, as in operation.
create index api_key_actor_idx on ledger.api_key (actor_no, (-key_no));
