"""Edits of the rows of items: what each says, its identity, its existence."""

from typing import Final

from dueledger.ledger.finding_types import FindingType

from .edit import ENDING, ITEM, WAITING, Edit, Mending, edit, set_item

WRONG_DATE: Final = FindingType.WRONG_DATE
WRONG_TERMS: Final = FindingType.WRONG_TERMS
TAMPERED: Final = FindingType.TAMPERED

STATEMENTS: Final = "kind = 'Statement' and state = 'completed'"
REMINDERS: Final = "kind = 'Reminder' and state = 'completed'"
RENEWALS: Final = "kind = 'Renewal' and state = 'completed'"
WAITING_RENEWALS: Final = "kind = 'Renewal' and state = 'waiting'"
PREMIUMS: Final = "kind = 'Premium' and state = 'completed'"
NOTICES: Final = "kind = 'Notice' and state = 'completed'"

DELETE_ITEM: Final = "delete from ledger.due_item where item_no = $1"
DELETE_PENDING: Final = "delete from ledger.pending where item_no = $1"

STRANGER: Final = """
with twin as (
  insert into ledger.due_item
    (effective_date, flow_no, id, business_key, cycle, due_at, payload, definition_no, event_no,
     emitted_at, actor_no)
  select i.effective_date, i.flow_no,
    ledger.item_id(k.tenant, k.name, {key}, {cycle}, i.effective_date), {key}, {cycle},
    i.due_at, i.payload, i.definition_no, i.event_no, i.emitted_at, i.actor_no
  from ledger.due_item i
  join ledger.flow f using (flow_no)
  join ledger.kind k using (kind_no)
  where i.item_no = $1
  returning item_no, effective_date, flow_no, due_at)
insert into ledger.pending (item_no, effective_date, flow_no, available_at)
select item_no, effective_date, flow_no, due_at from twin
"""
TWIN: Final = """
with twin as (
  insert into ledger.due_item
    (effective_date, flow_no, id, business_key, cycle, due_at, complete_by, payload, labels,
     partition_key, definition_no, event_no, nominal, zone, decision, tzdata, emitted_at, actor_no)
  select effective_date - 1, flow_no, id, business_key, cycle, due_at, complete_by, payload, labels,
     partition_key, definition_no, event_no, nominal, zone, decision, tzdata, emitted_at, actor_no
  from ledger.due_item where item_no = $1
  returning item_no, effective_date, flow_no, due_at)
insert into ledger.pending (item_no, effective_date, flow_no, available_at)
select item_no, effective_date, flow_no, due_at from twin
"""
STRANGER_ID: Final = """
select ledger.item_id(k.tenant, k.name, {key}, {cycle}, i.effective_date)::text
from ledger.due_item i
join ledger.flow f using (flow_no)
join ledger.kind k using (kind_no)
where i.item_no = $1
"""
OTHER_KEY: Final = {"key": "i.business_key || '-stranger'", "cycle": "i.cycle"}
OTHER_CYCLE: Final = {"key": "i.business_key", "cycle": "i.cycle || '-again'"}


def _stranger(name: str, of: str, what: dict[str, str], finds: FindingType) -> Edit:
    return edit(name, of, STRANGER.format(**what), finds, STRANGER_ID.format(**what))


EDITS_OF_ITEMS: Final = (
    # Dates
    edit(
        "due_at of a schedule",
        STATEMENTS,
        set_item("due_at = due_at - interval '1 day'"),
        WRONG_DATE,
    ),
    edit("due_at of an event", RENEWALS, set_item("due_at = due_at - interval '1 s'"), WRONG_DATE),
    edit(
        "due_at of a population",
        PREMIUMS,
        set_item("due_at = due_at - interval '1 us'"),
        WRONG_DATE,
    ),
    edit(
        "due_at of an item that waits",
        "kind = 'Statement' and state = 'waiting'",
        set_item("due_at = due_at + interval '1 year'"),
        WRONG_DATE,
    ),
    edit(
        "due_at of no tz database",
        REMINDERS,
        set_item("due_at = due_at - interval '1 s', tzdata = '2000a'"),
        WRONG_DATE,
    ),
    # Terms
    edit("payload of a schedule", STATEMENTS, set_item('payload = \'{"text":"x"}\''), WRONG_TERMS),
    edit("payload of an event", RENEWALS, set_item("payload = '{\"premium\":1}'"), WRONG_TERMS),
    edit(
        "complete_by",
        STATEMENTS,
        set_item("complete_by = complete_by + interval '1 s'"),
        WRONG_TERMS,
    ),
    edit("start_by", STATEMENTS, set_item("start_by = due_at"), WRONG_TERMS),
    edit("zone", REMINDERS, set_item("zone = 'Europe/Dublin'"), WRONG_TERMS),
    edit("decision", REMINDERS, set_item("decision = 'gap'"), WRONG_TERMS),
    edit("nominal", REMINDERS, set_item("nominal = '2027-03-28T01:30'"), WRONG_TERMS),
    edit("labels of a schedule", REMINDERS, set_item("labels = null"), WRONG_TERMS),
    edit("labels of an event", RENEWALS, set_item('labels = \'{"region":"R"}\''), WRONG_TERMS),
    edit("partition_key", RENEWALS, set_item("partition_key = business_key"), WRONG_TERMS),
    edit("smear_seconds", STATEMENTS, set_item("smear_seconds = 1"), WRONG_TERMS),
    edit(
        "definition_no of another definition",
        STATEMENTS,
        set_item(
            "definition_no = (select definition_no from ledger.definition where name = 'sweep')"
        ),
        WRONG_TERMS,
    ),
    edit("definition_no of none", STATEMENTS, set_item("definition_no = null"), WRONG_TERMS),
    edit("event_no of none", RENEWALS, set_item("event_no = null"), WRONG_TERMS),
    edit("event_no of another event", RENEWALS, set_item("event_no = event_no + 1"), WRONG_TERMS),
    edit(
        "overlap",
        STATEMENTS,
        set_item("overlap = 2"),
        WRONG_TERMS,
    ),
    edit(
        "flow_no of another lane",
        STATEMENTS,
        (
            """
            insert into ledger.flow (kind_no, tenant, kind, ordering, lane)
            select kind_no, tenant, kind, ordering, 'forged' from ledger.flow
            where kind = 'Statement' and $1::bigint > 0 on conflict do nothing
            """,
            set_item("flow_no = (select flow_no from ledger.flow where lane = 'forged')"),
        ),
        WRONG_TERMS,
        items=1,
    ),
    # Identity
    edit("business_key", PREMIUMS, set_item("business_key = business_key || 'x'"), TAMPERED),
    edit("cycle", STATEMENTS, set_item("cycle = cycle || 'x'"), TAMPERED),
    edit("id", RENEWALS, set_item("id = gen_random_uuid()"), TAMPERED, named_after=True),
    edit(
        "flow_no of another kind",
        PREMIUMS,
        set_item(
            "flow_no = (select min(flow_no) from ledger.flow"
            " where kind = 'Notice' and tenant = 'acme')"
        ),
        TAMPERED,
    ),
    edit(
        "emitted_at",
        "kind = 'Premium' and state = 'waiting'",
        set_item("emitted_at = '2199-01-01'"),
        TAMPERED,
    ),
    Edit(
        name="effective_date of an item that waits",
        of="kind = 'Statement' and state = 'waiting'",
        changes=(set_item("effective_date = effective_date - 40"),),
        finds=((TAMPERED, ITEM), (FindingType.UNBALANCED, WAITING)),
    ),
    # Existence
    edit(
        "an item of a schedule removed",
        "kind = 'Statement' and state = 'waiting'",
        (DELETE_PENDING, DELETE_ITEM),
        FindingType.MISSING,
        mending=Mending.REPAIR,
    ),
    edit(
        "an item of an event removed",
        WAITING_RENEWALS,
        (DELETE_PENDING, DELETE_ITEM),
        FindingType.MISSING,
        mending=Mending.REPAIR,
    ),
    edit(
        "an item of a population removed",
        "kind = 'Premium' and state = 'waiting'",
        (DELETE_PENDING, DELETE_ITEM),
        FindingType.MISSING,
        mending=Mending.REPAIR,
    ),
    Edit(
        name="the row of a completed item removed",
        of=PREMIUMS,
        changes=(DELETE_ITEM,),
        finds=((FindingType.MISSING, ITEM), (FindingType.UNBALANCED, ENDING)),
    ),
    edit(
        "a completed item removed with its ending",
        PREMIUMS,
        ("delete from ledger.transition where item_no = $1", DELETE_ITEM),
        FindingType.MISSING,
    ),
    edit(
        "the row of an item that waits removed",
        "kind = 'Notice' and state = 'waiting'",
        DELETE_ITEM,
        FindingType.UNBALANCED,
        WAITING,
    ),
    edit(
        "the row of a completed item that no source names removed",
        NOTICES,
        DELETE_ITEM,
        FindingType.UNBALANCED,
        ENDING,
    ),
    edit("a twin under another date", "kind = 'Premium' and state = 'parked'", TWIN, TAMPERED),
    _stranger("a stranger of a schedule", STATEMENTS, OTHER_KEY, FindingType.UNEXPECTED),
    _stranger("a stranger of an event", RENEWALS, OTHER_KEY, FindingType.UNEXPECTED),
    _stranger("a stranger of a population", PREMIUMS, OTHER_KEY, FindingType.UNEXPECTED),
    _stranger("a duplicate of an event", RENEWALS, OTHER_CYCLE, FindingType.DUPLICATE),
    _stranger("a duplicate of a population", PREMIUMS, OTHER_CYCLE, FindingType.DUPLICATE),
)
