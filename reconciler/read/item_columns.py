"""The ledger's items and journal of a window as columns."""

from typing import Final, NamedTuple

import numpy as np

from dueledger.ledger.states import TERMINAL_EVENTS
from dueledger.ledger.store import Connection, reconciled_rows
from dueledger.reconciler.columns.fixed_width import Columns, RowLayout
from dueledger.reconciler.columns.terms import all_mixed, payload_digest, payload_of_terms
from dueledger.reconciler.compared_items import NOT_SAID
from dueledger.reconciler.read.day_digests import RowsDigest, digests_by_day
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
    version="bigint",
    is_named="bool",
    terms="text",
)
_ENDING_EVENTS: Final = sorted(TERMINAL_EVENTS)
_JOURNAL: Final = RowLayout(
    day="date", item_no="bigint", event="smallint", ended_at="instant", version="bigint"
)


class CopiedWindow(NamedTuple):
    """Items and journal of a window as they were copied, each in a snapshot of its own."""

    items: bytes
    journal: bytes


class WindowColumns(NamedTuple):
    """Items and endings of a window, and by day the digests of its items and of its journal."""

    items: Columns
    endings: Columns
    item_digests: dict[int, RowsDigest]
    journal_digests: dict[int, RowsDigest]


async def copy_window(connection: Connection, window: DateRange, *, key: int) -> CopiedWindow:
    """Copy a window. An item that ends in between seems to have no state: it is read again."""
    dates = (window.from_date, window.to_date)
    return CopiedWindow(
        await reconciled_rows.copy_item_columns(connection, *dates, key),
        await reconciled_rows.copy_journal_columns(connection, *dates, key),
    )


def columns_of(copied: CopiedWindow, *, says_payloads: bool) -> WindowColumns:
    """Return a window's columns.

    `says_payloads`: a source says payloads alone, so they are digested alone, too.
    """
    items, terms = _ITEM.read_texts(copied.items)
    digests = np.array(list(map(hash, terms)), dtype=np.int64)
    items["terms"] = all_mixed(digests, items["start_by"], items["complete_by"], items.pop("smear"))
    items["payload"] = np.full(len(terms), NOT_SAID, dtype=np.int64)
    if says_payloads:
        items["payload"][:] = [payload_digest(payload_of_terms(text)) for text in terms]
    journal = _JOURNAL.read(copied.journal)
    by_day = [digests_by_day(each["day"], each.pop("version")) for each in (items, journal)]
    is_ending = np.isin(journal["event"], _ENDING_EVENTS)
    endings = {name: column[is_ending] for name, column in journal.items()}
    return WindowColumns(items, endings, *by_day)
