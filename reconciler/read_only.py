"""One pass that writes nothing, for somebody who audits: it needs no right but to read."""

from pathlib import Path
from time import process_time

from dueledger.ledger.store import PlanProfile, open_pool
from dueledger.reconciler.kafka_check import KafkaCheck
from dueledger.reconciler.memory_record import MemoryRecord
from dueledger.reconciler.pass_result import PassLimits, PassScope
from dueledger.reconciler.process import ReconciliationResult
from dueledger.reconciler.reconciliation_pass import ReconciliationPass
from dueledger.reconciler.repair.open_repairs import plan_open_repairs
from dueledger.reconciler.repair.replay_guard import ReplayGuard
from dueledger.reconciler.report.files import make_report
from dueledger.reconciler.report_period import ReportDates, ReportPeriod
from dueledger.reconciler.second_opinion import SecondOpinion
from dueledger.reconciler.settings import ReconcilerSettings
from dueledger.reconciler.sources_file import ReconcilerSources


async def reconcile_read_only(
    settings: ReconcilerSettings,
    sources: ReconcilerSources,
    *,
    dry_run: bool = False,
    dates: ReportDates = (None, None),
    report_directory: Path | None = None,
    scope: PassScope | None = None,
) -> ReconciliationResult:
    """Make one pass and report it as if it were recorded; a dry run plans repairs.

    The connection refuses to write, and the login needs the role `auditor` alone.
    """
    record = MemoryRecord()
    kafka = KafkaCheck.of(settings)
    async with open_pool(
        settings.dsn.get_secret_value(),
        application_name="dueledger-auditor",
        size_max=3,
        roles=("auditor",),
        profile=PlanProfile.ANALYTIC,
        read_only=True,
    ) as pool:
        result = await ReconciliationPass(
            pool,
            sources,
            record=record,
            scope=scope or PassScope(),
            limits=PassLimits(settings.reconcile_stuck_seconds, settings.reconcile_findings_max),
            second_opinion=SecondOpinion(process_time()),
            kafka=kafka,
        ).run()
        period = ReportPeriod.of(result.as_of, *dates)
        guard = ReplayGuard(sources.evidence, kafka.records if kafka else None)
        async with pool.acquire() as connection:
            planned = (
                await plan_open_repairs(connection, record, guard, sources.policies)
                if dry_run
                else []
            )
            report = await make_report(
                connection, record, result, period, planned, directory=report_directory
            )
    return ReconciliationResult.of(
        report, planned, repair_max=settings.reconcile_repair_max, directory=report_directory
    )
