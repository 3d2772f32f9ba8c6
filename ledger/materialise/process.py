"""The materialiser as a process: its connections, its actor, its passes, and its loop."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final, final

from dueledger.ledger.materialise.materialiser import Materialiser
from dueledger.ledger.materialise.settings import MaterialiserSettings
from dueledger.ledger.presence import open_presence
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import Stop, run_service, run_to_stop
from dueledger.ledger.store import PlanProfile, Pool, open_pool
from dueledger.ledger.store.actors import ActorKind, incarnation
from dueledger.ledger.store.processes import ProcessRole

PASSES_AT_ONCE: Final = 2


@final
class MaterialisePasses:
    """Passes one after the other; two at once while there is work.

    While Postgres records what one pass expanded, the other expands; they write one after the
    other. They lock different definitions, as two processes do.
    """

    def __init__(self, pool: Pool, settings: MaterialiserSettings, *, actor_no: int) -> None:
        writing = asyncio.Lock()
        self._passes = [
            Materialiser(pool, settings, actor_no=actor_no, writing=writing)
            for _ in range(PASSES_AT_ONCE)
        ]
        self._has_work = False

    async def tick(self) -> Mapping[str, int]:
        """Run a pass, or two; return the sums of their counts. Idempotent, as a pass is.

        Raises the error of a pass once both have ended.
        """
        passes = self._passes if self._has_work else self._passes[:1]
        self._has_work = False
        results = await asyncio.gather(*(each.tick() for each in passes), return_exceptions=True)
        counts: Counter[str] = Counter()
        for result in results:
            if isinstance(result, BaseException):
                raise result
            counts.update(result)
        self._has_work = counts["definitions"] > 0
        return counts


@asynccontextmanager
async def open_materialiser(
    settings: MaterialiserSettings, stop: Stop | None = None
) -> AsyncGenerator[MaterialisePasses]:
    """Open a materialiser with its own actor. Raises Unavailable if Postgres cannot be reached."""
    name = incarnation(ActorKind.MATERIALISER)
    dsn = settings.dsn.get_secret_value()
    async with (
        open_pool(
            dsn,
            application_name=name,
            size_max=PASSES_AT_ONCE,
            roles=("materialiser",),
            profile=PlanProfile.ANALYTIC,
        ) as pool,
        open_presence(dsn, name, ProcessRole.MATERIALISER, stop=stop) as presence,
    ):
        actor_no = presence.process_no
        log = get_logger("materialiser")
        log.info(LogEvent.PROCESS_STARTED, actor=name, actor_no=actor_no)
        yield MaterialisePasses(pool, settings, actor_no=actor_no)
        log.info(LogEvent.PROCESS_STOPPED, actor=name)


async def run_materialiser(settings: MaterialiserSettings, stop: Stop) -> None:
    """Materialise until a stop is requested. Any number of processes may run."""
    await run_to_stop(lambda: _run(settings, stop), stop)


async def _run(settings: MaterialiserSettings, stop: Stop) -> None:
    async with open_materialiser(settings, stop) as materialiser:
        stop.mark_started()
        await run_service(
            "materialiser",
            materialiser.tick,
            stop=stop,
            idle_seconds=settings.materialise_idle_seconds,
        )
