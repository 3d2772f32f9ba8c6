"""How many items the ledger has, a day at a time."""

from collections import Counter
from collections.abc import Iterable

from dueledger.ledger.store import Connection, reconciled_rows
from dueledger.reconciler.windows import DateRange


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
