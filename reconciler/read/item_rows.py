"""Items of the ledger that seem to differ, with what ended each."""

from collections.abc import Sequence
from datetime import date
from struct import Struct
from typing import Final

from dueledger.ledger.store import Connection, reconciled_rows
from dueledger.reconciler.columns.terms import mixed, payload_digest, payload_of_terms
from dueledger.reconciler.compared_items import NOT_SAID, ActualItem

_TIMES: Final = Struct(">qqq")
_TERMS: Final = ActualItem._fields.index("terms_digest")


async def read_outcomes(
    connection: Connection, places: Sequence[tuple[date, int]], *, says_payloads: bool
) -> list[ActualItem]:
    """Read items with what ended each, by effective date and number, in that order.

    `says_payloads`: a source says payloads alone, so they are digested alone, too.
    """
    rows = await reconciled_rows.list_outcomes_of_items(connection, places)
    items: list[ActualItem] = []
    for row in rows:
        terms = row["terms"].encode()
        times = _TIMES.unpack(row["times"])
        payload = payload_digest(payload_of_terms(terms)) if says_payloads else NOT_SAID
        items.append(
            ActualItem(
                *row[:_TERMS],
                mixed(hash(terms), *times),
                *row[_TERMS + 2 :],
                outside_terms=(payload, *times[:2]),
            )
        )
    return items
