-- Make schedules on the server, each in force from an instant on, with one of some `when`s in turn: the load of a benchmark.
-- returns: zero
-- roles: owner
-- $1 document jsonb
-- $2 whens jsonb[]
-- $3 prefix text
-- $4 first bigint
-- $5 count integer
-- $6 effective_from timestamptz
-- $7 actor_no bigint
-- index: none
-- locks: none
with made as (
  insert into ledger.definition (tenant, name, version, kind, document, effective_from, created_at, actor_no)
  select $1::jsonb ->> 'tenant', g.name, 1, $1::jsonb ->> 'kind',
    $1::jsonb || jsonb_build_object(
      'definition', g.name, 'business_key', g.name, 'when', ($2::jsonb[])[1 + g.n % cardinality($2::jsonb[])]),
    $6::timestamptz, ledger.now(), $7::bigint
  from (
    select n, $3::text || n as name from generate_series($4::bigint, $4::bigint + $5::integer - 1) n
  ) g
  returning definition_no
)
insert into ledger.materialised (definition_no, materialised_until)
select m.definition_no, $6::timestamptz from made m
