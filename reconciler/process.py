"""The reconciler process: a loop of passes, or one pass with repairs and a report."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic, process_time
from typing import Literal

from dueledger.ledger.presence import Presence, open_presence
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import Stop, run_service, run_to_stop
from dueledger.ledger.store import PlanProfile, Pool, open_pool
from dueledger.ledger.store.actors import (
    ActorKind,
    find_person,
    incarnation,
)
from dueledger.ledger.store.processes import ProcessRole
from dueledger.reconciler.kafka_check import KafkaCheck
from dueledger.reconciler.ledger_record import LedgerRecord
from dueledger.reconciler.partition_cache import PartitionCache
from dueledger.reconciler.pass_result import PassLimits, PassResult, PassScope
from dueledger.reconciler.reconciliation_pass import ReconciliationPass
from dueledger.reconciler.record_index import RecordIndex
from dueledger.reconciler.repair.command_publisher import RepairPublisher, open_publisher
from dueledger.reconciler.repair.open_repairs import plan_open_repairs, with_status
from dueledger.reconciler.repair.planned_repairs import (
    BlastRadiusExceeded,
    PlannedRepair,
    RepairChoice,
    RepairSelection,
    check_blast_radius,
)
from dueledger.reconciler.repair.repairs import RATE_MAX, RepairExecutor
from dueledger.reconciler.repair.replay_guard import ReplayGuard
from dueledger.reconciler.report.files import ReportFiles, make_report
from dueledger.reconciler.report.ledger_recorder import LedgerReportRecorder
from dueledger.reconciler.report.model import ReconciliationReport
from dueledger.reconciler.report_period import ReportDates, ReportPeriod
from dueledger.reconciler.second_opinion import SecondOpinion
from dueledger.reconciler.settings import ReconcilerSettings
from dueledger.reconciler.sources_file import ReconcilerSources

ROLE = "reconciler"

RepairMode = Literal["none", "dry_run", "execute"]


@dataclass(frozen=True, slots=True)
class ReconciliationResult:
    """The result of a reconciliation; `findings_open` is 0 where nothing is wrong.

    `planned` are the repairs of the findings that the first pass left open, with the status that
    each has now; in a dry run they have none. `refusal` is why they would not be executed.
    """

    report: ReconciliationReport
    findings_found: int
    findings_open: int
    planned: list[PlannedRepair]
    repairs_executed: int
    refusal: str | None = None
    files: ReportFiles | None = None

    @classmethod
    def of(
        cls,
        report: ReconciliationReport,
        planned: list[PlannedRepair],
        repairs_executed: int = 0,
        *,
        repair_max: int,
        directory: Path | None,
    ) -> "ReconciliationResult":
        """Return the result that a report gives, with its files where it was written."""
        return cls(
            report=report,
            findings_found=report.findings_found,
            findings_open=report.findings_open,
            planned=planned,
            repairs_executed=repairs_executed,
            refusal=_refusal(planned, repair_max),
            files=ReportFiles.of(directory, report) if directory else None,
        )


def _refusal(planned: Sequence[PlannedRepair], repair_max: int) -> str | None:
    try:
        check_blast_radius(planned, repair_max)
    except BlastRadiusExceeded as refused:
        return refused.message
    return None


@dataclass(slots=True)
class Reconciler:
    """Makes passes over a ledger and executes repairs.

    `cache` is what the passes of its loop keep for the next one. A pass outside the loop reads
    everything. `kafka` compares claims with Kafka; None where there is none. `proposer_no` is the
    person who runs it: repairs are proposed in that name, and somebody else approves them.
    """

    pool: Pool
    sources: ReconcilerSources
    actor_no: int
    limits: PassLimits = field(default_factory=PassLimits)
    publisher: RepairPublisher | None = None
    mode: RepairMode = "none"
    repair_max: int = 1_000
    repair_rate_max: int = RATE_MAX
    proposer_no: int | None = None
    record_index: RecordIndex | None = None
    choice: RepairChoice | None = None
    last: PassResult | None = None
    cache: PartitionCache = field(default_factory=PartitionCache)
    second_opinion: SecondOpinion = field(default_factory=SecondOpinion)
    kafka: KafkaCheck | None = None
    presence: Presence | None = None
    stop: Stop = field(default_factory=Stop)

    async def run_pass(
        self, scope: PassScope | None = None, *, cache: PartitionCache | None = None
    ) -> PassResult:
        """Make one bounded pass: read, compare, record findings, close those that ended."""
        result = await ReconciliationPass(
            self.pool,
            self.sources,
            record=LedgerRecord(self.actor_no),
            scope=scope or PassScope(),
            limits=self.limits,
            cache=cache,
            second_opinion=self.second_opinion,
            kafka=self.kafka,
        ).run()
        self.last = result
        return result

    async def plan(self, selection: RepairSelection | None = None) -> list[PlannedRepair]:
        """Return the repairs of the open findings that are meant; nothing is recorded.

        Of those that its last pass found: others may hold no more. Before its first pass, of all.
        """
        async with self.pool.acquire() as connection:
            return await plan_open_repairs(
                connection,
                self._record_of_last(),
                self._guard(),
                self.sources.policies,
                choice=self.choice,
                selection=selection,
            )

    def _record_of_last(self) -> LedgerRecord:
        number = self.last.reconciliation_no if self.last else None
        return LedgerRecord(self.actor_no, number or 0)

    def _guard(self) -> ReplayGuard:
        return ReplayGuard(self.sources.evidence, self.record_index)

    async def repair(self, planned: list[PlannedRepair]) -> int:
        """Execute planned repairs, each once; return how many were executed now.

        Raises BlastRadiusExceeded before anything is executed.
        """
        check_blast_radius(planned, self.repair_max)
        executor = RepairExecutor(
            self.pool,
            self.actor_no,
            self.publisher,
            self._guard(),
            self.repair_rate_max,
            self.proposer_no,
        )
        return await executor.execute(planned)

    async def _pass_unless_stopped(self) -> PassResult | None:
        """Make a pass, or cancel it when a stop is requested.

        Each of its statements is committed or rolled back as a whole. A pass that did not end
        closes no finding and moves no watermark; the next one begins anew.
        """
        making = asyncio.create_task(self.run_pass(cache=self.cache))
        stopping = asyncio.create_task(self.stop.wait())
        try:
            await asyncio.wait({making, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            making.cancel()
            await asyncio.wait({making})
        return None if making.cancelled() else making.result()

    async def tick(self) -> Mapping[str, int]:
        """Make a pass of the loop and, in mode `execute`, repair; return counts of changes only."""
        began_at = monotonic()
        try:
            result = await self._pass_unless_stopped()
            if result is None:
                return {}
            executed = await self.repair(await self.plan()) if self.mode == "execute" else 0
        finally:
            if self.presence is not None:
                self.presence.report_tick(began_at)
        counts = {
            "found": result.created,
            "closed": result.closed.total(),
            "repaired": executed,
        }
        get_logger(ROLE).info(
            LogEvent.TICK_COMPLETED,
            expected=result.expected_count,
            open=result.open_found,
            cached_windows=result.cached_windows,
            cached_items=result.cached_items,
            everything_read_at=result.everything_read_at.isoformat(),
            seconds=round(result.duration_seconds, 3),
            **counts,
        )
        return counts

    async def report(
        self,
        planned: Sequence[PlannedRepair] = (),
        *,
        dates: ReportDates = (None, None),
        directory: Path | None = None,
        records: bool = False,
    ) -> ReconciliationReport:
        """Return the report of the last pass, written to a directory if one is given.

        With `records` it is also recorded, of the whole ledger and of each tenant, which is done
        once a pass.
        """
        if self.last is None:
            raise RuntimeError("there is no report before the first pass: call run_pass first")
        record = self._record_of_last()
        period = ReportPeriod.of(self.last.as_of, *dates)
        async with self.pool.acquire() as connection:
            number = self.last.reconciliation_no
            return await make_report(
                connection,
                record,
                self.last,
                period,
                planned,
                directory=directory,
                recorder=LedgerReportRecorder(connection, number) if records and number else None,
            )


@asynccontextmanager
async def open_reconciler(
    settings: ReconcilerSettings,
    sources: ReconcilerSources,
    *,
    mode: RepairMode | None = None,
    proposer: str | None = None,
) -> AsyncGenerator[Reconciler]:
    """Open what a reconciler needs. A producer is connected only where repairs may be executed.

    Repairs are proposed in the name of the person `proposer`, if the login may name one.
    """
    wanted = mode or settings.reconcile_repair
    dsn = settings.dsn.get_secret_value()
    async with (
        open_pool(
            dsn,
            application_name="dueledger-reconciler",
            size_max=3,
            roles=("reconciler",),
            profile=PlanProfile.SERIAL,
        ) as pool,
        open_presence(dsn, incarnation(ActorKind.RECONCILER), ProcessRole.RECONCILER) as presence,
    ):
        actor_no = presence.process_no
        kafka = KafkaCheck.of(settings)
        reconciler = Reconciler(
            pool,
            sources,
            actor_no,
            limits=PassLimits(settings.reconcile_stuck_seconds, settings.reconcile_findings_max),
            mode=wanted,
            repair_max=settings.reconcile_repair_max,
            repair_rate_max=settings.reconcile_repairs_per_minute_max,
            cache=PartitionCache(settings.reconcile_full_pass_seconds),
            second_opinion=SecondOpinion(process_time()),
            kafka=kafka,
            presence=presence,
            record_index=kafka.records if kafka else None,
            proposer_no=await find_person(pool, proposer) if proposer else None,
        )
        if wanted != "execute":
            yield reconciler
            return
        async with open_publisher(settings) as publisher:
            reconciler.publisher = publisher
            yield reconciler


async def run_reconciler(
    settings: ReconcilerSettings, sources: ReconcilerSources, stop: Stop
) -> None:
    """Reconcile until a stop is requested."""
    await run_to_stop(lambda: _run(settings, sources, stop), stop)


async def _run(settings: ReconcilerSettings, sources: ReconcilerSources, stop: Stop) -> None:
    log = get_logger(ROLE)
    async with open_reconciler(settings, sources) as reconciler:
        stop.mark_started()
        reconciler.stop = stop
        reconciler.limits = replace(reconciler.limits, share=settings.reconcile_share)
        log.info(LogEvent.PROCESS_STARTED, mode=reconciler.mode)
        await run_service(
            ROLE, reconciler.tick, stop=stop, idle_seconds=settings.reconcile_idle_seconds
        )
        log.info(LogEvent.PROCESS_STOPPED)


async def reconcile_once(
    settings: ReconcilerSettings,
    sources: ReconcilerSources,
    *,
    mode: RepairMode = "none",
    dates: ReportDates = (None, None),
    report_directory: Path | None = None,
    scope: PassScope | None = None,
    selection: RepairSelection | None = None,
    proposer: str | None = None,
) -> ReconciliationResult:
    """Make one pass, plan or execute the repairs that are meant, pass again, and report.

    The effect of some repairs comes later (a redriven item, a command to the domain): their
    findings are still open in the report.
    """
    async with open_reconciler(settings, sources, mode=mode, proposer=proposer) as reconciler:
        await reconciler.run_pass(scope)
        planned = [] if mode == "none" else await reconciler.plan(selection)
        executed = 0
        if mode == "execute" and planned:
            executed = await reconciler.repair(planned)
            async with reconciler.pool.acquire() as connection:
                planned = await with_status(connection, planned)
            await reconciler.run_pass(scope)
        report = await reconciler.report(
            planned, dates=dates, directory=report_directory, records=True
        )
    return ReconciliationResult.of(
        report,
        planned,
        executed,
        repair_max=settings.reconcile_repair_max,
        directory=report_directory,
    )
