-- List the names of workers whose lock has been missing for two seconds: they were killed, or lost their connection.
-- returns: zero or more
-- roles: worker
-- $1 limit integer
-- index: none
-- locks: none
select s.name
from ledger.process p
join ledger.process_status s on s.process_no = p.process_no
where p.role = 'worker' and p.ended_at is null and s.status = 'gone'
  and p.locked_on = pg_postmaster_start_time() and p.unlocked_at <= ledger.machine_now() - interval '2 seconds'
order by p.unlocked_at desc
limit $1::integer
