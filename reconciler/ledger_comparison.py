"""Compares the ledger with what is expected by ascending date, except what the cache has."""

from collections.abc import Mapping
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
from dueledger.reconciler.read.day_digests import NO_MARKS, DayMarks, read_marks
from dueledger.reconciler.read.item_columns import WindowColumns, read_columns
from dueledger.reconciler.read.item_rows import count_items_in_windows
from dueledger.reconciler.read.open_places import read_places
from dueledger.reconciler.read_ahead import read_ahead
from dueledger.reconciler.window_comparer import WindowComparer
from dueledger.reconciler.windows import DateRange, DayCounts, compose, disjoint, plan_windows

_FROM_DAY: Final = attrgetter("from_day")


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

    async def run(
        self, connection: Connection, reader: Connection, scope: DateRange
    ) -> dict[DateRange, CachedWindow]:
        """Compare a range of dates; return the results that a later pass may take.

        `reader` reads the items of the next window while one is compared.
        """
        places = await read_places(connection)  # before any item
        self._comparer.begin(places)
        marks, cached = NO_MARKS, dict[DateRange, CachedWindow]()
        result = self._result
        if self._cache is not None:
            marks = await read_marks((connection, reader), places)  # before any of their rows
            cached = self._cache.valid_results(
                marks,
                self._expectation,
                self._facts,
                as_of=result.as_of,
                started_at=result.started_at,
            )
        results = dict(cached)
        planned = await self._plan(connection, scope, marks, cached)
        keep = {each.window for each in planned if each.is_kept}
        windows = read_ahead(
            [each.window for each in planned],
            partial(read_columns, reader, says_payloads=self._expectation.says_payloads),
        )
        waiting = sorted(cached, key=_FROM_DAY, reverse=True)
        async with aclosing(windows):
            async for window, columns in windows:
                while waiting and waiting[-1].from_day < window.from_day:
                    kept = waiting.pop()
                    self._add_cached(kept, cached[kept])
                mark = marks.of(window) if window in keep else ""
                found = CachedWindow(mark, result.as_of, result.started_at)
                await self._compare(connection, window, columns, found)
                if mark:
                    results[window] = found
        for window in reversed(waiting):
            self._add_cached(window, cached[window])
        return results

    async def _plan(
        self,
        connection: Connection,
        scope: DateRange,
        marks: DayMarks,
        cached: Mapping[DateRange, CachedWindow],
    ) -> list[_Planned]:
        """Return the windows to be read, ascending; no window lies in two partitions."""
        partitions = set(disjoint(marks.partitions))
        unread = [
            (part, span in partitions)
            for span in compose(scope, sorted(partitions, key=_FROM_DAY))
            for part in compose(span, _within(span, cached))
            if part not in cached
        ]
        outside = [part for part, is_kept in unread if not is_kept]
        counts = await count_items_in_windows(connection, outside)
        expected = DayCounts(self._expectation.row_counts)
        for part, is_kept in unread:
            if is_kept:
                counts.update(marks.counts.within(part))
            counts.update(expected.within(part))
        days = DayCounts(counts)
        return [
            _Planned(window, is_kept)
            for part, is_kept in unread
            for window in plan_windows(days.within(part))
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
    ) -> None:
        """Compare a window, and record what differs."""
        omitted = self._result.omitted.total()
        if found.mark:
            found.owed = ExpectedDigest.of(self._expectation, window)
        compared, found.expected_count = await self._comparer.compare(connection, window, columns)
        self._result.expected_count += found.expected_count
        found.put(compared, self._facts)
        await self._findings.record(connection, window, compared)
        is_listed = omitted == self._result.omitted.total()
        found.is_settled = found.is_settled and compared.is_settled and is_listed


def _within(span: DateRange, cached: Mapping[DateRange, CachedWindow]) -> list[DateRange]:
    return sorted((window for window in cached if span.contains(window)), key=_FROM_DAY)
