-- Record until when a relay sleeps unless it is notified; return the number of the transaction that records it.
with forgotten as (
  delete from due_outbox.relay r where r.sleeps_until < clock_timestamp() - interval '1 day' and r.name <> $1::text
)
insert into due_outbox.relay as r (name, sleeps_until)
values ($1::text, clock_timestamp() + make_interval(secs => $2::double precision))
on conflict (name) do update set sleeps_until = excluded.sleeps_until
returning pg_current_xact_id()::text::bigint
