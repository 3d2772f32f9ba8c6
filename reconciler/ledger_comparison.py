"""Compares the ledger with what is expected by ascending date, except what the cache has."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from functools import partial
from operator import attrgetter
from typing import Final, NamedTuple, final

from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.store import Connection
from dueledger.reconciler.compare.comparison import FlowRules
from dueledger.reconciler.compared_items import KindKey
from dueledger.reconciler.expect.expectation import Expectation
from dueledger.reconciler.find.recorder import FindingRecorder
from dueledger.reconciler.find.window_findings import WindowFindings
from dueledger.reconciler.partition_cache import CachedWindow, ExpectedDigest, PartitionCache
from dueledger.reconciler.pass_result import PassResult
from dueledger.reconciler.read.day_digests import (
    DayMarks,
    KnownDays,
    LedgerDays,
    RowsDigest,
)
from dueledger.reconciler.read.item_columns import WindowColumns, read_window
from dueledger.reconciler.read.open_places import read_places
from dueledger.reconciler.read.run_counts import RunCounts
from dueledger.reconciler.read_ahead import read_ahead
from dueledger.reconciler.window_comparer import WindowComparer
from dueledger.reconciler.windows import DateRange, DayCounts, compose, plan_windows

_FROM_DAY: Final = attrgetter("from_day")


class ComparedDates(NamedTuple):
    """What a later pass may take: results of windows, and the digests of all days."""

    results: dict[DateRange, CachedWindow]
    days: KnownDays


class _Planned(NamedTuple):
    """A window to be read. It can be kept if a partition has all of its dates."""

    window: DateRange
    is_kept: bool


@final
class LedgerComparison:
    """The windows of one pass. `facts` are the rules of its kinds."""

    def __init__(
        self,
        comparer: WindowComparer,
        expectation: Expectation,
        result: PassResult,
        *,
        findings: WindowFindings,
        recorder: FindingRecorder,
        cache: PartitionCache | None,
        facts: Mapping[KindKey, FlowRules],
    ) -> None:
        self._comparer = comparer
        self._recorder = recorder
        self._expectation = expectation
        self._result = result
        self._findings = findings
        self._cache = cache
        self._facts = facts
        self._places: Mapping[int, RowsDigest] = {}
        self._days: KnownDays = {}
        self.cached: Mapping[DateRange, CachedWindow] = {}
        """The windows that were taken from the cache, with their results."""
        self.runs = RunCounts()
        """How many transitions name each run, in the windows that were read."""

    async def run(
        self,
        connection: Connection,
        readers: Sequence[Connection],
        scope: DateRange,
        days: LedgerDays,
    ) -> ComparedDates:
        """Compare a range of dates; return what a later pass may take.

        `readers` read the items of the next windows while one is compared; a pass that rests has
        only the first read. `days` was read before any of their rows.
        """
        places = await read_places(connection, self._expectation.version_key)  # before any item
        self._comparer.begin(places)
        self._places, self._days = places.digests(), days.rows
        result, expectation, cache = self._result, self._expectation, self._cache
        cached: dict[DateRange, CachedWindow] = {}
        if cache is not None and days.rows:
            cached = cache.valid_results(
                days.marks(self._places),
                days.partitions,
                expectation,
                self._facts,
                as_of=result.as_of,
            )
        self.cached, results = cached, dict(cached)
        planned = self._plan(scope, days, cached)
        keep = {each.window for each in planned if each.is_kept}
        windows = read_ahead(
            [each.window for each in planned],
            *(
                partial(
                    read_window,
                    reader,
                    key=expectation.version_key,
                    says_payloads=expectation.says_payloads,
                )
                for reader in (readers if expectation.share == 1 else readers[:1])
            ),
            share=expectation.share,
        )
        waiting = sorted(cached, key=_FROM_DAY, reverse=True)
        async with aclosing(windows):
            async for window, columns in windows:
                while waiting and waiting[-1].from_day < window.from_day:
                    kept = waiting.pop()
                    self._add_cached(kept, cached[kept])
                found = CachedWindow("", result.as_of, result.started_at)
                await self._compare(connection, window, columns, found, is_kept=window in keep)
                if found.mark:
                    results[window] = found
        for window in reversed(waiting):
            self._add_cached(window, cached[window])
        return ComparedDates(results, self._days)

    def _plan(
        self, scope: DateRange, days: LedgerDays, cached: Mapping[DateRange, CachedWindow]
    ) -> list[_Planned]:
        """Return the windows to be read, ascending.

        With a cache no window lies in two partitions. Without one, an item whose date was edited
        meets what is expected of it more often.
        """
        own = () if self._cache is None else days.partitions
        partitions = set(own)
        unread = [
            (part, span in partitions)
            for span in compose(scope, own)
            for part in compose(span, _within(span, cached))
            if part not in cached
        ]
        expected = DayCounts(self._expectation.row_counts)
        counts: Counter[int] = Counter()
        for part, _ in unread:
            counts.update(days.counts.within(part))
            counts.update(expected.within(part))
        rows = DayCounts(counts)
        return [
            _Planned(window, is_kept)
            for part, is_kept in unread
            for window in plan_windows(rows.within(part))
        ]

    def _add_cached(self, window: DateRange, found: CachedWindow) -> None:
        """Add what an earlier pass read, as if this one had read it. Windows ascend."""
        result = self._result
        result.expected_count += found.expected_count
        result.comparison.merge(found.tallies)
        for key, tally in found.tallies.items():
            self._recorder.add_known(FindingType.LATE, key, tally.lateness.late_count)
            result.earlier[key] += tally.items
        result.oldest_unread = result.oldest_unread or (window.from_date, found.read_at)
        result.cached_windows += 1
        result.cached_items += found.items

    async def _compare(
        self,
        connection: Connection,
        window: DateRange,
        columns: WindowColumns,
        found: CachedWindow,
        *,
        is_kept: bool,
    ) -> None:
        """Compare a window, and record what differs."""
        omitted = self._result.omitted.total()
        self.runs.add(columns.journal["run"])
        days = columns.day_rows
        self._days = {day: each for day, each in self._days.items() if not window.has(day)} | days
        if is_kept:
            found.mark = DayMarks.joined(days, self._places).of(window)
            found.owed = ExpectedDigest.of(self._expectation, window)
        compared, found.expected_count = await self._comparer.compare(connection, window, columns)
        self._result.expected_count += found.expected_count
        found.put(compared, self._facts)
        await self._findings.record(connection, window, compared)
        await self._recorder.record_past_load(connection, window, compared.past)
        is_listed = omitted == self._result.omitted.total()
        found.is_settled = found.is_settled and compared.is_settled and is_listed


def _within(span: DateRange, cached: Mapping[DateRange, CachedWindow]) -> list[DateRange]:
    return sorted((window for window in cached if span.contains(window)), key=_FROM_DAY)
