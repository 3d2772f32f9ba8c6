-- Functions, because a plan locks every month of each table that it names, even where it reads none of it, and opens each that
-- no parameter excludes: a function has the time of what it looks up as a parameter.
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

-- A role that may not see tokens may ask whether one is a claim's own: nobody guesses 64 random bits.
create function ledger.has_token(fence bigint, claimed_at timestamptz, token text) returns boolean
  language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
begin
  return exists (
    select from ledger.claim c
    where c.fence = has_token.fence and c.claimed_at = has_token.claimed_at and c.token = has_token.token);
end $$;

comment on function ledger.has_token is 'Whether a claim has this token.';
revoke execute on function ledger.has_token from public;

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

create function ledger.find_topic_run(
  fence bigint, started_at timestamptz, topic_actor_no bigint,
  out run_no bigint, out from_position integer, out to_position integer, out ended bit varying,
  out lease_seconds double precision, out closed_at timestamptz
)
  language plpgsql stable strict set search_path = pg_catalog, pg_temp
as $$
begin
  select r.run_no, r.from_position, r.to_position, r.ended, r.lease_seconds, r.closed_at
  into run_no, from_position, to_position, ended, lease_seconds, closed_at
  from ledger.run r
  where r.fence = find_topic_run.fence and r.started_at = find_topic_run.started_at
    and r.worker_no = find_topic_run.topic_actor_no;
end $$;

comment on function ledger.find_topic_run is 'The run of a claim that is settled by topic; nulls where there is none.';

create function ledger.find_published_claim(
  fence bigint, claimed_at timestamptz,
  out allocator_no bigint, out item_no bigint[], out attempt smallint[], out topic text, out partition integer,
  out base_offset bigint, out published_at timestamptz
)
  language plpgsql stable strict set search_path = pg_catalog, pg_temp
as $$
begin
  select c.allocator_no, c.item_no, c.attempt, c.topic, c.partition, c.base_offset, c.published_at
  into allocator_no, item_no, attempt, topic, partition, base_offset, published_at
  from ledger.claim c
  where c.fence = find_published_claim.fence and c.claimed_at = find_published_claim.claimed_at;
end $$;

comment on function ledger.find_published_claim is
  'The items of a claim and where they were published; nulls where there is no such claim. Its token is for workers alone.';

create function ledger.list_runs(run_nos bigint[], first_started_at timestamptz, last_started_at timestamptz)
  returns table (
    run_no bigint, started_at timestamptz, fence bigint, claimed_at timestamptz, from_position integer, to_position integer,
    worker_no bigint, ended bit varying, closed_at timestamptz
  )
  language plpgsql stable rows 10 set search_path = pg_catalog, pg_temp
as $$
declare
  runs integer;
begin
  return query
  select r.run_no, r.started_at, r.fence, r.claimed_at, r.from_position, r.to_position, r.worker_no, r.ended, r.closed_at
  from ledger.run r
  where r.run_no = any (run_nos) and r.started_at between first_started_at and last_started_at;
  get diagnostics runs = row_count;
  if runs < cardinality(run_nos) then
    return query
    select r.run_no, r.started_at, r.fence, r.claimed_at, r.from_position, r.to_position, r.worker_no, r.ended, r.closed_at
    from ledger.run r
    where r.run_no = any (run_nos) and (r.started_at < first_started_at or r.started_at > last_started_at);
  end if;
end $$;

comment on function ledger.list_runs is
  'Runs, looked for at these times first, and at all others only where one is missing.';
