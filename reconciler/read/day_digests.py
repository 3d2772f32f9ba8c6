"""What the ledger says of each effective date, as a digest: the marks of the cache.

A digest is of which versions of rows a date has, whatever they say: every write makes another.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, NamedTuple

import numpy as np

from dueledger.ledger.store import Connection, reconciled_rows
from dueledger.reconciler.columns.expected_columns import EPOCH_DAY
from dueledger.reconciler.columns.fixed_width import Column
from dueledger.reconciler.windows import DateRange, DayCounts, compose, cut_by_bytes, disjoint

DIGEST_BYTES_MAX: Final = 268_435_456
"""Bytes of items, about a million of them, that are counted or digested in a snapshot."""

_MODULUS: Final = 2**64


class RowsDigest(NamedTuple):
    """How many rows there are, and the sum of hashes of 64 bits, unsigned."""

    rows: int = 0
    total: int = 0

    @classmethod
    def of(cls, rows: int, total: int) -> "RowsDigest":
        """Return the digest of rows whose hashes have that sum, signed and of any length."""
        return cls(rows, total % _MODULUS)


NO_ROWS: Final = RowsDigest()


class DayDigest(NamedTuple):
    """The digests of a date's items, of its journal, and of where its open items are."""

    items: RowsDigest
    journal: RowsDigest
    places: RowsDigest


def digests_by_day(days: Column, hashes: Column) -> dict[int, RowsDigest]:
    """Return the digest of the rows of each day, by proleptic ordinal; `days` are since 2000."""
    found, places = np.unique(days, return_inverse=True)
    totals = np.zeros(len(found), dtype=np.uint64)
    np.add.at(totals, places, hashes.view(np.uint64))
    counts = np.bincount(places, minlength=len(found))
    columns = zip(found.tolist(), counts.tolist(), totals.tolist(), strict=True)
    return {day + EPOCH_DAY: RowsDigest(count, total) for day, count, total in columns}


@dataclass(frozen=True, slots=True)
class DayMarks:
    """The digest of each day with rows, by proleptic ordinal.

    `counts` are its items, or the rows of its journal where those are more.
    """

    digests: Mapping[int, DayDigest]
    counts: DayCounts

    @classmethod
    def joined(
        cls,
        items: Mapping[int, RowsDigest],
        journal: Mapping[int, RowsDigest],
        places: Mapping[int, RowsDigest],
    ) -> "DayMarks":
        """Return the marks of the days that any of these have."""
        digests = {
            day: DayDigest(*(each.get(day, NO_ROWS) for each in (items, journal, places)))
            for day in {*items, *journal, *places}
        }
        counts = {day: max(each.items.rows, each.journal.rows) for day, each in digests.items()}
        return cls(digests, DayCounts(counts))

    def of(self, window: DateRange) -> str:
        """Return the mark of a window."""
        text = "\n".join(f"{day} {self.digests[day]}" for day in self.counts.days(window))
        return sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class LedgerDays:
    """What a ledger has of each date: counts of rows, and digests of them if they were read.

    `partitions` are the ranges of dates with a table partition of their own, ascending; only their
    rows are digested.
    """

    partitions: tuple[DateRange, ...]
    counts: DayCounts
    items: Mapping[int, RowsDigest]
    journal: Mapping[int, RowsDigest]

    def marks(self, places: Mapping[int, RowsDigest]) -> DayMarks:
        """Return the marks of all partitions; `places` are the digests of where open items are."""
        return DayMarks.joined(self.items, self.journal, places)


async def read_ledger_days(
    connection: Connection, scope: DateRange, key: int, *, is_digested: bool
) -> LedgerDays:
    """Read the days of a scope, in a snapshot for some ranges of dates each.

    Digests are of the whole ledger. Two equal marks of a window mean that its items and their
    journal are as they were, and where those are that have not ended. A change that is committed
    after a digest was read shows in a later one.
    """
    partitions = await list_partitions(connection)
    own = tuple(disjoint(partitions))
    counts: Counter[int] = Counter()
    items: dict[int, RowsDigest] = {}
    journal: dict[int, RowsDigest] = {}
    digested = own if is_digested else ()
    for dates in _parts(DateRange.around(digested), partitions):
        rows = await reconciled_rows.digest_days(connection, dates.from_date, dates.to_date, key)
        for row in rows:
            day = row["effective_date"].toordinal()
            items[day] = RowsDigest.of(row["items"], int(row["item_versions"]))
            journal[day] = RowsDigest.of(row["transitions"], int(row["transition_versions"]))
            counts[day] = max(items[day].rows, journal[day].rows)
    for span in compose(scope, digested):
        if span not in digested:
            for dates in _parts(span, partitions):
                counts.update(await _count_rows(connection, dates))
    return LedgerDays(own, DayCounts(counts), items, journal)


def _parts(whole: DateRange, partitions: Mapping[DateRange, int]) -> Iterator[DateRange]:
    inside = [(each, size) for each, size in partitions.items() if whole.contains(each)]
    return cut_by_bytes(whole, inside, DIGEST_BYTES_MAX)


async def _count_rows(connection: Connection, dates: DateRange) -> dict[int, int]:
    counted = await reconciled_rows.count_items_by_day(connection, dates.from_date, dates.to_date)
    return {day.toordinal(): count for day, count in counted.items()}


async def list_partitions(connection: Connection) -> dict[DateRange, int]:
    """Return the ranges of dates with a table partition of their own, ascending, and its bytes."""
    return {
        DateRange.of(from_date, to_date): size
        for from_date, to_date, size in await reconciled_rows.list_item_partitions(connection)
    }
