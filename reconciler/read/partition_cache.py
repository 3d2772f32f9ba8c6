"""What a pass hands on to the next one of its process: partitions that need no second reading.

What a partition's dates come to depends on its rows, on what is expected there, on the facts of its
kinds, on what excuses items, and on the time. All but the rows is compared in each pass. For the
rows stands a mark: PostgreSQL's counters of what was inserted, updated and deleted.

A pass reads the marks first, and rows after them. PostgreSQL counts a transaction after it has
become visible. So a change that the rows did not show came later than they were read, was counted
later still, and is not in the mark that was read before them: a later mark differs from it. What
the rows showed and the mark did not yet costs one reading too many. Counters only grow; that they
were reset or lost is in the mark too, by when it was and when the server began, so that no mark
comes twice. How late a change is counted has no bound (seconds as a rule, longer while its session
stays in a next transaction), and counting can be switched off by a superuser: therefore all is read
again from time to time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from dueledger.reconciler.compare.comparison import (
    ExpectedItem,
    FlowRules,
    KindKey,
    KindTally,
    WindowResult,
    no_tallies,
)
from dueledger.reconciler.expect.expectation import Expectation
from dueledger.reconciler.read.accounting import OpenSnapshot
from dueledger.reconciler.windows import DateRange, DayCounts

_LIVE: Final = ExpectedItem._fields.index("is_live")


@dataclass(frozen=True, slots=True)
class ExpectedDigest:
    """What is expected in a range of dates: counts, and sums of hashes that no order changes.

    The hashes are Python's, keyed by the process: equal only within one.
    """

    things: int = 0
    things_hash: int = 0
    live: int = 0
    live_hash: int = 0

    @classmethod
    def of(cls, expected: Mapping[bytes, tuple[Any, ...]]) -> "ExpectedDigest":
        """Sum up what is expected: rows of Expected by id."""
        live = [identity for identity, row in expected.items() if row[_LIVE]]
        return cls(len(expected), sum(map(hash, expected)), len(live), sum(map(hash, live)))

    def __add__(self, other: "ExpectedDigest") -> "ExpectedDigest":
        """Return what is expected in two ranges that do not overlap."""
        return ExpectedDigest(
            self.things + other.things,
            self.things_hash + other.things_hash,
            self.live + other.live,
            self.live_hash + other.live_hash,
        )


def digest_within(
    expectation: Expectation, window: DateRange, expected: DayCounts
) -> ExpectedDigest:
    """Sum up what is expected in a window, a day at a time."""
    owed = ExpectedDigest()
    for day in expected.days(window):
        owed += ExpectedDigest.of(expectation.read_window(DateRange(day, day + 1)))
    return owed


@dataclass(slots=True)
class PartitionResult:
    """What the dates of one partition came to when they were read: tallies, no rows.

    `as_of` is when, in business time; `changes_at` the first instant at which an open item becomes
    due or overdue.
    """

    mark: str
    as_of: datetime
    owed: ExpectedDigest = field(default_factory=ExpectedDigest)
    facts: dict[KindKey, FlowRules] = field(default_factory=dict[KindKey, FlowRules])
    tallies: dict[KindKey, KindTally] = field(default_factory=no_tallies)
    unverified: set[KindKey] = field(default_factory=set[KindKey])
    changes_at: datetime | None = None
    windows: int = 0
    is_settled: bool = True

    @property
    def items(self) -> int:
        """Count the items that stand there."""
        return sum(tally.open + sum(tally.ended.values()) for tally in self.tallies.values())

    def add(
        self, window: WindowResult, owed: ExpectedDigest, facts: Mapping[KindKey, FlowRules]
    ) -> None:
        """Add one window, of those that compose to the partition by ascending date."""
        self.windows += 1
        self.owed += owed
        self.is_settled = self.is_settled and window.is_settled
        self.unverified |= window.unverified
        for key, tally in window.tallies.items():
            self.tallies[key].merge(tally)
            self.facts[key] = facts[key]
        if window.changes_at is not None:
            self.changes_at = min(self.changes_at or window.changes_at, window.changes_at)

    def is_valid(self, mark: str, as_of: datetime, facts: Mapping[KindKey, FlowRules]) -> bool:
        """Tell whether rows, time and kinds are such that reading them again would say the same."""
        return (
            self.mark == mark
            and self.as_of <= as_of
            and (self.changes_at is None or as_of < self.changes_at)
            and all(facts.get(key) == known for key, known in self.facts.items())
        )


@dataclass(slots=True)
class PartitionCache:
    """What the last whole or carried pass of this process left: one reading a partition at most.

    Only passes that ended leave anything. `whole_seconds` is how old the last pass may be that read
    everything, in machine time.
    """

    full_pass_seconds: float = 3_600.0
    readings: dict[DateRange, PartitionResult] = field(
        default_factory=dict[DateRange, PartitionResult]
    )
    open: OpenSnapshot | None = None
    full_pass_at: datetime | None = None
    chained: set[int] = field(default_factory=set[int])
    triggered: set[int] = field(default_factory=set[int])

    def valid_results(
        self,
        marks: Mapping[DateRange, str],
        expectation: Expectation,
        facts: Mapping[KindKey, FlowRules],
        *,
        as_of: datetime,
        started_at: datetime,
    ) -> dict[DateRange, PartitionResult]:
        """Return the readings that still hold; none where all is to be read again."""
        if not self._excused_within(expectation) or self._is_stale(started_at):
            return {}
        expected = DayCounts(expectation.spool.counts)
        return {
            window: reading
            for window, mark in marks.items()
            if (reading := self.readings.get(window)) is not None
            and reading.is_valid(mark, as_of, facts)
            and reading.owed == digest_within(expectation, window, expected)
        }

    def replace(
        self,
        readings: Mapping[DateRange, PartitionResult],
        open_: OpenSnapshot | None,
        expectation: Expectation,
        *,
        whole_at: datetime | None,
    ) -> None:
        """Hand on what a pass came to that has ended; `whole_at` if it read everything."""
        self.readings = {window: each for window, each in readings.items() if each.is_settled}
        self.open = open_
        self.chained, self.triggered = expectation.chained, expectation.triggered
        self.full_pass_at = whole_at or self.full_pass_at

    def _excused_within(self, expectation: Expectation) -> bool:
        """Tell whether what excused an item before does so still."""
        return self.chained <= expectation.chained and self.triggered <= expectation.triggered

    def _is_stale(self, started_at: datetime) -> bool:
        age = None if self.full_pass_at is None else started_at - self.full_pass_at
        return age is None or not timedelta() <= age < timedelta(seconds=self.full_pass_seconds)


def merged_tallies(readings: Iterable[PartitionResult]) -> dict[KindKey, KindTally]:
    """Return the tallies of readings as one."""
    tallies = no_tallies()
    for reading in readings:
        for key, tally in reading.tallies.items():
            tallies[key].merge(tally)
    return tallies
