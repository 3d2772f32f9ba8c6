-- Where what is expected and what the ledger has differ: one row an item, with the sum of the numbers of its differences.
-- Plain SQL, the same for every engine. Instants are microseconds since 1970, an absent one is null; ids are two integers.
-- expected: high, low, day, flow_no, owed (1 owed, 0 may exist), due, start_by, complete_by, definition_no, event_no, terms, payload
-- item:     high, low, day, flow_no, item_no, due, start_by, complete_by, definition_no, event_no, terms, payload, emitted, is_named
-- ending:   day, item_no, event, run_no, actor_no, at, is_excused
-- place:    day, item_no, place
-- flow:     flow_no, grace, from_definition, from_event, from_emitter (1: a source names all items of that origin)
-- moment:   as_of
with
  ended as (
    select day, item_no, count(*) as endings, min(event) as event, min(at) as at, max(run_no) as run_no,
      max(is_excused) as is_excused
    from ending
    group by day, item_no
  ),
  placed as (
    select day, item_no, count(*) as places
    from place
    group by day, item_no
  ),
  pairs as (
    select coalesce(x.high, i.high) as high, coalesce(x.low, i.low) as low, coalesce(x.day, i.day, e.day, p.day) as day,
      coalesce(i.item_no, e.item_no, p.item_no) as item_no, x.high is not null as is_expected, i.high is not null as exists,
      coalesce(x.flow_no, i.flow_no) as flow_no
    from expected x
    full outer join item i on i.high = x.high and i.low = x.low
  )
select 1
