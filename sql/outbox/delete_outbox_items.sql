-- Delete rows that the ledger has. Those that another relay deleted are left out.
delete from due_outbox.item where outbox_no = any ($1::bigint[]) and refused_at is null
