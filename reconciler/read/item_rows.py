"""Items of the ledger: how many there are, a day at a time, and what those are that differ."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date
from struct import Struct
from typing import Final

from dueledger.ledger.store import Connection, reconciled_rows
from dueledger.reconciler.columns.terms import mixed
from dueledger.reconciler.compared_items import ActualItem
from dueledger.reconciler.windows import DateRange

_TIMES: Final = Struct(">qqq")
_TERMS: Final = ActualItem._fields.index("terms_digest")


async def count_items_in_windows(
    connection: Connection, windows: Iterable[DateRange]
) -> Counter[int]:
    """Return how many items the days of these windows have, by proleptic ordinal."""
    counts: Counter[int] = Counter()
    for window in windows:
        counted = await reconciled_rows.count_items_by_day(
            connection, window.from_date, window.to_date
        )
        counts.update({day.toordinal(): count for day, count in counted.items()})
    return counts


async def read_outcomes(
    connection: Connection, places: Sequence[tuple[date, int]]
) -> list[ActualItem]:
    """Read items with what ended each, by effective date and number, in that order."""
    rows = await reconciled_rows.list_outcomes_of_items(connection, places)
    return [
        ActualItem._make(
            (
                *row[:_TERMS],
                mixed(hash(row["terms"].encode()), *_TIMES.unpack(row["times"])),
                *row[_TERMS + 2 :],
            )
        )
        for row in rows
    ]
