"""The steps of the demo: prepare, let the day pass, freeze and kill workers, wait for the end."""

import asyncio
from datetime import timedelta
from time import monotonic
from typing import Final

from dueledger.definitions.files import read_definitions
from dueledger.definitions.put_in_force import put_in_force
from dueledger.demo.environment import DAY, DAY_END, DemoEnvironment
from dueledger.demo.frozen_worker import freeze_worker
from dueledger.dev.child_processes import ALLOCATOR, INTAKE, MATERIALISER, worker
from dueledger.dev.examples import example
from dueledger.importers.kubernetes import TENANT, import_kubernetes
from dueledger.importers.prow_periodic import KIND
from dueledger.importers.source_job import NewDefinitionFields
from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.errors import Conflict
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.items import read_accounting
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy
from dueledger.ledger.store.migrations import migrate

RENEWALS: Final = "PolicyRenewalDue"

_HANDLERS: Final = (
    "dueledger.examples.insurer.handlers:handlers",
    "dueledger.examples.kubernetes.handlers:handlers",
)
# An hour passes in seconds, so a dead worker's items must be released in seconds as well.
SETTINGS: Final = {
    "DUELEDGER_WORKER_LEASE_SECONDS": "6",
    "DUELEDGER_MATERIALISE_HORIZON_SECONDS": "14400",
    "DUELEDGER_MATERIALISE_STRIDE_SECONDS": "14400",
}
_GRACE_SECONDS: Final = 6 * 3_600  # minutes late here would be milliseconds late in real time
_POLL_SECONDS: Final = 1.0
_BOOK_SECONDS_MAX: Final = 180.0
_REST_SECONDS_MAX: Final = 300.0
_FROZEN_FROM: Final = timedelta(hours=4)  # before the renewals are due: it takes a lease
_KILLED_SHARE: Final = 0.3  # part of the renewals completed when the second worker is killed
_KILLED_AT_LATEST: Final = timedelta(hours=18)


async def set_up(stage: DemoEnvironment) -> None:
    """Make the schema, stop the clock at midnight, put definitions in force, and send policies."""
    options, view = stage.options, stage.view
    await migrate(stage.connection)
    await stage.set_clock(DAY, 0)
    imported = import_kubernetes(
        example("kubernetes/periodics.json"), NewDefinitionFields(TENANT, DAY)
    )
    periodics = imported.jobs[: options.periodics]
    # An hour passes in seconds: items overlap here only because their worker was killed.
    definitions = [parse_definition({**job.document, "overlap": "allow"}) for job in periodics]
    definitions += read_definitions(example("insurer/definitions.yaml"))
    actor_no = await register_actor(stage.connection, "demo", ActorKind.SERVICE)
    await put_in_force(stage.connection, definitions, actor_no=actor_no)
    await put_kind_policy(stage.connection, KindPolicy(TENANT, KIND, grace_seconds=_GRACE_SECONDS))
    view.say(f"{len(periodics):,} periodic jobs of Kubernetes and the insurer's rule are defined")

    made = await stage.insurer(
        *("prepare", "--policies", str(options.policies)),
        *("--seed", str(options.seed), "--day", DAY.date().isoformat()),
    )
    view.say(f"the insurer has {made['policies']:,} policies, and {made['faults']} injected faults")
    await stage.supervisor.start(INTAKE)
    sent = await stage.insurer("send", "book")
    view.say(
        f"it sent {sent['sent']:,} events: {sent['twice']:,} of them twice, some after later ones"
    )
    renewals = await _wait_for_book(stage)
    view.say(f"the intake made {renewals:,} future renewals of them")
    await stage.supervisor.stop(INTAKE.name)


async def _wait_for_book(stage: DemoEnvironment) -> int:
    """Wait until every policy whose event was sent has its item."""
    faults = await stage.insurer("faults")
    wanted = stage.options.policies - len(faults["event_lost"])
    deadline = monotonic() + _BOOK_SECONDS_MAX
    while (renewals := await _count_policies(stage)) < wanted:
        if monotonic() > deadline:
            raise Conflict(
                f"Intake made {renewals} of {wanted} renewals in {_BOOK_SECONDS_MAX:.0f} s. "
                "Its output above says why; a slower machine may need fewer --policies."
            )
        await asyncio.sleep(_POLL_SECONDS / 2)
    return renewals


async def _count_policies(stage: DemoEnvironment) -> int:
    rows = [row for row in await read_accounting(stage.connection) if row.kind == RENEWALS]
    return sum(row.items - row.superseded for row in rows)


async def run_day(stage: DemoEnvironment) -> float:
    """Let the day pass with every process running; return items completed a second."""
    options, view, supervisor = stage.options, stage.view, stage.supervisor
    await stage.set_clock(DAY, options.rate)
    began = monotonic()
    for spec in (INTAKE, MATERIALISER, ALLOCATOR, worker(1, _HANDLERS), worker(2, _HANDLERS)):
        await supervisor.start(spec)
    view.say(
        f"{DAY:%A %d %B %Y} begins, {options.rate:,.0f} times as fast as usual: "
        "1 allocator, 2 workers, intake and materialiser"
    )
    changes = asyncio.create_task(stage.insurer("send", "changes"))
    refused = killed = False
    while (now := await read_now(stage.connection)) < DAY_END:
        await stage.show_progress()
        if not killed and (now > DAY + _KILLED_AT_LATEST or await _wait_for_renewals(stage)):
            pid = supervisor.pid("worker-2")
            await supervisor.kill("worker-2")
            view.say(
                f"{now:%H:%M} UTC: worker 2 (process {pid}) was killed with SIGKILL; "
                "it is not replaced"
            )
            killed = True
        elif not refused and now > DAY + _FROZEN_FROM:
            refused = await freeze_worker(stage, "worker-1")
        await asyncio.sleep(_POLL_SECONDS)
    sent = await changes
    view.say(
        f"{sent['events']:,} policies were amended or cancelled meanwhile, "
        f"{sent['twice']:,} of them twice"
    )
    return await _wait_until_settled(stage, began)


async def _wait_for_renewals(stage: DemoEnvironment) -> bool:
    completed = sum(
        row.completed for row in await read_accounting(stage.connection) if row.kind == RENEWALS
    )
    return completed > _KILLED_SHARE * stage.options.policies


async def _wait_until_settled(stage: DemoEnvironment, began: float) -> float:
    """Let time pass at normal speed again, and wait until no item of the day is open."""
    supervisor, view = stage.supervisor, stage.view
    left = await supervisor.stop_all()
    view.say(
        "the day is over: every process was stopped and drained"
        if not left
        else f"{left} had to be killed"
    )
    await stage.set_clock(await read_now(stage.connection), 1)
    for spec in (INTAKE, MATERIALISER, ALLOCATOR, worker(1, _HANDLERS)):
        await supervisor.start(spec)
    deadline = monotonic() + _REST_SECONDS_MAX
    while (
        open_ := sum(kind_progress.open_before for kind_progress in await stage.show_progress())
    ) > 0:
        if monotonic() > deadline:
            raise Conflict(
                f"{open_} items of the day are still open {_REST_SECONDS_MAX:.0f} s after it. "
                "`dueledger why ITEM` may say why, and the processes' output above."
            )
        await asyncio.sleep(_POLL_SECONDS / 2)
    completed = sum(row.completed for row in await read_accounting(stage.connection))
    view.say(f"nothing owed in the day is open; {completed:,} items were completed")
    return completed / (monotonic() - began)
