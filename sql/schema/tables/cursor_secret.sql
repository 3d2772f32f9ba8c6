create table ledger.cursor_secret (
  one_row boolean primary key default true,
  -- 244 random bits: no extension is needed.
  secret bytea not null default sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())),
  constraint cursor_secret_only_one check (one_row),
  constraint cursor_secret_length check (octet_length(secret) = 32)
);

comment on table ledger.cursor_secret is
  'The key under which processes of the service seal the cursors of lists, in one row: each opens those of the others.';

insert into ledger.cursor_secret default values;
