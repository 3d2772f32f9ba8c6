"""The ledger's items by effective date: read in pages, and counted a day at a time."""

from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from typing import Final

from dueledger.ledger.store import Connection, reconciled_rows
from dueledger.reconciler.compared_items import ActualItem
from dueledger.reconciler.windows import DateRange

PAGE_ROWS: Final = 10_000


async def read_item_pages(
    connection: Connection, window: DateRange
) -> AsyncGenerator[list[ActualItem]]:
    """Yield the items of a window, ordered by date and number, a page at a time."""
    after = (window.from_date, 0)
    while True:
        rows = await reconciled_rows.list_item_outcomes(
            connection, window.from_date, window.to_date, after=after, page_size=PAGE_ROWS
        )
        items = [ActualItem._make(row) for row in rows]
        yield items
        if len(items) < PAGE_ROWS:
            return
        after = (items[-1].effective_date, items[-1].item_no)


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
