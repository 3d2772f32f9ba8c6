"""A declared edit: what it changes, of which items, and what the reconciler has to find."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from dueledger.ledger.finding_types import FindingType

ITEM: Final = "select id::text from ledger.due_item where item_no = $1"
"""The subject of a finding about an item."""
ENDING: Final = "select 'ending:' || $1::bigint"
"""The subject of the finding that the journal has an ending of an item that does not exist."""
WAITING: Final = "select 'waiting:' || $1::bigint"
"""The subject of the finding that a row says that an item waits that does not exist."""
KEY: Final = "select 'key:' || id from ledger.due_item where item_no = $1"

SET_ITEM: Final = "update ledger.due_item set {} where item_no = $1"
SET_PENDING: Final = "update ledger.pending set {} where item_no = $1"
SET_ENDING: Final = """
update ledger.transition set {} where item_no = $1 and event in (5, 11, 12, 13, 14)
"""


class Mending(Enum):
    """Who mends it: a repair, or a person, who puts back what was.

    REPAIR_OF_ONE: a repair of one of its findings, which explains the others.
    """

    REPAIR = "repair"
    REPAIR_OF_ONE = "repair of one"
    PERSON = "person"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One kind of edit.

    `of` is the condition on `damage.target` of the items to edit, `items` of them; each statement
    of `changes` has the number of one item as its parameter and changes a row at least. `finds` are
    the findings for each: a type, and the statement that gives the subjects before the edit (or
    after it, with `named_after`).
    """

    name: str
    of: str
    changes: tuple[str, ...]
    finds: tuple[tuple[FindingType, str], ...]
    mending: Mending = Mending.PERSON
    items: int = 3
    named_after: bool = False
    takes_claim: bool = False
    """Whether it concerns all items of a claim, so that no other edit is made to one of them."""


def edit(
    name: str,
    of: str,
    changes: str | tuple[str, ...],
    finds: FindingType,
    subject: str = ITEM,
    *,
    mending: Mending = Mending.PERSON,
    items: int = 3,
    named_after: bool = False,
) -> Edit:
    """Return an edit of which each item gives one finding."""
    return Edit(
        name=name,
        of=of,
        changes=(changes,) if isinstance(changes, str) else changes,
        finds=((finds, subject),),
        mending=mending,
        items=items,
        named_after=named_after,
    )


def set_item(assignment: str) -> str:
    """Return the statement that sets columns of the row of an item."""
    return SET_ITEM.format(assignment)


def set_pending(assignment: str) -> str:
    """Return the statement that sets columns of the row by which an item waits."""
    return SET_PENDING.format(assignment)


def set_ending(assignment: str) -> str:
    """Return the statement that sets columns of what ended an item."""
    return SET_ENDING.format(assignment)
