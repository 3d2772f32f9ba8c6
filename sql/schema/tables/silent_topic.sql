create table ledger.silent_topic (
  topic text primary key,
  topic_actor_no bigint not null unique references ledger.actor,
  since timestamptz not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

comment on table ledger.silent_topic is
  'Topics with a run whose lease lapsed without any reported outcome. The next outcome deletes the row.';
comment on column ledger.silent_topic.topic_actor_no is 'Actor number under which the consumers of the topic settle.';
