"""One pass: compute what is expected, compare it with the ledger, record what differs."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing, asynccontextmanager
from datetime import datetime
from time import monotonic, process_time
from typing import Final

from dueledger.ledger.finding_types import WHOLE_LEDGER, FindingType
from dueledger.ledger.runtime.service import crash_point
from dueledger.ledger.schedule import tzdata_version
from dueledger.ledger.store import Connection, Pool, Record, items, reconciled_rows
from dueledger.reconciler.columns.engine import open_engine
from dueledger.reconciler.columns.plain_rows import KeptRows
from dueledger.reconciler.compare.agreement import EndingGrounds
from dueledger.reconciler.compare.comparison import Comparison
from dueledger.reconciler.expect.build_expectation import build_expectation
from dueledger.reconciler.expect.expectation import Expectation
from dueledger.reconciler.expect.versions import FailedVersion
from dueledger.reconciler.find.chain_findings import find_unfit_chains
from dueledger.reconciler.find.effect_findings import find_effects
from dueledger.reconciler.find.event_findings import (
    find_altered_events,
    find_doubted_tenants,
    find_event_findings,
    read_altered_events,
)
from dueledger.reconciler.find.findings import (
    clock_set_back,
    definition_changed,
    definition_failed,
    outcome_rejected,
    source_failed,
    unbalanced,
)
from dueledger.reconciler.find.place_findings import find_beside_items
from dueledger.reconciler.find.recorder import FindingRecorder, row_max
from dueledger.reconciler.find.run_findings import find_unrecorded_endings, known_suspects
from dueledger.reconciler.find.window_findings import EvidenceChecks, WindowFindings
from dueledger.reconciler.kafka_check import KafkaCheck
from dueledger.reconciler.ledger_comparison import LedgerComparison
from dueledger.reconciler.ledger_flows import LedgerFlows
from dueledger.reconciler.partition_cache import PartitionCache
from dueledger.reconciler.pass_end import counts_of, end_pass
from dueledger.reconciler.pass_record import PassRecord
from dueledger.reconciler.pass_result import PassLimits, PassResult, PassScope
from dueledger.reconciler.read.accounting import read_accounting, read_accounting_beside
from dueledger.reconciler.read.day_digests import LedgerDays, read_ledger_days
from dueledger.reconciler.read.run_counts import RunCounts, suspect_runs
from dueledger.reconciler.read_ahead import parts_beside, reading_beside
from dueledger.reconciler.second_opinion import SecondOpinion
from dueledger.reconciler.sources_file import ReconcilerSources
from dueledger.reconciler.window_comparer import WindowComparer
from dueledger.reconciler.windows import DateRange

_LISTS_AHEAD: Final = 8


class ReconciliationPass:
    """One bounded pass over a scope. One object for each pass; safe to repeat after any failure.

    `cache` has the results of an earlier pass of the same process. A partition that cannot have
    changed since is taken from it. It is used only where the scope is the whole ledger.
    `record` keeps what is found. `second_opinion` asks the witness. `kafka` compares claims with
    Kafka in a pass over the whole ledger.
    """

    def __init__(
        self,
        pool: Pool,
        sources: ReconcilerSources,
        *,
        record: PassRecord,
        scope: PassScope,
        limits: PassLimits,
        cache: PartitionCache | None = None,
        second_opinion: SecondOpinion | None = None,
        kafka: KafkaCheck | None = None,
    ) -> None:
        self._pool = pool
        self._second_opinion = second_opinion or SecondOpinion()
        self._sources = sources
        self._record = record
        self._scope = scope
        self._limits = limits
        self._evidence = EvidenceChecks(sources.evidence)
        self._kafka = kafka if scope.whole else None
        self._cache = cache if scope.whole else None
        self._rows = KeptRows() if self._cache is None else self._cache.rows
        self._cpu_began = 0.0
        self._unread: set[tuple[str, str, str]] = set()

    async def run(self) -> PassResult:
        """Read, compare, record and close findings; return the counts."""
        began, self._cpu_began = monotonic(), process_time()
        async with (
            self._pool.acquire() as connection,
            self._pool.acquire() as reader,
            self._pool.acquire() as counter,
        ):
            opened = await self._record.begin(connection, self._scope)
            crash_point("reconcile.begun")
            # Before the inbox: what is read into it meanwhile may not be in what this pass reads.
            backlog = await self._kafka.events.read_backlog() if self._kafka else None
            source = await reconciled_rows.read_version_key(connection)
            key, known = source.key, None
            if self._cache is not None:
                key = self._cache.take_key(source, opened.started_at)
                known = self._cache.known_days(opened.started_at)
            scope, share = self._scope.window, self._limits.share
            reads = read_ledger_days(counter, scope, key, known=known, share=share)
            async with (
                reading_beside(reads) as days,
                self._altered_events(counter, days, is_known_full=known is None) as altered,
                build_expectation(
                    connection,
                    self._sources.populations,
                    opened.as_of,
                    reader=reader,
                    kept=self._rows,
                    version_key=key,
                    share=share,
                ) as expectation,
            ):
                flows = LedgerFlows(expectation, self._evidence.by_kind)
                await flows.read(connection)
                comparison = _comparison_of(expectation, flows, opened.as_of)
                result = PassResult(
                    opened.reconciliation_no,
                    opened.as_of,
                    opened.started_at,
                    comparison,
                    scope=self._scope,
                    everything_read_at=opened.started_at,
                )
                result.latest_as_of = opened.latest_as_of
                result.backlog = backlog
                self._recorder = FindingRecorder(result, self._limits.findings_max, self._record)
                result.witness_credit_seconds = opened.witness_credit_seconds
                result.expectation = expectation
                result.sources = [*expectation.reads, *self._evidence.reads.values()]
                self._window_findings = WindowFindings(
                    expectation,
                    flows,
                    self._evidence,
                    result,
                    recorder=self._recorder,
                    findings_max=self._limits.findings_max,
                )
                if altered is not None:
                    await find_altered_events(altered, self._recorder)
                await find_effects(connection, self._evidence, self._recorder, self._scope)
                with open_engine() as engine:
                    comparer = WindowComparer(engine, expectation, comparison, flows)
                    comparing = LedgerComparison(
                        comparer,
                        expectation,
                        result,
                        findings=self._window_findings,
                        recorder=self._recorder,
                        cache=self._cache,
                        facts=flows.of_kinds,
                    )
                    compared = await comparing.run(connection, (reader, counter), scope, await days)
                result.evidenced = self._evidence.checked_kinds()
                result.both_ways = self._evidence.kinds_both_ways()
                if self._kafka is not None:
                    await self._kafka.run(
                        connection,
                        self._recorder,
                        result,
                        absent=self._window_findings.absent,
                        is_full=self._is_full(result),
                    )
                await self._check_runs(connection, flows, result, comparing.runs)
                await self._check_inbox(connection, result, is_checked=altered is not None)
                places_fit = await self._check_whole_ledger(
                    connection, expectation, flows, result, comparing.cached
                )
                await self._recorder.flush(connection)
                crash_point("reconcile.found")
                await end_pass(
                    connection,
                    self._record,
                    self._scope,
                    expectation,
                    result,
                    unjudged=self._evidence.unjudged | self._unread,
                    graces=flows.graces,
                )
                crash_point("reconcile.ended")
                result.duration_seconds = monotonic() - began
                await self._record.finish(
                    connection,
                    counts_of(result),
                    witness_credit_seconds=result.witness_credit_seconds,
                )
                if self._cache is not None:
                    if result.cached_windows:
                        result.everything_read_at = self._cache.full_pass_at
                    self._cache.replace(
                        *compared,
                        expectation,
                        full_pass_at=result.everything_read_at,
                        places_fit=places_fit,
                    )
        return result

    async def _check_runs(
        self, connection: Connection, flows: LedgerFlows, result: PassResult, counts: RunCounts
    ) -> None:
        """Hold closed runs against the journal: all, if all of it was read, else those known."""
        await find_unrecorded_endings(
            connection,
            suspect_runs(connection, counts, result.as_of)
            if self._is_full(result)
            else known_suspects(connection, self._record),
            flows,
            self._recorder,
            scope=self._scope,
            shown=self._window_findings.contradicted,
        )

    @asynccontextmanager
    async def _altered_events(
        self, connection: Connection, days: "asyncio.Task[LedgerDays]", *, is_known_full: bool
    ) -> AsyncGenerator[AsyncGenerator[list[Record]] | None]:
        """Hold the inbox against what was received, while sources are read; None: not yet.

        `connection` is free after `days`. A pass that rests does one thing at a time.
        """
        if not (self._scope.whole and is_known_full and self._limits.share == 1):
            yield None
            return

        async def altered() -> AsyncGenerator[list[Record]]:
            await asyncio.wait({days})
            async with aclosing(self._read_altered_events(connection)) as lists:
                async for rows in lists:
                    yield rows

        async with parts_beside(altered(), _LISTS_AHEAD) as ahead:
            yield ahead

    def _read_altered_events(self, connection: Connection) -> AsyncGenerator[list[Record]]:
        limits = self._limits
        return read_altered_events(connection, row_max(limits.findings_max), limits.share)

    async def _check_inbox(
        self, connection: Connection, result: PassResult, *, is_checked: bool
    ) -> None:
        """Hold the inbox against what was received, or leave findings of it as they are."""
        if is_checked:
            return
        if self._is_full(result):
            await find_altered_events(self._read_altered_events(connection), self._recorder)
        else:
            tenants = await find_doubted_tenants(connection, self._record)
            self._unread = {(FindingType.TAMPERED, tenant, WHOLE_LEDGER) for tenant in tenants}

    def _is_full(self, result: PassResult) -> bool:
        """Return whether the pass reads everything."""
        return self._scope.whole and not result.cached_windows

    async def _check_whole_ledger(
        self,
        connection: Connection,
        expectation: Expectation,
        flows: LedgerFlows,
        result: PassResult,
        cached: Iterable[DateRange],
    ) -> bool:
        """Find what is wrong with runs, claims, keys, the accounting, sources and definitions.

        Return whether all places fit their items. In `cached` windows they do if they all did.
        """
        await find_unfit_chains(connection, expectation.versions, self._recorder)
        unfit_kinds = await find_beside_items(
            connection,
            flows,
            self._recorder,
            self._limits.stuck_seconds,
            fit_windows=cached if self._cache is not None and self._cache.places_fit else (),
        )
        unbalanced_kinds = self._window_findings.unbalanced | unfit_kinds
        self._recorder.add(
            await find_event_findings(
                connection, expectation, self._sources.ignored_events, self._recorder
            )
        )
        self._recorder.add(
            outcome_rejected(*verb_and_reason, count)
            for verb_and_reason, count in (
                await reconciled_rows.count_rejected_writes(connection)
            ).items()
        )
        result.accounting = await self._read_accounting(connection, flows, result)
        self._recorder.add(
            unbalanced(row.tenant, row.kind, row.items, _places(row))
            for row in result.accounting
            if row.difference and (row.tenant, row.kind) not in unbalanced_kinds
        )
        self._recorder.add(
            source_failed(read.name, read.failure, read.kinds)
            for read in result.sources
            if read.failure
        )
        self._recorder.add(
            definition_changed(failed.tenant, failed.kind, failed.name, failed.version)
            if failed.is_changed
            else definition_failed(
                failed.tenant, failed.kind, failed.name, failed.version, failed.reason
            )
            for failed in _failed_once(expectation)
            if not failed.has_finding
        )
        if result.latest_as_of is not None and result.as_of < result.latest_as_of:
            self._recorder.add((clock_set_back(result.as_of, result.latest_as_of),))
        cpu_seconds = process_time() - self._cpu_began
        opinions = await self._second_opinion.find(
            connection,
            expectation.versions,
            result.as_of,
            record=self._record,
            credit_seconds=result.witness_credit_seconds,
            pass_cpu_seconds=cpu_seconds,
        )
        result.witness_credit_seconds = opinions.credit_seconds
        self._recorder.add(opinions.findings)
        return not unfit_kinds

    async def _read_accounting(
        self, connection: Connection, flows: LedgerFlows, result: PassResult
    ) -> list[items.Accounting]:
        """Read the accounting: by what was compared if it balances so, else in full."""
        everything = PassScope().window
        if not self._scope.whole:
            return await read_accounting(connection, everything)
        rows = await read_accounting_beside(connection, flows.of_kinds, result.comparison.tallies)
        if any(row.difference for row in rows):
            rows = await read_accounting(connection, everything)
        return rows


def _comparison_of(expectation: Expectation, flows: LedgerFlows, as_of: datetime) -> Comparison:
    return Comparison(
        as_of,
        flows.rules,
        expectation.is_explained,
        expectation.is_beyond_horizon,
        expectation.expedited,
        is_link=expectation.is_link,
        grounds=EndingGrounds(
            expectation.withdrawals_of,
            expectation.replaced_at,
            expectation.missed_after,
            tzdata_version(),
        ),
    )


def _failed_once(expectation: Expectation) -> Iterable[FailedVersion]:
    """Return one failure of each definition: in this pass, or else in the materialiser."""
    failed: dict[tuple[str, str, str], FailedVersion] = {}
    for each in (*expectation.failures, *expectation.unmaterialised):
        failed.setdefault((each.tenant, each.kind, each.name), each)
    return failed.values()


def _places(row: items.Accounting) -> dict[str, int]:
    return {
        "pending": row.pending,
        "handed_out": row.handed_out,
        "running": row.running,
        "reviews": row.reviews,
        "ended": row.items - row.open - row.difference,
    }
