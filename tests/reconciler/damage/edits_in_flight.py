"""Edits of what workers have in hand, and of what has evidence outside."""

from typing import Final

from dueledger.ledger.finding_types import FindingType

from .clean_ledger import BOOKED
from .edit import ITEM, Edit, Mending, edit, set_item
from .edits_of_items import DELETE_ITEM, REMINDERS
from .edits_of_sources import DELETE_BOOKING, ORPHANED_ON
from .edits_of_states import ADD_PENDING, END_WAITING

HANDED_OUT: Final = "select 'handed_out:' || $1::bigint"
"""The subject of the finding that an item is handed out that does not exist."""
EFFECT: Final = "select 'reminded: ' || id from ledger.due_item where item_no = $1"
"""The subject of findings about an effect outside."""
RUN: Final = """
select 'run:' || o.run_no from ledger.open_item o where o.item_no = $1
"""
NO_WORKER: Final = """
update ledger.run r set worker_no = 4711 from ledger.open_item o
where o.item_no = $1 and r.run_no = o.run_no
"""
REPEAT_BOOKING: Final = """
insert into public.booking select b.* from public.booking b
join ledger.due_item i on i.id = b.item_id where i.item_no = $1
"""


def _row_removed(kind: str, state: str) -> Edit:
    """A worker has it, and may have worked it: whether it is emitted again, a person decides."""
    return Edit(
        name=f"the row of a {kind} removed that is {state}",
        of=f"kind = '{kind}' and state = '{state}'",
        changes=(DELETE_ITEM,),
        finds=((FindingType.MISSING, ITEM), (FindingType.UNBALANCED, HANDED_OUT)),
    )


EDITS_IN_FLIGHT: Final = (
    *(
        _row_removed(kind, state)
        for kind in (BOOKED, "Premium", "Renewal")
        for state in ("claimed", "running")
    ),
    edit(
        "waiting and running",
        "kind = 'Notice' and state = 'running'",
        ADD_PENDING,
        FindingType.UNBALANCED,
    ),
    edit(
        "ended and claimed",
        "kind = 'Notice' and state = 'claimed'",
        END_WAITING,
        FindingType.UNBALANCED,
    ),
    edit(
        "due_at of an item that runs",
        "kind = 'Premium' and state = 'running'",
        set_item("due_at = due_at + interval '1 s'"),
        FindingType.WRONG_DATE,
    ),
    edit(
        "in a run of nobody",
        "kind = 'Notice' and state = 'running'",
        NO_WORKER,
        FindingType.STUCK,
        RUN,
        items=1,
    ),
    # What has evidence
    Edit(
        name="a completed item with evidence removed, with its ending",
        of=f"{REMINDERS} and effective_date = '{ORPHANED_ON}'",
        changes=("delete from ledger.transition where item_no = $1", DELETE_ITEM),
        finds=((FindingType.MISSING, ITEM), (FindingType.EFFECT_UNRECORDED, EFFECT)),
        mending=Mending.REPAIR_OF_ONE,
    ),
    edit("an effect twice", REMINDERS, REPEAT_BOOKING, FindingType.EFFECT_REPEATED, EFFECT),
    edit(
        "evidence of an item of a schedule removed",
        REMINDERS,
        DELETE_BOOKING,
        FindingType.EFFECT_MISSING,
    ),
)
