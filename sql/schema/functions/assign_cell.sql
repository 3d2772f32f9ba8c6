-- Called at the end of each migration: sequences are found in the catalog, so that none is forgotten.
create function ledger.assign_cell(wanted integer) returns smallint
  language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
  cell smallint;
  command text;
begin
  insert into ledger.cell (cell_no) select coalesce(wanted, 0) where not exists (select from ledger.cell);
  select c.cell_no into strict cell from ledger.cell c;
  for command in
    select format('alter sequence %s minvalue %s maxvalue %s start %2$s', w.seqrelid::regclass, w.seqmin, w.seqmax)
      || case when w.seqmin > w.seqstart then format(' restart %s', w.seqmin) else '' end
    from (
      select s.seqrelid, s.seqstart, greatest(cell * b.width, 1) as seqmin, (cell + 1) * b.width - 1 as seqmax
      from pg_sequence s
      join pg_class c on c.oid = s.seqrelid and c.relnamespace = 'ledger'::regnamespace and c.relname <> 'sleep_until'
      join (values ('bigint'::regtype, 1::bigint << 43), ('integer', 1::bigint << 21)) b (type, width) on b.type = s.seqtypid
    ) w
    join pg_sequence s on s.seqrelid = w.seqrelid and (s.seqmin, s.seqmax) <> (w.seqmin, w.seqmax)
    order by w.seqrelid
  loop
    execute command;
  end loop;
  return cell;
end $$;

comment on function ledger.assign_cell is
  'Make each sequence begin and end within the stripe of the cell. The first call decides the cell; returns it.';
