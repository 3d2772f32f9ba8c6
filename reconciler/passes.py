"""One pass: read what should be, hold it against what is, record what differs."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
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
from reconciler.expectation import Expectation, gather_expectation
from reconciler.findings import (
    Finding,
    definition_failed,
    source_failed,
    stuck_claim,
    stuck_run,
    unbalanced,
)
from reconciler.settings import Sources
from reconciler.sources import Evidence, SourceFailed, SourceRead, WantedEvidence
from reconciler.terms import terms_of_population
from reconciler.vocabulary import FindingType, Resolution, Severity
from reconciler.windows import plan_windows

PAGE_ROWS: Final = 10_000
RECORDED_ROWS: Final = 1_000
STUCK_MAX: Final = 1_000
FIRST_DATE: Final = date(1970, 1, 1)
END_DATE: Final = date(2200, 1, 1)

JUDGED: Final = frozenset(
    {
        FindingType.MISSING,
        FindingType.UNEXPECTED,
        FindingType.DUPLICATE,
        FindingType.OVERDUE,
        FindingType.STUCK,
        FindingType.EFFECT_MISSING,
        FindingType.UNBALANCED,
        FindingType.SOURCE_FAILED,
        FindingType.DEFINITION_FAILED,
    }
)
"""The types whose absence from a pass closes them. LATE is history and is never open."""

EXPECTATION_TYPES: Final = frozenset(
    {FindingType.MISSING, FindingType.UNEXPECTED, FindingType.DUPLICATE}
)


@dataclass(frozen=True, slots=True)
class Scope:
    """What a pass looks at: a half-open range of effective dates."""

    from_date: date = FIRST_DATE
    to_date: date = END_DATE

    @property
    def whole(self) -> bool:
        """Tell whether nothing is left out."""
        return self.from_date <= FIRST_DATE and self.to_date >= END_DATE


@dataclass(frozen=True, slots=True)
class Limits:
    """Margins and caps of a pass."""

    stuck_seconds: float = 60.0
    findings_max: int = 10_000


@dataclass(slots=True)
class PassResult:
    """What a pass saw. `found` counts what holds now, `created` what was not known before."""

    reconciliation_no: int
    as_of: datetime
    started_at: datetime
    comparison: Comparison
    duration_seconds: float = 0.0
    found: Counter[FindingType] = field(default_factory=Counter[FindingType])
    created: int = 0
    closed: Counter[Resolution] = field(default_factory=Counter[Resolution])
    omitted: Counter[tuple[FindingType, str, str]] = field(
        default_factory=Counter[tuple[FindingType, str, str]]
    )
    missing: Counter[KindKey] = field(default_factory=Counter[KindKey])
    unexpected: Counter[KindKey] = field(default_factory=Counter[KindKey])
    sources: list[SourceRead] = field(default_factory=list[SourceRead])
    accounting: list[items.Accounting] = field(default_factory=list[items.Accounting])
    watermarks: list[findings.WatermarkRecord] = field(
        default_factory=list[findings.WatermarkRecord]
    )
    expectation: Expectation | None = None
    expected_count: int = 0

    @property
    def open_found(self) -> int:
        """Count what holds now and is more than information."""
        return sum(count for type_, count in self.found.items() if type_ is not FindingType.LATE)


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
        self._waiting: list[Finding] = []
        self._listed: Counter[tuple[FindingType, str, str]] = Counter()
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
                result.expectation = expectation
                result.sources = [*expectation.reads, *self._evidence_reads.values()]
                await self._compare_windows(connection, expectation, result)
                await self._look_at_the_whole(connection, expectation, result)
                await self._flush(connection, result)
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
        return Comparison(as_of, flows, expectation.is_ahead)

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
                part.add([Actual(*row) for row in rows])
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
        self._list(
            (
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
            ),
            result,
        )
        explained = await expectation.implied_since(connection, window.unexpected)
        for item in window.unexpected:
            flow = flows[item.flow_no]
            if item.id in explained:
                result.comparison.tallies[flow.tenant, flow.kind].expected += 1
                continue
            result.unexpected[flow.tenant, flow.kind] += 1
            self._list((item_findings.unexpected(item, flow),), result)
        for pair in window.duplicates:
            flow = flows[pair.extra.flow_no]
            result.unexpected[flow.tenant, flow.kind] += 1
            self._list((item_findings.duplicate(pair, flow),), result)
        self._list((item_findings.late(item, flows[item.flow_no]) for item in window.late), result)
        await self._tell_overdue(connection, window.overdue, result)
        await self._tell_effects(window.evidenced, result)
        await self._flush(connection, result)

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
        self._list(
            (
                item_findings.overdue(
                    item, comparison.flows[item.flow_no], standing, comparison.as_of - item.due_at
                )
                for item, standing in zip(shown, standings, strict=True)
            ),
            result,
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
        self._list(
            (
                item_findings.effect_missing(
                    wanted[lack.id], comparison.flows[wanted[lack.id].flow_no], evidence
                )
                for lack in lacking
            ),
            result,
        )

    async def _look_at_the_whole(
        self, connection: Connection, expectation: Expectation, result: PassResult
    ) -> None:
        """Find what is wrong with runs, claims, the identity, sources and definitions."""
        margin = self._limits.stuck_seconds
        for row in await findings.list_stuck_runs(connection, margin, STUCK_MAX):
            self._list(
                (
                    stuck_run(
                        run_no=row["run_no"],
                        fence=row["fence"],
                        open_count=row["open_count"],
                        worker=row["worker"] or "an unknown worker",
                        lease_until=row["lease_until"],
                        lapsed=row["lapsed_seconds"],
                    ),
                ),
                result,
            )
        for row in await findings.list_stuck_claims(connection, margin, STUCK_MAX):
            self._list(
                (
                    stuck_claim(
                        fence=row["fence"],
                        open_count=row["open_count"],
                        topic=row["topic"],
                        deadline=row["deadline"],
                        lapsed=row["lapsed_seconds"],
                    ),
                ),
                result,
            )
        result.accounting = await items.read_accounting(connection)
        self._list(
            (
                unbalanced(row.tenant, row.kind, row.items, _places(row))
                for row in result.accounting
                if row.difference
            ),
            result,
        )
        self._list(
            (source_failed(read.name, read.failure) for read in result.sources if read.failure),
            result,
        )
        self._list(
            (
                definition_failed(
                    failed.tenant, failed.kind, failed.name, failed.version, failed.reason
                )
                for failed in expectation.failures
            ),
            result,
        )

    def _list(self, found: Iterable[Finding], result: PassResult) -> None:
        """Take findings up for recording, up to the cap of their type and kind."""
        for finding in found:
            place = (finding.type, finding.subject.tenant, finding.subject.kind)
            result.found[finding.type] += 1
            if self._listed[place] >= self._limits.findings_max:
                result.omitted[place] += 1
                continue
            self._listed[place] += 1
            self._waiting.append(finding)

    async def _flush(self, connection: Connection, result: PassResult) -> None:
        unique = list({finding.id: finding for finding in self._waiting}.values())
        self._waiting = []
        for begin in range(0, len(unique), RECORDED_ROWS):
            answers = await findings.record_findings(
                connection,
                result.reconciliation_no,
                [_record(finding) for finding in unique[begin : begin + RECORDED_ROWS]],
            )
            result.created += sum(answer.created for answer in answers)

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
            [_population(read, result) for read in result.sources],
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


def _places(row: items.Accounting) -> dict[str, int]:
    return {
        "pending": row.pending,
        "handed_out": row.handed_out,
        "running": row.running,
        "reviews": row.reviews,
        "ended": row.items - row.open - row.difference,
    }


def _record(finding: Finding) -> findings.FindingRecord:
    subject = finding.subject
    informative = finding.severity is Severity.INFORMATION
    return findings.FindingRecord(
        id=finding.id,
        type=finding.type,
        severity=finding.severity,
        tenant=subject.tenant,
        kind=subject.kind,
        subject=subject.name,
        item_id=subject.item_id,
        business_key=subject.business_key,
        effective_date=subject.effective_date,
        due_at=subject.due_at,
        sentence=finding.sentence,
        expected=orjson.dumps(finding.expected).decode(),
        actual=orjson.dumps(finding.actual).decode(),
        terms=finding.terms,
        resolution=Resolution.EXPLAINED if informative else Resolution.OPEN,
    )


def _population(read: SourceRead, result: PassResult) -> findings.PopulationRecord:
    return findings.PopulationRecord(
        name=read.name,
        origin=read.origin,
        query_digest=read.digest,
        extracted_at=read.extract.extracted_at or result.started_at,
        duration_seconds=read.duration_seconds,
        row_count=read.extract.row_count,
        skipped_count=read.extract.skipped.total(),
        hash_total=read.extract.hash_total,
        failure=read.failure,
    )


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
