-- List the rows that are committed and not refused, in the order written: at most $1, and 16 MiB of payloads or one row.
select r.*
from (
  select r.*, sum(octet_length(r.payload)) over (order by r.outbox_no) - octet_length(r.payload) as bytes_before
  from (
    select outbox_no, tenant, kind, lane, business_key, cycle, effective_date, due_at, payload::text as payload,
      partition_key, labels::text as labels, traceparent
    from due_outbox.item
    where refused_at is null
    order by outbox_no
    limit $1::integer
  ) r
) r
where r.bytes_before < 16777216
order by r.outbox_no
