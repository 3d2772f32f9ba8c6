"""What the ledger says of each effective date, as a digest: the marks of the cache."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from dueledger.ledger.store import Connection, reconciled_rows
from dueledger.reconciler.read.open_places import OpenPlaces
from dueledger.reconciler.windows import SNAPSHOT_BYTES_MAX, DateRange, DayCounts, cut_by_bytes


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


async def read_marks(connections: Sequence[Connection], places: OpenPlaces) -> DayMarks:
    """Return the marks of all partitions, read over several connections.

    Each range of dates that is read is one snapshot. Two equal marks of a window mean that its
    items are as they were, as far as they are compared in columns, with their journal, and where
    those are that have not ended. A change that is committed after a mark was read shows in a later
    one.
    """
    partitions = await list_partitions(connections[0])
    digests: dict[int, str] = {}
    counts: dict[int, int] = {}
    waiting = cut_by_bytes(DateRange.around([*partitions]), partitions.items(), SNAPSHOT_BYTES_MAX)

    async def read_some(connection: Connection) -> None:
        for dates in waiting:
            rows = await reconciled_rows.digest_days(connection, dates.from_date, dates.to_date)
            for row in rows:
                day = row["effective_date"].toordinal()
                digests[day] = row["digest"]
                counts[day] = row["row_count"]

    await asyncio.gather(*(read_some(connection) for connection in connections))
    for day, digest in places.digests():
        digests[day] = f"{digests.get(day, '')} {digest}"
        counts.setdefault(day, 0)
    return DayMarks(tuple(partitions), digests, DayCounts(counts))


async def list_partitions(connection: Connection) -> dict[DateRange, int]:
    """Return the ranges of dates with a table partition of their own, ascending, and its bytes."""
    return {
        DateRange.of(from_date, to_date): size
        for from_date, to_date, size in await reconciled_rows.list_item_partitions(connection)
    }
