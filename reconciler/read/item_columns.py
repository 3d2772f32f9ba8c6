"""The ledger's items and endings of a window as columns."""

from typing import Final, NamedTuple

from dueledger.ledger.store import Connection, reconciled_rows
from dueledger.reconciler.columns.fixed_width import Columns, RowLayout
from dueledger.reconciler.columns.terms import all_mixed
from dueledger.reconciler.windows import DateRange

_ITEM: Final = RowLayout(
    day="date",
    item_no="bigint",
    id="uuid",
    flow="integer",
    due="instant",
    start_by="instant",
    complete_by="instant",
    emitted="instant",
    definition="bigint",
    event="bigint",
    key="bigint",
    smear="double",
    is_named="bool",
    terms="text",
)
_ENDING: Final = RowLayout(day="date", item_no="bigint", event="smallint", ended_at="instant")


class WindowColumns(NamedTuple):
    """Items and endings of a window, each as one snapshot has them."""

    items: Columns
    endings: Columns


async def read_columns(connection: Connection, window: DateRange) -> WindowColumns:
    """Read a window. An item that ends in between seems to have no state: it is read again."""
    dates = (window.from_date, window.to_date)
    items = _ITEM.read(await reconciled_rows.copy_item_columns(connection, *dates))
    start_by, smear = items.pop("start_by"), items.pop("smear")
    items["terms"] = all_mixed(items["terms"], start_by, items["complete_by"], smear)
    return WindowColumns(
        items, _ENDING.read(await reconciled_rows.copy_ending_columns(connection, *dates))
    )
