"""Edits of what has the state of an item: pending, review, held keys, claims, runs, journal."""

from typing import Final

from dueledger.ledger.finding_types import FindingType

from .edit import ENDING, ITEM, KEY, Edit, Mending, edit, set_ending, set_pending
from .edits_of_items import (
    DELETE_ITEM,
    DELETE_PENDING,
    NOTICES,
    PREMIUMS,
    REMINDERS,
    RENEWALS,
    STATEMENTS,
)

UNBALANCED: Final = FindingType.UNBALANCED
UNEXCUSED: Final = FindingType.UNEXCUSED
PREMATURE: Final = FindingType.PREMATURE
CONFLICT: Final = FindingType.OUTCOME_CONFLICT
ORPHAN: Final = FindingType.ORPHAN_RECORD

WAITING_NOTICES: Final = "kind = 'Notice' and state = 'waiting'"
LETTERS: Final = "kind like 'Letter%' and state = 'completed' and not by_kafka"
LETTERS_BY_KAFKA: Final = "kind like 'Letter%' and state = 'completed' and by_kafka"
CLAIMS: Final = (
    "by_kafka and state = 'completed'"
    " and fence not in (select fence from damage.target where is_taken and fence is not null)"
)

ADD_PENDING: Final = """
insert into ledger.pending (item_no, effective_date, flow_no, available_at)
select item_no, effective_date, flow_no, due_at from ledger.due_item where item_no = $1
"""
ADD_REVIEW: Final = """
insert into ledger.review
  (item_no, effective_date, flow_no, parked_at, attempt, starts, reason, actor_no)
select item_no, effective_date, flow_no, ledger.now(), 0, 1, 'edited', 1
from ledger.due_item where item_no = $1
"""
HOLD_KEY: Final = """
insert into ledger.held_key select -item_no, item_no, effective_date, flow_no, ledger.now()
from ledger.due_item where item_no = $1
"""
HOLD_OTHER_KEY: Final = """
insert into ledger.held_key
select i.serial + i.item_no, i.item_no, i.effective_date, i.flow_no, ledger.now()
from ledger.due_item i where i.item_no = $1
"""
HOLD_FOR_NONE: Final = """
insert into ledger.held_key
select 1000000000 + $1::bigint, 1000000000 + $1::bigint, current_date, 1, ledger.now()
"""
DELETE_ENDING: Final = (
    "delete from ledger.transition where item_no = $1 and event in (5, 11, 12, 13, 14)"
)
END_AGAIN: Final = """
insert into ledger.transition
  (effective_date, event, attempt, item_no, run_no, actor_no, at, detail)
select effective_date + 1, event, attempt, item_no, run_no, actor_no, at, detail
from ledger.transition where item_no = $1 and event = 5
"""
END_WAITING: Final = """
insert into ledger.transition (effective_date, event, attempt, item_no, actor_no, at, detail)
select effective_date, 11, 0, item_no,
  (select actor_no from ledger.actor where kind = 'person' limit 1), ledger.now(),
  '{"reason":"sold"}'
from ledger.due_item where item_no = $1
"""
FAIL_AGAIN: Final = """
insert into ledger.transition
  (effective_date, event, attempt, item_no, run_no, actor_no, at, detail)
select effective_date, 6 /* failed */, attempt, item_no, {run_no}, actor_no, at,
  '{{"reason":"busy"}}'
from ledger.transition where item_no = $1 and event = 5 /* completed */
"""
OF_FAILED: Final = """
kind = 'Notice' and item_no in (select t.item_no from ledger.transition t where t.event = 6)
"""
REOPEN_IN_RUN: Final = """
update ledger.run r
set ended = set_bit(r.ended, array_position(c.item_no, $1::bigint) - r.from_position, 0),
  closed_at = null
from ledger.claim c
where c.fence = r.fence and c.claimed_at = r.claimed_at and $1::bigint = any (c.item_no)
"""
OF_RUN: Final = """
select i.id::text
from ledger.transition t
join ledger.transition o on o.run_no = t.run_no and o.event = 5 /* completed */
join ledger.due_item i on i.item_no = o.item_no and i.effective_date = o.effective_date
where t.item_no = $1 and t.event = 5 /* completed */
"""
OF_CLAIM: Final = """
select i.id::text
from ledger.claim c
cross join lateral unnest(c.item_no) u (item_no)
join ledger.transition o on o.item_no = u.item_no and o.event = 5 /* completed */
join ledger.due_item i on i.item_no = o.item_no and i.effective_date = o.effective_date
where $1::bigint = any (c.item_no)
"""
RECORDS: Final = """
select 'record:' || topic || '/' || partition || '/' || base_offset
from ledger.claim where $1::bigint = any (item_no)
"""
CLAIM: Final = "select 'records:' || fence from ledger.claim where $1::bigint = any (item_no)"
SWAP_ITEMS: Final = """
update ledger.claim set item_no = item_no[2:2] || item_no[1:1] || item_no[3:],
  effective_date = effective_date[2:2] || effective_date[1:1] || effective_date[3:]
where $1::bigint = any (item_no)
"""
DELETE_RUN: Final = """
delete from ledger.run r using ledger.transition t
where t.item_no = $1 and t.event = 5 /* completed */ and r.run_no = t.run_no
"""
MOVE_CLAIM: Final = """
update ledger.claim set base_offset = base_offset + 100000 where $1::bigint = any (item_no)
"""
DELETE_CLAIM: Final = "delete from ledger.claim where $1::bigint = any (item_no)"
OTHER_WORKER: Final = (
    "actor_no = (select actor_no from ledger.actor where kind = 'service' limit 1)"
)
REWRITTEN: Final = (
    "event = {event}, detail = jsonb_build_object('reason', '{reason}'),"
    " actor_no = (select min(actor_no) from ledger.actor where kind = '{by}')"
)


def _rewritten(event: int, reason: str, by: str) -> str:
    return set_ending(REWRITTEN.format(event=event, reason=reason, by=by))


EDITS_OF_STATES: Final = (
    # Where an item waits
    edit("pending removed", WAITING_NOTICES, DELETE_PENDING, UNBALANCED),
    edit("pending added to finished items", NOTICES, ADD_PENDING, UNBALANCED),
    edit("parked and completed", RENEWALS, ADD_REVIEW, UNBALANCED),
    edit("parked and waiting", WAITING_NOTICES, ADD_REVIEW, UNBALANCED),
    edit(
        "review removed",
        "state = 'parked'",
        "delete from ledger.review where item_no = $1",
        UNBALANCED,
    ),
    edit(
        "the key of a finished item held",
        PREMIUMS,
        HOLD_KEY,
        FindingType.HELD_KEY,
        KEY,
        mending=Mending.REPAIR,
    ),
    edit(
        "another key held for an item that waits",
        "kind = 'Sweep' and state = 'waiting'",
        HOLD_OTHER_KEY,
        FindingType.HELD_KEY,
        KEY,
    ),
    edit(
        "a key held for an item that does not exist",
        PREMIUMS,
        HOLD_FOR_NONE,
        FindingType.HELD_KEY,
        "select 'key:' || 1000000000 + $1::bigint",
        mending=Mending.REPAIR,
    ),
    edit(
        "available in 2199",
        WAITING_NOTICES,
        set_pending("available_at = '2199-01-01'"),
        FindingType.WRONG_DATE,
    ),
    edit(
        "never available",
        WAITING_NOTICES,
        set_pending("available_at = 'infinity'"),
        FindingType.WRONG_DATE,
    ),
    edit(
        "snoozed by nobody",
        WAITING_NOTICES,
        set_pending("snoozed_until = '2199-01-01'"),
        FindingType.WRONG_DATE,
    ),
    edit(
        "waiting in another flow",
        "kind = 'Premium' and state = 'waiting'",
        set_pending("flow_no = (select min(flow_no) from ledger.flow)"),
        FindingType.TAMPERED,
    ),
    edit(
        "waiting by a key of its own",
        WAITING_NOTICES,
        set_pending("serial = 4711, serial_due_at = available_at, overlap = 1"),
        FindingType.TAMPERED,
    ),
    edit(
        "parked in another flow",
        "state = 'parked'",
        "update ledger.review set flow_no = flow_no + 1 where item_no = $1",
        FindingType.TAMPERED,
    ),
    # What ended it
    edit("an ending removed", RENEWALS, DELETE_ENDING, UNBALANCED),
    edit("an ending added", WAITING_NOTICES, END_WAITING, UNBALANCED),
    edit("an ending under another date", NOTICES, END_AGAIN, UNBALANCED, ENDING),
    edit(
        "completed to cancelled, for an invented reason",
        RENEWALS,
        _rewritten(11, "sold", "worker"),
        UNEXCUSED,
    ),
    edit(
        "completed to cancelled, in the name of a person, in its run",
        RENEWALS,
        _rewritten(11, "sold", "person"),
        UNEXCUSED,
    ),
    edit(
        "completed to written off, in the name of a person, outside of its run",
        RENEWALS,
        set_ending(REWRITTEN.format(event=14, reason="sold", by="person") + ", run_no = null"),
        CONFLICT,
    ),
    edit(
        "completed to cancelled, by a service",
        PREMIUMS,
        _rewritten(11, "overlap", "service"),
        UNEXCUSED,
    ),
    edit(
        "completed to skipped",
        PREMIUMS,
        _rewritten(13, "holiday of the clerk", "worker"),
        UNEXCUSED,
    ),
    edit(
        "completed to cancelled, by a type of event that ends others",
        RENEWALS,
        _rewritten(11, "PolicyCancelled", "intake"),
        UNEXCUSED,
    ),
    edit(
        "completed to skipped, for an overlap that its rule allows",
        STATEMENTS,
        _rewritten(13, "overlap", "allocator"),
        UNEXCUSED,
    ),
    edit(
        "completed to skipped, by no window",
        STATEMENTS,
        _rewritten(13, "catch_up", "materialiser"),
        UNEXCUSED,
    ),
    Edit(
        name="completed to skipped, for no gap, with evidence",
        of=REMINDERS,
        changes=(_rewritten(13, "gap", "materialiser"),),
        finds=((UNEXCUSED, ITEM), (FindingType.EFFECT_UNRECORDED, ITEM)),
    ),
    edit(
        "cancelled by nobody",
        "kind = 'Notice' and state = 'cancelled'",
        set_ending("actor_no = 4711"),
        UNEXCUSED,
    ),
    edit("completed to written off", STATEMENTS, _rewritten(14, "hopeless", "worker"), UNEXCUSED),
    edit("completed to superseded", RENEWALS, _rewritten(12, "version", "materialiser"), UNEXCUSED),
    edit("completed before it was due", STATEMENTS, set_ending("at = '2027-03-24'"), PREMATURE),
    edit(
        "completed before it was emitted",
        RENEWALS,
        set_ending("at = '2027-04-06 11:58:59+00'"),
        PREMATURE,
    ),
    edit(
        "completed in the future",
        PREMIUMS,
        set_ending("at = '2198-01-01'"),
        FindingType.TAMPERED,
    ),
    edit("completed without a run", PREMIUMS, set_ending("run_no = null"), CONFLICT),
    edit("completed in a run that never was", PREMIUMS, set_ending("run_no = 4711"), CONFLICT),
    edit(
        "completed in the run of others",
        RENEWALS,
        set_ending("run_no = (select max(run_no) from ledger.run)"),
        CONFLICT,
    ),
    edit("completed by a worker that never had it", LETTERS, set_ending(OTHER_WORKER), CONFLICT),
    edit(
        "completed before its run began",
        LETTERS,
        set_ending("at = at - interval '30 s'"),
        CONFLICT,
    ),
    edit("completed at another attempt", LETTERS, set_ending("attempt = attempt + 1"), CONFLICT),
    edit(
        "completed after its run was over",
        LETTERS_BY_KAFKA,
        set_ending("at = at + interval '1 us'"),
        CONFLICT,
    ),
    edit(
        "cancelled before it was emitted",
        "kind = 'Notice' and state = 'cancelled'",
        set_ending("at = '2027-03-25'"),
        CONFLICT,
    ),
    edit("completed by nobody", PREMIUMS, set_ending("actor_no = 4711"), CONFLICT),
    # How attempts ended
    edit("a second outcome of a run", RENEWALS, FAIL_AGAIN.format(run_no="run_no"), CONFLICT),
    edit("an attempt outside of runs", RENEWALS, FAIL_AGAIN.format(run_no="null"), CONFLICT),
    Edit(
        name="an attempt removed",
        of=OF_FAILED,
        changes=("delete from ledger.transition where item_no = $1 and event = 6",),
        finds=((CONFLICT, ITEM), (FindingType.TAMPERED, ITEM)),
    ),
    edit(
        "an attempt that was redriven in its run",
        OF_FAILED,
        "update ledger.transition set event = 10 where item_no = $1 and event = 6",
        CONFLICT,
    ),
    # Who had it
    Edit(
        name="the run removed",
        of=CLAIMS,
        changes=(DELETE_RUN,),
        finds=((CONFLICT, OF_RUN),),
        items=1,
        takes_claim=True,
    ),
    Edit(
        name="the claim removed",
        of=CLAIMS,
        changes=(DELETE_CLAIM,),
        finds=((CONFLICT, OF_CLAIM), (ORPHAN, RECORDS)),
        items=1,
        takes_claim=True,
    ),
    # What Kafka has of it
    Edit(
        name="published at another offset",
        of=CLAIMS,
        changes=(MOVE_CLAIM,),
        finds=((FindingType.RECORD_MISSING, CLAIM),),
        items=1,
        takes_claim=True,
    ),
    Edit(
        name="two items of a claim changed places",
        of=CLAIMS,
        changes=(SWAP_ITEMS,),
        finds=((ORPHAN, RECORDS),),
        items=1,
        takes_claim=True,
    ),
    edit("the row of a published item removed", LETTERS_BY_KAFKA, DELETE_ITEM, UNBALANCED, ENDING),
    edit("open again in its run", STATEMENTS, REOPEN_IN_RUN, UNBALANCED),
)

THREE_REMOVED_AND_ADDED: Final = (
    edit("three pendings removed of a kind", WAITING_NOTICES, DELETE_PENDING, UNBALANCED),
    edit("and three added to finished items of it", NOTICES, ADD_PENDING, UNBALANCED),
)
"""One edit of two parts: the sums of the kind are as before."""
