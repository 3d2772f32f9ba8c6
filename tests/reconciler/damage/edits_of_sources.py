"""Edits of what items rest on: events, definitions, populations, evidence."""

from typing import Final

from dueledger.ledger.finding_types import FindingType

from .edit import ITEM, Edit, Mending, edit
from .edits_of_items import DELETE_ITEM, DELETE_PENDING, PREMIUMS, RENEWALS, WAITING_RENEWALS
from .edits_of_states import LETTERS, LETTERS_BY_KAFKA

DELETE_EVENT: Final = """
delete from ledger.event e using ledger.due_item i where i.item_no = $1 and e.event_no = i.event_no
"""
OF_EVENT: Final = "select 'event:' || event_no from ledger.due_item where item_no = $1"
"""The subject of the finding that the inbox does not have an event as it was received."""
MOVE_EVENT: Final = """
update ledger.event e set received_at = e.received_at - interval '1 s'
from ledger.due_item i where i.item_no = $1 and e.event_no = i.event_no
"""
FORGE_EVENT: Final = """
insert into ledger.event
  (event_no, tenant, source, id, type, occurred_at, business_key, body, received_at)
select 1000000000 + e.event_no, e.tenant, e.source, 'forged', 'PolicyCancelled',
  e.occurred_at + interval '1 day', e.business_key, e.body, ledger.now()
from ledger.event e join ledger.due_item i on i.event_no = e.event_no where i.item_no = $1
"""
OF_FORGED: Final = """
select 'event:' || 1000000000 + event_no from ledger.due_item where item_no = $1
"""
CHANGE_BODY: Final = """
update ledger.event e set body = jsonb_set(body, '{premium}', '7')
from ledger.due_item i where i.item_no = $1 and e.event_no = i.event_no
"""
CHANGE_DOCUMENT: Final = """
update ledger.definition set document = jsonb_set(document, '{when,cron}', '"1 * * * *"')
where name = 'valuations' and $1::bigint > 0
"""
DELETE_POLICY: Final = """
delete from public.policy_due p using ledger.due_item i
where i.item_no = $1 and p.business_key = i.business_key
"""
MOVE_POLICY: Final = """
update public.policy_due p set due_at = p.due_at + interval '1 h'
from ledger.due_item i where i.item_no = $1 and p.business_key = i.business_key
"""
DELETE_BOOKING: Final = """
delete from public.booking b using ledger.due_item i where i.item_no = $1 and b.item_id = i.id
"""
NAMED_BY_DOMAIN: Final = """
insert into public.policy_due
select p.tenant, p.kind, p.business_key || '-new', p.cycle, p.effective_date, p.due_at, p.payload
from public.policy_due p join ledger.due_item i using (business_key) where i.item_no = $1
"""
ORPHANED_ON: Final = "2027-03-28"
"""A date of which items that were handed out are gone for good: a person decides of its others."""
NAMED_ID: Final = """
select ledger.item_id('acme', 'Premium', business_key || '-new', cycle, effective_date)::text
from ledger.due_item where item_no = $1
"""

EDITS_OF_SOURCES: Final = (
    Edit(
        name="an event removed",
        of=RENEWALS,
        changes=(DELETE_EVENT,),
        finds=((FindingType.UNEXPECTED, ITEM), (FindingType.TAMPERED, OF_EVENT)),
    ),
    edit(
        "an event removed with its item",
        WAITING_RENEWALS,
        (DELETE_PENDING, DELETE_EVENT, DELETE_ITEM),
        FindingType.TAMPERED,
        OF_EVENT,
    ),
    edit("an event received earlier", RENEWALS, MOVE_EVENT, FindingType.TAMPERED, OF_EVENT),
    Edit(
        name="an event that nobody sent",
        of=WAITING_RENEWALS,
        changes=(FORGE_EVENT,),
        finds=((FindingType.WITHDRAWN, ITEM), (FindingType.TAMPERED, OF_FORGED)),
    ),
    edit(
        "the body of an event changed",
        RENEWALS,
        CHANGE_BODY,
        FindingType.WRONG_TERMS,
    ),
    edit(
        "no longer named by the domain",
        PREMIUMS,
        DELETE_POLICY,
        FindingType.UNEXPECTED,
    ),
    edit(
        "due at another time, says the domain",
        PREMIUMS,
        MOVE_POLICY,
        FindingType.WRONG_DATE,
    ),
    edit(
        "named by the domain alone",
        f"{PREMIUMS} and effective_date <> '{ORPHANED_ON}'",
        NAMED_BY_DOMAIN,
        FindingType.MISSING,
        NAMED_ID,
        mending=Mending.REPAIR,
    ),
    edit(
        "a definition changed in place",
        "kind = 'Valuation'",
        CHANGE_DOCUMENT,
        FindingType.TAMPERED,
        "select 'valuations, version 1' where $1::bigint > 0",
        items=1,
    ),
    edit(
        "evidence removed",
        LETTERS,
        DELETE_BOOKING,
        FindingType.EFFECT_MISSING,
    ),
    edit(
        "evidence of an item that went through Kafka removed",
        LETTERS_BY_KAFKA,
        DELETE_BOOKING,
        FindingType.EFFECT_MISSING,
    ),
)
