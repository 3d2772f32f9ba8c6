-- Record that a relay is awake: nobody notifies it.
delete from due_outbox.relay where name = $1::text
