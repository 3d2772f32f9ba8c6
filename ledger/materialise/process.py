"""The materialiser as a process: its connections, its actor, and its loop."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from dueledger.ledger.materialise.materialiser import Materialiser
from dueledger.ledger.materialise.settings import MaterialiserSettings
from dueledger.ledger.presence import open_presence
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import Stop, run_service, run_to_stop
from dueledger.ledger.store import PlanProfile, open_pool
from dueledger.ledger.store.actors import ActorKind, incarnation
from dueledger.ledger.store.processes import ProcessRole


@asynccontextmanager
async def open_materialiser(settings: MaterialiserSettings) -> AsyncGenerator[Materialiser]:
    """Open a materialiser with its own actor. Raises Unavailable if Postgres cannot be reached."""
    name = incarnation(ActorKind.MATERIALISER)
    dsn = settings.dsn.get_secret_value()
    async with (
        open_pool(
            dsn,
            application_name=name,
            size_max=1,
            roles=("materialiser",),
            profile=PlanProfile.ANALYTIC,
        ) as pool,
        open_presence(dsn, name, ProcessRole.MATERIALISER) as presence,
    ):
        actor_no = presence.process_no
        log = get_logger("materialiser")
        log.info(LogEvent.PROCESS_STARTED, actor=name, actor_no=actor_no)
        yield Materialiser(pool, settings, actor_no=actor_no)
        log.info(LogEvent.PROCESS_STOPPED, actor=name)


async def run_materialiser(settings: MaterialiserSettings, stop: Stop) -> None:
    """Materialise until a stop is requested. Any number of processes may run."""
    await run_to_stop(lambda: _run(settings, stop), stop)


async def _run(settings: MaterialiserSettings, stop: Stop) -> None:
    async with open_materialiser(settings) as materialiser:
        stop.mark_started()
        await run_service(
            "materialiser",
            materialiser.tick,
            stop=stop,
            idle_seconds=settings.materialise_idle_seconds,
        )
