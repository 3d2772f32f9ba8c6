"""Results of windows of dates that a pass keeps for the next one of its process.

The result of a window depends on its rows, on where its open items are, on what is expected
there, on the facts of its kinds, on what explains items, and on the time. Each pass compares all of
these. Of the rows it compares digests by day of which versions they are: whatever is written to a
row, its digest differs. From time to time everything is read again all the same.

A window that is read comes with the versions of its rows, and what is looked up after it is newer.
A change in between is in what was compared and not in the digest, so the next pass reads the window
once more than needed.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np

from dueledger.ledger.store.reconciled_rows import VersionKey, VersionSource
from dueledger.reconciler.columns.expected_columns import ABSENT
from dueledger.reconciler.columns.plain_rows import KeptRows
from dueledger.reconciler.compare.comparison import FlowRules, WindowResult
from dueledger.reconciler.compared_items import ID, SUBJECT, KindKey
from dueledger.reconciler.expect.expectation import Expectation
from dueledger.reconciler.read.day_digests import DayMarks, DayRows, KnownDays
from dueledger.reconciler.tallies import KindTally, no_tallies
from dueledger.reconciler.windows import DateRange

_NEVER: Final = datetime.min.replace(tzinfo=UTC)
_KEY_AGE_MAX: Final = timedelta(days=1)
_TRANSACTIONS_MAX: Final = 2**30


@dataclass(frozen=True, slots=True)
class ExpectedDigest:
    """What is expected in a range of dates: how many rows, and a sum of hashes in any order.

    The hashes are Python's, with a key of the process: comparable only within one process.
    """

    rows: int = 0
    rows_hash: int = 0

    @classmethod
    def of(cls, expectation: Expectation, window: DateRange) -> "ExpectedDigest":
        """Return the digest of a window: of all rows, and of what withdraws their items."""
        rows, total = expectation.plain.digest(window.from_day, window.to_day)
        withdrawn = expectation.withdrawn
        for row in expectation.read_rows(window):
            rows += 1
            total += hash(row)
            if withdrawals := withdrawn.of_subject(row[SUBJECT]):
                total += hash((row[ID], tuple(withdrawals)))
        if withdrawn.digests:
            plain = expectation.read_plain(window).columns
            hashes = np.array(list(withdrawn.digests), dtype=np.int64)
            at = np.flatnonzero(np.isin(plain["subject"], hashes) & (plain["event"] != ABSENT))
            subjects, lows = plain["subject"][at].tolist(), plain["low"][at].tolist()
            total += sum(
                hash((low, withdrawn.digests[subject]))
                for subject, low in zip(subjects, lows, strict=True)
            )
        return cls(rows, total)


@dataclass(slots=True)
class CachedWindow:
    """The result of one window of dates: tallies, no rows. `mark` is '' if it cannot be kept.

    `as_of` is when it was read, in business time, and `read_at` in machine time; `changes_at` is
    the first instant at which an open item becomes due or overdue.
    """

    mark: str
    as_of: datetime
    read_at: datetime
    owed: ExpectedDigest = field(default_factory=ExpectedDigest)
    facts: dict[KindKey, FlowRules] = field(default_factory=dict[KindKey, FlowRules])
    tallies: dict[KindKey, KindTally] = field(default_factory=no_tallies)
    changes_at: datetime | None = None
    expected_count: int = 0
    is_settled: bool = True

    @property
    def items(self) -> int:
        """Count the items of the window."""
        return sum(tally.items for tally in self.tallies.values())

    def put(self, found: WindowResult, facts: Mapping[KindKey, FlowRules]) -> None:
        """Keep what was found in the window."""
        self.is_settled = found.is_settled
        self.changes_at = found.changes_at
        for key, tally in found.tallies.items():
            self.tallies[key].merge(tally)
            self.facts[key] = facts[key]

    def is_valid(self, mark: str, as_of: datetime, facts: Mapping[KindKey, FlowRules]) -> bool:
        """Return whether reading the rows again would give the same result."""
        return (
            self.mark == mark
            and self.as_of <= as_of
            and (self.changes_at is None or as_of < self.changes_at)
            and all(facts.get(key) == known for key, known in self.facts.items())
        )


@dataclass(slots=True)
class PartitionCache:
    """Results of the last pass of this process, for windows that do not overlap.

    Only a pass that ended writes to it. `full_pass_seconds` is how old the last pass that read
    everything may be, in machine time. `rows` has what was expected, and `days` the digests of the
    dates of all windows, also of those that cannot be kept. `places_fit` is whether all that waited
    or was parked was so as its item says.
    """

    full_pass_seconds: float = 3_600.0
    results: dict[DateRange, CachedWindow] = field(default_factory=dict[DateRange, CachedWindow])
    rows: KeptRows = field(default_factory=KeptRows)
    days: KnownDays = field(default_factory=dict[int, DayRows])
    source: VersionSource | None = None
    keyed_at: datetime = _NEVER
    full_pass_at: datetime = _NEVER
    chained: set[int] = field(default_factory=set[int])
    triggered: set[int] = field(default_factory=set[int])
    expedited: set[int] = field(default_factory=set[int])
    places_fit: bool = False

    def take_key(self, now: VersionSource, started_at: datetime) -> VersionKey:
        """Return the key for versions of rows. With a new one, nothing is known any more.

        It is a new one each day; where a partition is gone, because another, filled before, may
        have its rows; and while numbers of transactions may be those of earlier ones.
        """
        known = self.source
        if (
            known is None
            or known.key.key != now.key.key
            or now.key.since - known.key.since > _TRANSACTIONS_MAX
            or not known.partitions <= now.partitions
            or not timedelta() <= started_at - self.keyed_at < _KEY_AGE_MAX
        ):
            known, self.keyed_at = now, started_at
            self.results, self.days = {}, {}
        self.source = known._replace(partitions=now.partitions)
        return known.key

    def known_days(self, started_at: datetime) -> KnownDays | None:
        """Return the digests of dates; None if everything is to be read again."""
        return self.days if self._is_usable(started_at) else None

    def valid_results(
        self,
        marks: DayMarks,
        partitions: Collection[DateRange],
        expectation: Expectation,
        facts: Mapping[KindKey, FlowRules],
        *,
        as_of: datetime,
    ) -> dict[DateRange, CachedWindow]:
        """Return the results of windows within these partitions that are still valid."""
        if not self._explains_as_before(expectation):
            return {}
        return {
            window: result
            for window, result in self.results.items()
            if any(partition.contains(window) for partition in partitions)
            and result.is_valid(marks.of(window), as_of, facts)
            and result.owed == ExpectedDigest.of(expectation, window)
        }

    def replace(
        self,
        results: Mapping[DateRange, CachedWindow],
        days: KnownDays,
        expectation: Expectation,
        *,
        full_pass_at: datetime,
        places_fit: bool,
    ) -> None:
        """Keep the results of a pass that ended; the last one to read everything began then."""
        self.results = {window: each for window, each in results.items() if each.is_settled}
        self.days = days
        self.chained, self.triggered = expectation.chained, expectation.triggered
        self.expedited = expectation.expedited
        self.full_pass_at = full_pass_at
        self.places_fit = places_fit
        self.rows.keep(expectation.plain.units)

    def _is_usable(self, started_at: datetime) -> bool:
        """Return whether results may be valid; otherwise everything is to be read again."""
        age = started_at - self.full_pass_at
        is_recent = timedelta() <= age < timedelta(seconds=self.full_pass_seconds)
        return bool(self.results) and is_recent

    def _explains_as_before(self, expectation: Expectation) -> bool:
        """Return whether everything that explained an item still does."""
        return (
            self.chained <= expectation.chained
            and self.triggered <= expectation.triggered
            and self.expedited <= expectation.expedited
        )
