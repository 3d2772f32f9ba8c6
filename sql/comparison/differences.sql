-- Hold what is expected against what a ledger has: one row for each pair, with the sum of the numbers of its differences.
-- Plain SQL, with the same answers on every engine. All columns are bigint. Instants are microseconds since 2000-01-01 UTC,
-- days are numbers of one calendar; what is absent is -9223372036854775808 (an instant) or -1 (a number). The two halves of an
-- item's id are high and low. The columns terms, payload and key are digests, which are only compared for equality: the program that
-- makes the tables takes a function of its own for them, the same on both sides. Each is of one text of an item:
--
-- terms:    business_key, cycle, partition_key, labels, nominal, zone, decision, lane, overlap (null where it waits), payload,
--           start_by, complete_by and smear_seconds, none left out: null is no empty text
-- payload:  the payload with the members of its objects in order
-- key:      flow and business_key
--
-- expected: high, low, day, kind, due, terms, definition, event, payload, start_by, complete_by (what a source outside the ledger
--           says of these alone; -1: it does not), is_asserted (1: such a source names it), is_plain (0: what is owed depends on
--           more than this row), is_repeated. One row for each source that names the item.
-- item:     high, low, day, item_no, flow, due, start_by, complete_by, emitted, definition, event, key, terms, payload,
--           is_named (1: its id is its row's)
-- ending:   day, item_no, event, ended_at, is_repeated
-- place:    item_no: once for each place where an item is that has not ended
-- flow:     flow, kind, grace (microseconds), is_single (1: a source owes one item for a key and day), needs_evidence
-- moment:   as_of
--
-- is_repeated is 0 where the table has no other row of the item, else 1. A table may have 1 everywhere: then all rows are grouped,
-- which takes as long as the rest.
--
--    1 missing: expected, and there is no item           64 not in exactly one state: it waits, is held, is parked, or has ended
--    2 no source names it, and one may have to          128 completed before it was due, or before it was emitted
--    4 under another key, day or kind than expected     256 ended, and not by being completed
--    8 due at another time                              512 open, and due
--   16 other terms, definition or event                1024 completed late
--   32 what is owed depends on more than one row       2048 completed, and that needs evidence
-- 4096 emitted or ended later than the moment          8192 an ending without an item
with
  owed as (
    select high, low, max(day) as day, max(kind) as kind, min(is_plain) as is_plain, count(*) - sum(is_asserted) as naming,
      max(case when is_asserted = 0 then due end) as named_due, max(due) as due,
      max(case when is_asserted = 0 then terms end) as terms,
      max(case when is_asserted = 0 then definition end) as definition,
      max(case when is_asserted = 0 then event end) as event,
      max(payload) as payload, max(start_by) as start_by, max(complete_by) as complete_by
    from expected
    where is_repeated <> 0
    group by high, low
    union all
    select high, low, day, kind, is_plain, 1 - is_asserted as naming, case when is_asserted = 0 then due end as named_due, due,
      case when is_asserted = 0 then terms end as terms, case when is_asserted = 0 then definition end as definition,
      case when is_asserted = 0 then event end as event, payload, start_by, complete_by
    from expected
    where is_repeated = 0
  ),
  ended as (
    select day, item_no, count(*) as endings, min(event) as event, min(ended_at) as ended_at
    from ending
    where is_repeated <> 0
    group by day, item_no
    union all
    select day, item_no, 1 as endings, event, ended_at
    from ending
    where is_repeated = 0
  ),
  placed as (
    select item_no, count(*) as places
    from place
    group by item_no
  ),
  pair as (
    select coalesce(x.high, i.high) as high, coalesce(x.low, i.low) as low, coalesce(i.day, x.day) as day, i.item_no, i.flow,
      i.key, i.due, x.high as owed_high, x.naming, x.is_plain, coalesce(x.named_due, x.due) as owed_due, x.day as owed_day,
      x.kind as owed_kind, x.terms as owed_terms, x.definition as owed_definition, x.event as owed_event, i.terms, i.definition,
      i.event, i.emitted, i.start_by, i.complete_by, i.payload, i.is_named, x.payload as owed_payload, x.start_by as owed_start_by,
      x.complete_by as owed_complete_by
    from owed x
    full outer join item i on i.high = x.high and i.low = x.low
  )
select coalesce(p.high, 0) as high, coalesce(p.low, 0) as low, coalesce(p.day, e.day) as day,
  coalesce(p.item_no, e.item_no, -1) as item_no, coalesce(p.flow, -1) as flow, coalesce(p.key, 0) as key,
  coalesce(p.due, p.owed_due, 0) as due, case when p.owed_high is null then 0 else 1 end as is_owed,
  case when p.naming > 0 or (p.owed_payload <> -1 and p.owed_start_by <> -1 and p.owed_complete_by <> -1) then 1 else 0 end as has_terms,
  coalesce(e.event, 0) as ending, coalesce(e.ended_at, -1) as ended,
  case when p.high is null then 8192
  when p.item_no is null then 1 + case when p.is_plain = 0 or p.naming > 1 then 32 else 0 end
  else
    case
      when p.owed_high is not null then
        case when p.is_named = 0 or p.owed_day <> p.day or p.owed_kind <> f.kind then 4 else 0 end
        + case when p.owed_due <> p.due then 8 else 0 end
        + case
            when p.naming = 0 then
              case
                when p.owed_payload <> -1 and p.owed_payload <> p.payload then 16
                when p.owed_start_by <> -1 and p.owed_start_by <> p.start_by then 16
                when p.owed_complete_by <> -1 and p.owed_complete_by <> p.complete_by then 16
                else 0
              end
            when p.owed_terms <> p.terms or p.owed_definition <> p.definition or p.owed_event <> p.event then 16
            else 0
          end
        + case when p.is_plain = 0 or p.naming > 1 then 32 else 0 end
      else
        case when p.definition <> -1 or p.event <> -1 or f.is_single = 1 then 2 else 0 end
        + case when p.is_named = 0 then 4 else 0 end
    end
    + case when coalesce(e.endings, 0) + coalesce(s.places, 0) <> 1 then 64 else 0 end
    + case when e.event = 5 and (e.ended_at < p.due or e.ended_at < p.emitted) then 128 else 0 end
    + case when e.event <> 5 then 256 else 0 end
    + case when e.event is null and p.due <= m.as_of then 512 else 0 end
    + case
        when e.event = 5 and e.ended_at > case when p.complete_by > -9223372036854775807 then p.complete_by else p.due + f.grace end
        then 1024
        else 0
      end
    + case when e.event = 5 and f.needs_evidence = 1 then 2048 else 0 end
    + case when p.emitted > m.as_of or e.ended_at > m.as_of then 4096 else 0 end
  end as differences
from pair p
cross join moment m
left join flow f on f.flow = p.flow
left join placed s on s.item_no = p.item_no
full outer join ended e on e.day = p.day and e.item_no = p.item_no
