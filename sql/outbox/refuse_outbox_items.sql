-- Mark rows that the ledger refused, by number, with its reasons.
update due_outbox.item o set refused_at = now(), refusal = u.reason
from unnest($1::bigint[], $2::text[]) u (outbox_no, reason)
where o.outbox_no = u.outbox_no and o.refused_at is null
