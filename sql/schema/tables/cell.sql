create table ledger.cell (
  one_row boolean primary key default true,
  cell_no smallint not null,
  constraint cell_only_one check (one_row),
  constraint cell_no_range check (cell_no between 0 and 1022)
);

comment on table ledger.cell is
  'The number of this ledger among the ledgers that share topics, in one row. Given by `dueledger migrate`, once and for ever.';
comment on column ledger.cell.cell_no is
  'Each sequence begins at this times 2^43, or times 2^21 where it numbers integers: no two cells give the same number.';
