"""What the ledger says of each effective date, as a digest: the marks of the cache."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from hashlib import sha256

from dueledger.ledger.store import Connection, reconciled_rows
from dueledger.reconciler.windows import DateRange, DayCounts


@dataclass(frozen=True, slots=True)
class DayMarks:
    """The digest of each day with rows, by proleptic ordinal, and how many rows it has.

    `partitions` are the ranges of dates with a table partition of their own; no other is digested.
    """

    partitions: tuple[DateRange, ...]
    digests: dict[int, str]
    counts: DayCounts

    def of(self, window: DateRange) -> str:
        """Return the mark of a window."""
        text = "\n".join(f"{day} {self.digests[day]}" for day in self.counts.days(window))
        return sha256(text.encode()).hexdigest()


NO_MARKS = DayMarks((), {}, DayCounts({}))


async def read_marks(connections: Sequence[Connection]) -> DayMarks:
    """Return the marks of all partitions, read over several connections.

    Each partition is one snapshot. Two equal marks of a window mean that its items are as they
    were, as far as they are compared in columns, with their journal, and where those are that have
    not ended. A change that is committed after a mark was read shows in a later one.
    """
    open_days = await reconciled_rows.digest_open_days(connections[0])
    partitions = await reconciled_rows.list_item_partitions(connections[0])
    digests: dict[int, str] = {}
    counts: dict[int, int] = {}
    waiting = iter(partitions)

    async def read_some(connection: Connection) -> None:
        for from_date, to_date in waiting:
            for row in await reconciled_rows.digest_days(connection, from_date, to_date):
                day = row["effective_date"].toordinal()
                digests[day] = row["digest"]
                counts[day] = row["row_count"]

    await asyncio.gather(*(read_some(connection) for connection in connections))
    ranges = tuple(DateRange.of(*partition) for partition in partitions)
    for day, digest in open_days.items():
        _add_open(digests, counts, day, digest, ranges)
    return DayMarks(ranges, digests, DayCounts(counts))


def _add_open(
    digests: dict[int, str],
    counts: dict[int, int],
    day: date,
    digest: str,
    partitions: Sequence[DateRange],
) -> None:
    """Add which items of a day have not ended, if it is in a partition."""
    if any(partition.has(day) for partition in partitions):
        number = day.toordinal()
        digests[number] = f"{digests.get(number, '')} {digest}"
        counts.setdefault(number, 0)
