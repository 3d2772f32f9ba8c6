"""One pass: read what should be, hold it against what is, record what differs."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from time import monotonic
from typing import Final
from uuid import UUID

import orjson

from ledger.service import crash_point
from ledger.store import Connection, Pool, findings, items
from ledger.store.actors import ActorKind, incarnation, register_actor
from reconciler import item_findings
from reconciler.comparison import (
    Actual,
    Comparison,
    Expected,
    FlowFacts,
    KindKey,
    WindowResult,
)
from reconciler.expectation import Expectation, FailedVersion, gather_expectation
from reconciler.findings import (
    definition_failed,
    source_failed,
    stuck_claim,
    stuck_run,
    unbalanced,
)
from reconciler.pass_result import (
    EXPECTATION_TYPES,
    JUDGED,
    Limits,
    PassResult,
    Scope,
)
from reconciler.recording import Recorder, population_record
from reconciler.settings import Sources
from reconciler.sources import Evidence, SourceFailed, SourceRead, WantedEvidence
from reconciler.terms import terms_of_population
from reconciler.vocabulary import FindingType, Resolution
from reconciler.windows import plan_windows

PAGE_ROWS: Final = 10_000
RECORDED_ROWS: Final = 1_000
STUCK_MAX: Final = 1_000


class Pass:
    """One bounded pass over a scope. Made anew for each; safe to repeat after any failure."""

    def __init__(
        self, pool: Pool, sources: Sources, *, actor_no: int, scope: Scope, limits: Limits
    ) -> None:
        self._pool = pool
        self._sources = sources
        self._actor_no = actor_no
        self._scope = scope
        self._limits = limits
        self._unjudged: set[tuple[str, str, str]] = set()
        self._evidence: defaultdict[KindKey, list[Evidence]] = defaultdict(list)
        self._evidence_reads: dict[str, SourceRead] = {}
        for evidence in sources.evidence:
            self._evidence[evidence.tenant, evidence.kind].append(evidence)
            self._evidence_reads[evidence.name] = SourceRead(
                evidence.name, "evidence", evidence.digest
            )

    async def run(self) -> PassResult:
        """Read, compare, record and close; return what was seen."""
        began = monotonic()
        async with self._pool.acquire() as connection:
            opened = await findings.begin_reconciliation(
                connection,
                actor_no=self._actor_no,
                scope=orjson.dumps(
                    {"from_date": self._scope.from_date, "to_date": self._scope.to_date}
                ).decode(),
            )
            async with gather_expectation(
                connection, self._sources.populations, opened.as_of
            ) as expectation:
                comparison = await self._comparison(connection, expectation, opened.as_of)
                result = PassResult(
                    opened.reconciliation_no, opened.as_of, opened.started_at, comparison
                )
                self._recorder = Recorder(result, self._limits.findings_max)
                result.expectation = expectation
                result.sources = [*expectation.reads, *self._evidence_reads.values()]
                await self._compare_windows(connection, expectation, result)
                await self._look_at_the_whole(connection, expectation, result)
                await self._recorder.flush(connection)
                crash_point("reconcile.found")
                await self._conclude(connection, expectation, result)
                result.duration_seconds = monotonic() - began
                await findings.finish_reconciliation(
                    connection, opened.reconciliation_no, _counts(result)
                )
        return result

    async def _comparison(
        self, connection: Connection, expectation: Expectation, as_of: datetime
    ) -> Comparison:
        flows = {
            row["flow_no"]: FlowFacts(
                tenant=row["tenant"],
                kind=row["kind"],
                grace=timedelta(seconds=row["grace_seconds"]),
                covered=expectation.covers(row["tenant"], row["kind"]),
                single=expectation.is_single(row["tenant"], row["kind"]),
                evidenced=(row["tenant"], row["kind"]) in self._evidence,
            )
            for row in await findings.list_flow_facts(connection)
        }
        return Comparison(as_of, flows, expectation.excuses)

    async def _compare_windows(
        self, connection: Connection, expectation: Expectation, result: PassResult
    ) -> None:
        scope = self._scope
        days = Counter(
            {
                day.toordinal(): count
                for day, count in (
                    await findings.count_items_by_day(connection, scope.from_date, scope.to_date)
                ).items()
            }
        )
        from_day, to_day = scope.from_date.toordinal(), scope.to_date.toordinal()
        for day, count in expectation.spool.counts.items():
            if from_day <= day < to_day:
                days[day] += count
        for window in plan_windows(days):
            expected = expectation.read_window(window)
            result.expected_count += len(expected)
            part = result.comparison.begin(expected)
            after = (window.from_date, 0)
            while True:
                rows = await findings.list_item_outcomes(
                    connection, window.from_date, window.to_date, after=after, page_size=PAGE_ROWS
                )
                await self._meet_new_flows(connection, expectation, result.comparison, rows)
                part.add([Actual._make(row) for row in rows])
                if len(rows) < PAGE_ROWS:
                    break
                after = (rows[-1]["effective_date"], rows[-1]["item_no"])
            await self._tell_window(connection, expectation, part.finish(), result)

    async def _meet_new_flows(
        self,
        connection: Connection,
        expectation: Expectation,
        comparison: Comparison,
        rows: Sequence[findings.Record],
    ) -> None:
        """Learn flows that were made since the pass began."""
        if any(row["flow_no"] not in comparison.flows for row in rows):
            fresh = await self._comparison(connection, expectation, comparison.as_of)
            comparison.flows.update(fresh.flows)

    async def _tell_window(
        self,
        connection: Connection,
        expectation: Expectation,
        window: WindowResult,
        result: PassResult,
    ) -> None:
        """Turn what differs in one window into findings, after looking again where it may heal."""
        flows = result.comparison.flows
        missing = await self._still_missing(connection, window.missing)
        for expected in missing:
            result.missing[expected.tenant, expected.kind] += 1
            tally = result.comparison.tallies[expected.tenant, expected.kind]
            tally.expected += 1
        terms = await expectation.terms_of(connection, missing[: self._limits.findings_max])
        self._recorder.take(
            item_findings.missing(
                expected,
                expectation.reads[expected.source].name,
                terms.get(expected.id)
                or (
                    terms_of_population(expected)
                    if expectation.is_population(expected.source)
                    else None
                ),
            )
            for expected in missing
        )
        explained = await expectation.implied_since(connection, window.unexpected)
        for item in window.unexpected:
            flow = flows[item.flow_no]
            if item.id in explained:
                result.comparison.tallies[flow.tenant, flow.kind].expected += 1
                continue
            result.unexpected[flow.tenant, flow.kind] += 1
            self._recorder.take((item_findings.unexpected(item, flow),))
        for pair in window.duplicates:
            flow = flows[pair.extra.flow_no]
            result.unexpected[flow.tenant, flow.kind] += 1
            self._recorder.take((item_findings.duplicate(pair, flow),))
        self._recorder.take(item_findings.late(item, flows[item.flow_no]) for item in window.late)
        await self._tell_overdue(connection, window.overdue, result)
        await self._tell_effects(window.evidenced, result)
        await self._recorder.flush(connection)

    async def _still_missing(
        self, connection: Connection, missing: Sequence[Expected]
    ) -> list[Expected]:
        """Leave out what was emitted while this pass read, or ended years ago."""
        found: set[bytes] = set()
        for begin in range(0, len(missing), PAGE_ROWS):
            chunk = missing[begin : begin + PAGE_ROWS]
            found |= await findings.find_known_ids(
                connection, [UUID(bytes=expected.id) for expected in chunk]
            )
        return [expected for expected in missing if expected.id not in found]

    async def _tell_overdue(
        self, connection: Connection, overdue: Sequence[Actual], result: PassResult
    ) -> None:
        comparison = result.comparison
        shown = overdue[: self._limits.findings_max]
        standings = await findings.describe_open_items(connection, [item.item_no for item in shown])
        self._recorder.take(
            (
                item_findings.overdue(
                    item, comparison.flows[item.flow_no], standing, comparison.as_of - item.due_at
                )
                for item, standing in zip(shown, standings, strict=True)
            )
        )
        for item in overdue[len(shown) :]:
            flow = comparison.flows[item.flow_no]
            result.omitted[FindingType.OVERDUE, flow.tenant, flow.kind] += 1
            result.found[FindingType.OVERDUE] += 1

    async def _tell_effects(self, completed: Sequence[Actual], result: PassResult) -> None:
        comparison = result.comparison
        by_kind: defaultdict[KindKey, list[Actual]] = defaultdict(list)
        for item in completed:
            flow = comparison.flows[item.flow_no]
            by_kind[flow.tenant, flow.kind].append(item)
        for key, done in by_kind.items():
            for evidence in self._evidence[key]:
                read = self._evidence_reads[evidence.name]
                if read.failure is None:
                    await self._tell_effects_of(evidence, read, done, result)

    async def _tell_effects_of(
        self,
        evidence: Evidence,
        read: SourceRead,
        completed: Sequence[Actual],
        result: PassResult,
    ) -> None:
        comparison = result.comparison
        before = comparison.as_of - timedelta(seconds=evidence.after_seconds)
        wanted = {item.id: item for item in completed if item.ended_at and item.ended_at <= before}
        began = monotonic()
        try:
            lacking = await evidence.find_lacking(
                [
                    WantedEvidence(item.id, item.business_key, item.cycle, item.effective_date)
                    for item in wanted.values()
                ],
                read.extract,
            )
        except SourceFailed as failure:
            read.failure = failure.reason
            self._unjudged.add((FindingType.EFFECT_MISSING, evidence.tenant, evidence.kind))
            return
        finally:
            read.duration_seconds += monotonic() - began
        self._recorder.take(
            item_findings.effect_missing(
                wanted[lack.id], comparison.flows[wanted[lack.id].flow_no], evidence
            )
            for lack in lacking
        )

    async def _look_at_the_whole(
        self, connection: Connection, expectation: Expectation, result: PassResult
    ) -> None:
        """Find what is wrong with runs, claims, the identity, sources and definitions."""
        margin = self._limits.stuck_seconds
        for row in await findings.list_stuck_runs(connection, margin, STUCK_MAX):
            self._recorder.take(
                (
                    stuck_run(
                        run_no=row["run_no"],
                        fence=row["fence"],
                        open_count=row["open_count"],
                        worker=row["worker"] or "an unknown worker",
                        lease_until=row["lease_until"],
                        lapsed=row["lapsed_seconds"],
                    ),
                )
            )
        for row in await findings.list_stuck_claims(connection, margin, STUCK_MAX):
            self._recorder.take(
                (
                    stuck_claim(
                        fence=row["fence"],
                        open_count=row["open_count"],
                        topic=row["topic"],
                        deadline=row["deadline"],
                        lapsed=row["lapsed_seconds"],
                    ),
                )
            )
        result.accounting = await items.read_accounting(connection)
        self._recorder.take(
            unbalanced(row.tenant, row.kind, row.items, _places(row))
            for row in result.accounting
            if row.difference
        )
        self._recorder.take(
            source_failed(read.name, read.failure) for read in result.sources if read.failure
        )
        self._recorder.take(
            definition_failed(
                failed.tenant, failed.kind, failed.name, failed.version, failed.reason
            )
            for failed in _failed_once(expectation)
        )

    async def _conclude(
        self, connection: Connection, expectation: Expectation, result: PassResult
    ) -> None:
        """Close what no longer holds, move the watermarks, record what was read."""
        judged = set(JUDGED)
        if expectation.failed:
            judged -= EXPECTATION_TYPES
        unjudged = {*self._unjudged, *result.omitted}
        unjudged |= {
            (type_, failed.tenant, failed.kind)
            for failed in expectation.failures
            for type_ in EXPECTATION_TYPES
        }
        if any(type_ is FindingType.STUCK for type_, _, _ in result.omitted):
            judged.discard(FindingType.STUCK)
        closed = await findings.close_findings(
            connection,
            result.reconciliation_no,
            sorted(judged),
            sorted(unjudged),
            (self._scope.from_date, self._scope.to_date),
        )
        result.closed.update(Resolution(row["resolution"]) for row in closed)
        if self._scope.whole:
            result.watermarks = self._watermarks(expectation, result)
            await findings.record_watermarks(connection, result.watermarks)
        await findings.record_populations(
            connection,
            result.reconciliation_no,
            [population_record(read, result) for read in result.sources],
        )

    def _watermarks(
        self, expectation: Expectation, result: PassResult
    ) -> list[findings.WatermarkRecord]:
        failed = [read.name for read in expectation.reads if read.failure]
        records: list[findings.WatermarkRecord] = []
        for (tenant, kind), tally in sorted(result.comparison.tallies.items()):
            before: datetime | None = result.as_of
            held_by: str | None = None
            if tally.held_at is not None and tally.held_by is not None:
                before = tally.held_at
                held_by = f"item {UUID(bytes=tally.held_by)}, due and within its grace"
            if failed:
                before, held_by = None, f"{', '.join(failed)} could not be read"
            omitted = sum(
                count for (_, *place), count in result.omitted.items() if place == [tenant, kind]
            )
            if omitted:
                before, held_by = None, f"{omitted:,} findings beyond what one pass lists"
            records.append(findings.WatermarkRecord(tenant, kind, before, held_by))
        return records


def _failed_once(expectation: Expectation) -> Iterable[FailedVersion]:
    """Return each definition that fails once: what it fails in itself, or in the materialiser."""
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


def _counts(result: PassResult) -> str:
    return orjson.dumps(
        {
            "expected": result.expected_count,
            "found": {type_.value: count for type_, count in result.found.items()},
            "created": result.created,
            "closed": {resolution.value: count for resolution, count in result.closed.items()},
            "omitted": result.omitted.total(),
        }
    ).decode()


async def register_reconciler(connection: Connection) -> int:
    """Register this process as an actor and return its number."""
    return await register_actor(connection, incarnation(ActorKind.RECONCILER), ActorKind.RECONCILER)
