-- Not strict: Postgres inlines no strict function with a CASE.
create function ledger.partition_start(day date) returns date
  language sql immutable parallel safe
  return case
    when day >= date '2020-01-01' and day < date '2050-01-01' then date_trunc('month', day::timestamp)::date
    else date_trunc('year', day::timestamp)::date
  end;

comment on function ledger.partition_start is
  'First day of the table partition that holds a date: of its month from 2020 to 2049, else of its year.';

create function ledger.partition_end(day date) returns date
  language sql immutable strict parallel safe
  return (ledger.partition_start(day)
    + case when day >= date '2020-01-01' and day < date '2050-01-01' then interval '1 month' else interval '1 year' end)::date;

comment on function ledger.partition_end is 'First day after the table partition that holds a date.';

create function ledger.partition_name(parent text, day date) returns text
  language sql stable strict parallel safe
  return parent || case
    when day >= date '2020-01-01' and day < date '2050-01-01' then to_char(day::timestamp, '_YYYYMM')
    else to_char(day::timestamp, '_YYYY')
  end;

comment on function ledger.partition_name is
  'Name of the table partition that holds a date, whether or not it exists. One of items that was dropped and made again has '
  'another, so that of the items of this one no key is retired.';
