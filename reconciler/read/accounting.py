"""The accounting identity beside the cache: only partitions that may have changed are counted."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, items
from dueledger.ledger.store.items import Accounting
from dueledger.reconciler.compared_items import KindKey
from dueledger.reconciler.tallies import KindTally
from dueledger.reconciler.windows import DateRange


class OpenCounts(NamedTuple):
    """How many items of a kind have not ended, by state."""

    pending: int = 0
    handed_out: int = 0
    running: int = 0
    reviews: int = 0


async def read_accounting_beside_cache(
    connection: Connection,
    kinds: Iterable[KindKey],
    cached: Mapping[KindKey, KindTally],
    unread: Iterable[DateRange],
) -> list[Accounting]:
    """Return the accounting: cached counts, and the rest read in one snapshot.

    `unread` are the dates that are not cached. What changed since gives a difference. So on a
    difference the caller has to count everything.
    """
    counted: defaultdict[KindKey, Counter[str]] = defaultdict(Counter[str])
    for key, tally in cached.items():
        counted[key]["items"] += tally.open
        for event, count in tally.ended.items():
            _count(counted[key], event, count)
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        for window in unread:
            for row in await items.count_items_by_ending(
                connection, window.from_date, window.to_date
            ):
                _count(counted[row["tenant"], row["kind"]], row["event"], row["items"])
        open_items = {
            (tenant, kind): OpenCounts(*counts)
            for tenant, kind, *counts in await items.count_open_items(connection)
        }
    return [
        Accounting(*key, **_columns(counted[key]), **open_items.get(key, OpenCounts())._asdict())
        for key in sorted({*kinds, *counted, *open_items})
    ]


def _count(columns: Counter[str], event: int | None, count: int) -> None:
    columns["items"] += count
    if event is not None:
        columns[TransitionEvent(event).label] += count


def _columns(counts: Counter[str]) -> dict[str, int]:
    return {
        name: counts[name]
        for name in ("items", "completed", "cancelled", "superseded", "skipped", "written_off")
    }
