-- Record that the topics of these actors are no longer silent: an outcome of one of their items was reported.
-- returns: zero
-- roles: outcome_intake, pull_worker
-- $1 topic_actor_nos bigint[]
-- index: silent_topic_topic_actor_no_key
-- locks: silent_topic rows (for update, topic_actor_no ascending)
delete from ledger.silent_topic s
where s.topic_actor_no = any (array(
  select q.topic_actor_no from ledger.silent_topic q where q.topic_actor_no = any ($1::bigint[]) order by q.topic_actor_no for update))
