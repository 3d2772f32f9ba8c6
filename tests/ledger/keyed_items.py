"""Items of keys: due, waiting for their key, or holding it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from dueledger.ledger.rules.drafts import Overlap
from dueledger.ledger.states import State

from .conftest import Ledger

DELETE: Final = """
delete from ledger.pending where item_no = (select item_no from ledger.due_item where id = $1)
"""
PLACE: Final = """
update ledger.pending set state = $4, serial = $5, serial_due_at = $6, overlap = $7,
  available_at = case when $2::boolean then 'infinity' else $3::timestamptz end
where item_no = (select item_no from ledger.due_item where id = $1)
"""


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a key: its policy, when it was due, and where it is.

    It `is_due`, is `later`, or `waits` for its key; or it is in none of these places and `holds`
    the key.
    """

    overlap: Overlap
    due: int
    place: str = "is_due"
    key: int = 1
    state: State = State.SCHEDULED
    lane: str = ""
    holds: bool = False


def holder(due: int = 1, *, key: int = 1, overlap: Overlap = Overlap.WAIT, lane: str = "") -> Item:
    """Return an item that holds its key and is not pending."""
    return Item(overlap, due, "", key, lane=lane, holds=True)


async def make_items(ledger: Ledger, noon: datetime, items: dict[str, Item]) -> None:
    """Emit the items and put them where they are. Their names begin their business keys."""
    at = {
        "is_due": noon,
        "later": noon + timedelta(hours=1),
        "waits": datetime.max.replace(tzinfo=noon.tzinfo),
    }
    for name, item in items.items():
        due = noon - timedelta(days=1) + timedelta(minutes=item.due)
        (made,) = await ledger.emit(prefix=name, lane=item.lane, due_at=due)
        await ledger.connection.execute(
            "update ledger.due_item set serial = $2, overlap = $3 where id = $1",
            made,
            item.key,
            item.overlap,
        )
        if item.holds:
            await ledger.connection.execute(
                "insert into ledger.held_key select serial, item_no, effective_date, flow_no, $2"
                " from ledger.due_item where id = $1",
                made,
                noon,
            )
        if not item.place:
            await ledger.connection.execute(DELETE, made)
            continue
        await ledger.connection.execute(
            PLACE,
            made,
            item.place == "waits",
            at[item.place],
            item.state,
            item.key,
            due,
            item.overlap,
        )


async def names_of(ledger: Ledger, rows: str) -> set[str]:
    """Return the names of the items in these rows: a table, and which of it."""
    found = await ledger.connection.fetch(
        "select business_key from ledger.due_item"  # noqa: S608 - rows named below
        f" where item_no in (select item_no from {rows})"
    )
    return {row["business_key"].partition("-")[0] for row in found}
