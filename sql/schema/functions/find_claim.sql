-- Functions, because a plan locks every month of each table that it names, even where it reads none of it: a start and a
-- settlement look these up only where they refuse.
create function ledger.find_claim(
  fence bigint, claimed_at timestamptz, token text,
  out size integer, out started integer, out closed_at timestamptz, out topic_actor_no bigint, out partition integer, out allocator_no bigint
)
  language plpgsql stable strict set search_path = pg_catalog, pg_temp
as $$
begin
  select c.size, c.started, c.closed_at, c.topic_actor_no, c.partition, c.allocator_no
  into size, started, closed_at, topic_actor_no, partition, allocator_no
  from ledger.claim c
  where c.fence = find_claim.fence and c.claimed_at = find_claim.claimed_at and c.token = find_claim.token;
end $$;

comment on function ledger.find_claim is 'The claim with this id; nulls where there is none.';

create function ledger.has_claim(fence bigint) returns boolean
  language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
begin
  return exists (select from ledger.claim c where c.fence = has_claim.fence);
end $$;

comment on function ledger.has_claim is 'Whether a claim has this fence, whenever it was claimed.';

create function ledger.find_run(
  run_no bigint, started_at timestamptz,
  out fence bigint, out claimed_at timestamptz, out from_position integer, out to_position integer, out worker_no bigint,
  out ended bit varying, out closed_at timestamptz
)
  language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
begin
  select r.fence, r.claimed_at, r.from_position, r.to_position, r.worker_no, r.ended, r.closed_at
  into fence, claimed_at, from_position, to_position, worker_no, ended, closed_at
  from ledger.run r
  where r.run_no = find_run.run_no and r.started_at = find_run.started_at;
end $$;

comment on function ledger.find_run is 'The run with this number and start; nulls where there is none.';
