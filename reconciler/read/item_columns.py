"""The ledger's items and endings of a window as columns."""

from typing import Final, NamedTuple

import numpy as np

from dueledger.ledger.store import Connection, reconciled_rows
from dueledger.reconciler.columns.fixed_width import Columns, RowLayout
from dueledger.reconciler.columns.terms import all_mixed, payload_digest, payload_of_terms
from dueledger.reconciler.compared_items import NOT_SAID
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


async def read_columns(
    connection: Connection, window: DateRange, *, says_payloads: bool
) -> WindowColumns:
    """Read a window. An item that ends in between seems to have no state: it is read again.

    `says_payloads`: a source says payloads alone, so they are digested alone, too.
    """
    dates = (window.from_date, window.to_date)
    copied = await reconciled_rows.copy_item_columns(connection, *dates)
    items, terms = _ITEM.read_texts(copied)
    digests = np.array(list(map(hash, terms)), dtype=np.int64)
    items["terms"] = all_mixed(digests, items["start_by"], items["complete_by"], items.pop("smear"))
    items["payload"] = np.full(len(terms), NOT_SAID, dtype=np.int64)
    if says_payloads:
        items["payload"][:] = [payload_digest(payload_of_terms(text)) for text in terms]
    return WindowColumns(
        items, _ENDING.read(await reconciled_rows.copy_ending_columns(connection, *dates))
    )
