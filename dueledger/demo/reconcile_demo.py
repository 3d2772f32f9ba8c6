"""The last step: the reconciler finds what went wrong, plans repairs, and executes them."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Final

from dueledger.demo.environment import DemoEnvironment
from dueledger.demo.result import DemoResult, injected_findings
from dueledger.dev.examples import example
from dueledger.dev.supervisor import ChildSpec
from dueledger.ledger.finding_types import FindingType, Resolution
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.findings import resolve_findings
from dueledger.reconciler import Reconciler, ReconcilerSettings, load_sources, open_reconciler
from dueledger.reconciler.repair.planned_repairs import PlannedRepair
from dueledger.reconciler.report.files import ReportFiles
from dueledger.reconciler.report.model import ReconciliationReport, StatementVerdict

_INSURER_DSN: Final = "INSURER_DSN"
_EFFECT_SECONDS_MAX: Final = 60.0
_POLL_SECONDS: Final = 1.0
_REPAIRS: Final = ChildSpec(
    "insurer-repairs", (), command=(sys.executable, "-m", "dueledger.examples.insurer.repairs")
)


async def reconcile_demo(
    stage: DemoEnvironment, items_per_second: float, *, report_dir: Path
) -> DemoResult:
    """Damage rows, reconcile, repair and mend, wait for the effects, and reconcile again."""
    view, endpoints = stage.view, stage.endpoints
    made = await stage.defects("make")
    injected = injected_findings(await stage.insurer("faults"), made)
    view.say(
        f"rows, bookings and a record in Kafka were damaged in {len(made)} ways; with what the "
        f"domain lost, {len(injected)} faults are to be found"
    )
    settings = ReconcilerSettings(
        dsn=endpoints.dsn,  # pyright: ignore[reportArgumentType] - pydantic makes it a secret
        bootstrap_servers=endpoints.bootstrap_servers,
    )
    os.environ[_INSURER_DSN] = endpoints.dsn  # the file of sources names the variable
    sources = load_sources(example("insurer/sources.yaml"))
    async with open_reconciler(settings, sources, mode="execute") as reconciler:
        found = await reconciler.run_pass()
        before = await reconciler.report(records=True)
        view.say(
            f"the reconciler expected {found.expected_count:,} items; in "
            f"{found.duration_seconds:.1f} s: {before.statement.sentence}"
        )
        for row in before.summary:
            view.say(f"  {row.found:>6,} {row.type}: {row.meaning.lower()}")
        planned = await reconciler.plan()
        _print_dry_run(stage, planned)

        await stage.supervisor.start(_REPAIRS)
        executed = await reconciler.repair(planned)
        view.say(f"{executed:,} repairs were executed; waiting for their effects")
        await _mend(stage, before)
        passes = await _wait_for_effects(stage, reconciler)
        after = await reconciler.report(directory=report_dir, records=True)
        view.say(f"after {passes} more passes: {after.statement.sentence}")
    return DemoResult(
        injected=injected,
        before=before,
        after=after,
        repairs=executed,
        items_per_second=items_per_second,
        reports=ReportFiles.of(report_dir, after),
    )


async def _mend(stage: DemoEnvironment, before: ReconciliationReport) -> None:
    """Do what no repair does: put back rows and bookings, and explain the record in Kafka."""
    mended = await stage.defects("mend")
    person = await register_actor(stage.connection, "person:demo", ActorKind.PERSON)
    explained = await resolve_findings(
        stage.connection,
        [found.id for found in before.findings if found.type is FindingType.ORPHAN_RECORD],
        resolution=Resolution.EXPLAINED,
        reason="a tool sent the record again",
        actor_no=person,
    )
    stage.view.say(
        f"by hand: {mended['rows']} rows were put back as they were, wrong bookings were reversed, "
        f"and {len(explained)} record in Kafka was explained"
    )


def _print_dry_run(stage: DemoEnvironment, planned: Sequence[PlannedRepair]) -> None:
    stage.view.say("what it would do (dry run):")
    samples: dict[tuple[str, str], PlannedRepair] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for repair in planned:
        what = (repair.finding_type.value, repair.action.value)
        samples.setdefault(what, repair)
        counts[what] += 1
    for (finding, action), count in counts.items():
        sample = samples[finding, action].would
        stage.view.say(f"  {count:>6,} × {action} for {finding}, such as: {sample}")


async def _wait_for_effects(stage: DemoEnvironment, reconciler: Reconciler) -> int:
    """Reconcile until the verdict is complete or the time is over; return the number of passes."""
    deadline = monotonic() + _EFFECT_SECONDS_MAX
    passes = 0
    while True:
        await asyncio.sleep(_POLL_SECONDS)
        await stage.show_progress()
        await reconciler.run_pass()
        passes += 1
        verdict = (await reconciler.report()).statement.verdict
        if verdict is not StatementVerdict.NOT_COMPLETE or monotonic() > deadline:
            return passes
