"""What the ledger says of each effective date, as a digest: the marks of the cache.

A digest is of which versions of rows a date has, whatever they say: every write makes another.
The dates of a range are digested together first, and each of them only where that shows a change.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, NamedTuple

import numpy as np

from dueledger.ledger.store import Connection, Record, reconciled_rows
from dueledger.reconciler.columns.expected_columns import EPOCH_DAY
from dueledger.reconciler.columns.fixed_width import Column
from dueledger.reconciler.read_ahead import paced
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

    @classmethod
    def sum(cls, parts: Iterable["RowsDigest"]) -> "RowsDigest":
        """Return the digest of the rows of all parts."""
        rows, totals = [*zip(*parts, strict=True)] or ((), ())
        return cls.of(sum(rows), sum(totals))


NO_ROWS: Final = RowsDigest()


class DayRows(NamedTuple):
    """The digests of a date's items and of its journal."""

    items: RowsDigest = NO_ROWS
    journal: RowsDigest = NO_ROWS

    @classmethod
    def of(cls, row: Record) -> "DayRows":
        """Return the digests that a statement gives of a date, or of a range of dates."""
        return cls(
            RowsDigest.of(row["items"], int(row["item_versions"])),
            RowsDigest.of(row["transitions"], int(row["transition_versions"])),
        )

    @property
    def count(self) -> int:
        """The number of items, or of the rows of the journal where those are more."""
        return max(self.items.rows, self.journal.rows)


_EMPTY: Final = DayRows()
KnownDays = Mapping[int, DayRows]
"""Digests by day, as a proleptic ordinal."""


class DayDigest(NamedTuple):
    """The digests of a date's rows, and of where its open items are."""

    rows: DayRows
    places: RowsDigest


def digests_by_day(days: Column, hashes: Column) -> dict[int, RowsDigest]:
    """Return the digest of the rows of each day, by proleptic ordinal; `days` are since 2000."""
    if not len(days):
        return {}
    first = int(days.min())
    places = days - first
    counts = np.bincount(places)
    totals = np.zeros(len(counts), dtype=np.uint64)
    hashed = np.flatnonzero(hashes)
    np.add.at(totals, places[hashed], hashes[hashed].view(np.uint64))
    found = np.flatnonzero(counts)
    columns = zip(found.tolist(), counts[found].tolist(), totals[found].tolist(), strict=True)
    return {first + day + EPOCH_DAY: RowsDigest(count, total) for day, count, total in columns}


@dataclass(frozen=True, slots=True)
class DayMarks:
    """The digest of each day with rows, by proleptic ordinal.

    `counts` are its items, or the rows of its journal where those are more.
    """

    digests: Mapping[int, DayDigest]
    counts: DayCounts

    @classmethod
    def joined(cls, rows: "KnownDays", places: Mapping[int, RowsDigest]) -> "DayMarks":
        """Return the marks of the days that any of these have."""
        digests = {
            day: DayDigest(rows.get(day, _EMPTY), places.get(day, NO_ROWS))
            for day in {*rows, *places}
        }
        return cls(digests, DayCounts({day: each.rows.count for day, each in digests.items()}))

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
    rows: KnownDays

    def marks(self, places: Mapping[int, RowsDigest]) -> DayMarks:
        """Return the marks of all partitions; `places` are the digests of where open items are."""
        return DayMarks.joined(self.rows, places)


async def read_ledger_days(
    connection: Connection,
    scope: DateRange,
    key: reconciled_rows.VersionKey,
    *,
    known: KnownDays | None,
    share: float = 1.0,
) -> LedgerDays:
    """Read the days of a scope, in a snapshot for some ranges of dates each.

    `known` are the digests that days had before; None: nothing is digested, and rows are counted.
    `share` is the greatest share of the time in which it reads.
    Digests are of the whole ledger. Two equal marks of a window mean that its items and their
    journal are as they were, and where those are that have not ended. A change that is committed
    after a digest was read shows in a later one.
    """
    partitions = await list_partitions(connection)
    own = tuple(disjoint(partitions))
    rows: dict[int, DayRows] = {}
    digested = () if known is None else own
    async for dates in paced(_parts(DateRange.around(digested), partitions), share):
        rows |= await _digest_days(connection, dates, key, known or {})
    counts = Counter({day: each.count for day, each in rows.items()})
    for span in compose(scope, digested):
        if span not in digested:
            async for dates in paced(_parts(span, partitions), share):
                counts.update(await _count_rows(connection, dates))
    return LedgerDays(own, DayCounts(counts), rows)


async def _digest_days(
    connection: Connection,
    dates: DateRange,
    key: reconciled_rows.VersionKey,
    known: KnownDays,
) -> dict[int, DayRows]:
    """Return the digests of a range's days: those that are known, if they still have its rows."""
    within = {day: each for day, each in known.items() if dates.has(day)}
    bounds = dates.from_date, dates.to_date
    if within:
        found = DayRows.of(await reconciled_rows.digest_dates(connection, *bounds, key))
        if found == DayRows(*map(RowsDigest.sum, zip(*within.values(), strict=True))):
            return within
    rows = await reconciled_rows.digest_days(connection, *bounds, key)
    return {row["effective_date"].toordinal(): DayRows.of(row) for row in rows}


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
