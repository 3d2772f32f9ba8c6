create table ledger.api_answer (
  actor_no bigint not null references ledger.actor,
  idempotency_key text not null,
  request_digest bytea not null,
  answered_at timestamptz not null default ledger.machine_now(),
  status smallint,
  body text,
  location text,
  primary key (actor_no, idempotency_key),
  constraint api_answer_key_length check (char_length(idempotency_key) between 1 and 200)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

comment on table ledger.api_answer is
  'Answers to requests with an Idempotency-Key, written with the effect of the request. Repeated, it gets the answer again. '
  'Upkeep deletes them after a day.';
comment on column ledger.api_answer.request_digest is 'SHA-256 of method, address and body.';
comment on column ledger.api_answer.location is 'The header Location of the answer, as of an operation that was accepted.';
comment on column ledger.api_answer.status is 'Status of HTTP; null only within the transaction that answers.';

create index api_answer_answered_at_idx on ledger.api_answer (answered_at);
