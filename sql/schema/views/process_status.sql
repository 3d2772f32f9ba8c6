-- A process holds an advisory lock on a connection of its own for as long as it lives: the server releases the lock when
-- the connection ends. On another server, or after a restart, a missing lock proves nothing until the process takes it.
create function ledger.process_key(process_no bigint, out class integer, out key integer)
  language sql immutable parallel safe
begin atomic
  select 1684828269, (process_no & 2147483647)::integer;  -- the first is the letters dlpm: other programs use others
end;

comment on function ledger.process_key is 'The two numbers of the advisory lock of a process.';

create view ledger.process_status as
  select p.process_no, a.name, p.role, p.host, p.version, p.started_at, p.seen_at, p.ended_at,
    case
      when p.ended_at is not null then 'ended'
      when p.locked_on = pg_postmaster_start_time() and l.pid is null then 'gone'
      when p.seen_at >= ledger.machine_now() - interval '15 seconds' then 'live'
      when l.pid is not null then 'silent'
      else 'gone'
    end as status,
    p.kinds, p.kind_tenants, p.failing_since, p.failure, p.failed_service, p.unavailable_topics,
    coalesce(p.does_upkeep, p.role in ('allocator', 'direct_worker')) as does_upkeep,
    p.certificate_expires_at, p.drains, p.drain_asked_at, d.name as drain_asked_by, p.drain_reason, p.draining_since,
    p.ticked_at, p.tick_seconds, p.outbox_items
  from ledger.process p
  join ledger.actor a on a.actor_no = p.process_no
  left join ledger.actor d on d.actor_no = p.drain_asked_by
  cross join lateral ledger.process_key(p.process_no) k
  left join pg_locks l on l.locktype = 'advisory' and l.classid::bigint = k.class and l.objid::bigint = k.key
    and l.objsubid = 2 and l.granted
    and l.database = (select d.oid from pg_database d where d.datname = current_database());

comment on view ledger.process_status is
  'Processes with their status. live: it renews its row; silent: it holds its lock and has not renewed its row for 15 s, '
  'as a stopped process or one whose network is cut; gone: it was killed or lost its connection; ended: it stopped.';
