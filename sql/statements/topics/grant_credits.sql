-- Grant a worker's credit for each topic that it consumes; end its grants for other topics.
-- returns: zero
-- roles: worker
-- $1 worker_no bigint
-- $2 topics text[]
-- $3 items integer[]
-- $4 seconds double precision
-- index: credit_worker_idx, credit_pkey
-- locks: credit rows of this worker
with gone as (
  delete from ledger.credit c where c.worker_no = $1::bigint and c.topic <> all ($2::text[])
)
insert into ledger.credit as c (topic, worker_no, items, granted_until)
select u.topic, $1::bigint, u.items, ledger.machine_now() + make_interval(secs => $4::double precision)
from unnest($2::text[], $3::integer[]) u (topic, items)
order by u.topic
on conflict (topic, worker_no) do update set items = excluded.items, granted_until = excluded.granted_until
