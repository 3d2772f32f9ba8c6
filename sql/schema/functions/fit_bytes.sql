-- A function, because the months of these items are known only while a statement runs, and few statements ask.
create function ledger.fit_bytes(tids tid[], bytes_max bigint) returns tid[]
  language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
  fitting tid[] := '{}';
  bytes bigint := 0;
  found record;
begin
  for found in
    select u.tid, i.bytes
    from unnest(tids) u (tid)
    cross join lateral (select p.effective_date, p.item_no from ledger.pending p where p.ctid = u.tid offset 0) p
    cross join lateral (
      select octet_length(i.payload::text) as bytes
      from ledger.due_item i where i.effective_date = p.effective_date and i.item_no = p.item_no offset 0
    ) i
  loop
    bytes := bytes + found.bytes;
    exit when bytes > bytes_max;
    fitting := fitting || found.tid;
  end loop;
  return fitting;
end $$;

comment on function ledger.fit_bytes is
  'The first of these rows of pending whose payloads have so many bytes together. No others are read.';
