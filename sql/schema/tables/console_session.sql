create table ledger.console_session (
  id_digest bytea primary key,
  actor_no bigint not null references ledger.actor,
  key_no bigint references ledger.api_key,
  scopes text[],
  tenants text[],
  created_at timestamptz not null default ledger.machine_now(),
  expires_at timestamptz not null,
  constraint console_session_id_is_digest check (octet_length(id_digest) = 32),
  constraint console_session_has_rights check ((key_no is null) = (scopes is not null))
);

comment on table ledger.console_session is
  'Sessions of the console. One by an API key has the rights that the key has at each request, and ends with it. '
  'Upkeep deletes those that ended a day ago.';
comment on column ledger.console_session.id_digest is 'SHA-256 of what the cookie has, which nobody else keeps.';
comment on column ledger.console_session.key_no is 'The API key by which it was opened; null: by a token of the issuer.';
comment on column ledger.console_session.scopes is 'Of a token; those of a key are the key''s.';
comment on column ledger.console_session.tenants is 'Of a token; null: each. Those of a key are its actor''s.';
comment on column ledger.console_session.expires_at is 'When it ends, or ended.';

create index console_session_expires_idx on ledger.console_session (expires_at);
