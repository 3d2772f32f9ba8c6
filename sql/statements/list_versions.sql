-- List every version of the definitions that were in force at some time of a window, with the span each was in force.
-- returns: zero or more
-- $1 from_at timestamptz
-- $2 to_at timestamptz
-- index: none
-- locks: none
select * from (
  select d.definition_no, d.tenant, d.name, d.version, d.kind, d.event_type, d.document, d.effective_from,
    lead(d.effective_from) over (partition by d.tenant, d.name order by d.effective_from, d.version) as superseded_at
  from ledger.definition d
) d
where d.effective_from < $2::timestamptz and (d.superseded_at is null or d.superseded_at > $1::timestamptz)
order by d.tenant, d.name, d.version
