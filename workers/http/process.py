"""The HTTP worker's process: reads the endpoints, works their kinds, and applies changes."""

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import Final, final

from dueledger.ledger.errors import InvalidSetting, Problem
from dueledger.ledger.runtime.service import Stop, run_service, run_to_stop
from dueledger.ledger.store import Pool, open_pool
from dueledger.ledger.store.claims import DueFlow
from dueledger.ledger.store.kinds import list_http_kinds
from dueledger.ledger.store.processes import KindTenants
from dueledger.workers.counts import WorkerCounts
from dueledger.workers.handlers import Handlers
from dueledger.workers.http.allow_list import AllowList
from dueledger.workers.http.client import HttpClient
from dueledger.workers.http.database_clock import DatabaseClock
from dueledger.workers.http.dispatcher import HttpDispatcher
from dueledger.workers.http.settings import DirectHttpSettings, HttpSettings
from dueledger.workers.http.targets import EndpointLimits, HttpTargets
from dueledger.workers.process import run_direct_worker, run_worker

KINDS_MAX: Final = 10_000
# Its members consume other topics than workers with handlers do; one group would only rebalance.
GROUP_SUFFIX: Final = "-http"


@final
class HttpEndpoints:
    """The endpoints as the ledger has them, and a handler for their items."""

    def __init__(self, settings: HttpSettings, pool: Pool, client: HttpClient) -> None:
        self.refreshed = asyncio.Event()
        self.targets = HttpTargets(settings)
        self.clock = DatabaseClock()
        self._pool = pool
        self._dispatch = HttpDispatcher(self.targets, client, self.clock)

    async def refresh(self) -> dict[str, int]:
        """Read the endpoints and the time. The next item is sent by them."""
        async with self._pool.acquire() as connection:
            kinds = await list_http_kinds(connection, KINDS_MAX)
            await self.clock.synchronise(connection)
        self.targets.replace(kinds)
        self.refreshed.set()
        return {}

    def handlers(self) -> Handlers:
        """Return a handler for each current endpoint."""
        handlers = Handlers(may_end_process=False)
        for (kind, topic), work in self.targets.endpoint_limits().items():
            handlers.on(
                kind,
                concurrency=work.concurrency,
                timeout_seconds=work.timeout_seconds,
                topic=topic,
            )(self._dispatch)
        return handlers

    @property
    def kind_tenants(self) -> KindTenants:
        """The tenants whose items of each kind are sent by HTTP."""
        return self.targets.kind_tenants

    def admits(self, flow: DueFlow) -> bool:
        """Return whether a flow is sent by HTTP: another tenant's flow of the kind may not be."""
        return self.targets.find(flow.tenant, flow.kind) is not None

    def topics(self) -> tuple[str, ...]:
        """Return the topics of these kinds."""
        return tuple(sorted({topic for _, topic in self.targets.endpoint_limits()}))


async def run_http_worker(
    settings: HttpSettings, stop: Stop, *, once: bool = False
) -> WorkerCounts | None:
    """Send due items until a stop is requested; with DirectHttpSettings, without Kafka.

    The inner worker is drained and restarted when the kinds or their limits change. A changed
    address, header, key or body is used from the next item on. With `once` it makes one pass over
    the current kinds and returns its counts, or raises Unavailable if Postgres or Kafka is away.
    Raises InvalidSetting if no origin is allowed.
    """
    if not settings.http_allowed_origins:
        problem = Problem(
            "DUELEDGER_HTTP_ALLOWED_ORIGINS",
            "",
            "no origin may be called",
            "hooks.example.com,https://*.example.com:8443, or * for every public host",
        )
        raise InvalidSetting("Settings are missing or wrong:", [problem])
    return await run_to_stop(
        lambda: _run(settings, stop, once=once),
        stop,
        drain_seconds=settings.worker_drain_seconds,
        waits=not once,
    )


async def _run(settings: HttpSettings, stop: Stop, *, once: bool) -> WorkerCounts | None:
    guard = AllowList(settings.http_allowed_origins, settings.http_allowed_networks)
    async with AsyncExitStack() as stack:
        dsn = settings.dsn.get_secret_value()
        pool = await stack.enter_async_context(
            open_pool(dsn, application_name="dueledger-http", size_max=1)
        )
        client = await stack.enter_async_context(HttpClient(guard, ca_file=settings.http_ca_file))
        endpoints = HttpEndpoints(settings, pool, client)
        await endpoints.refresh()
        stop.mark_started()
        refreshing = asyncio.create_task(
            run_service(
                "worker.refresh",
                endpoints.refresh,
                stop=stop,
                idle_seconds=settings.http_refresh_seconds,
            )
        )
        try:
            if once:
                return await _work(settings, endpoints, stop, once=True)
            while not stop.is_requested:
                await _run_until_kinds_change(settings, endpoints, stop)
        finally:
            refreshing.cancel()
            with suppress(asyncio.CancelledError):
                await refreshing
    return None


async def _work(
    settings: HttpSettings, endpoints: HttpEndpoints, stop: Stop, *, once: bool = False
) -> WorkerCounts:
    """Send items of the current kinds."""
    handlers = endpoints.handlers()
    if not len(handlers):
        return WorkerCounts()
    if isinstance(settings, DirectHttpSettings):
        return await run_direct_worker(settings, handlers, stop, once=once, selection=endpoints)
    changed = settings.model_copy(
        update={
            "worker_topics": endpoints.topics(),
            "worker_all_topics": False,
            "worker_group_id": settings.worker_group_id + GROUP_SUFFIX,
        }
    )
    return await run_worker(changed, handlers, stop, once=once)


async def _run_until_kinds_change(
    settings: HttpSettings, endpoints: HttpEndpoints, stop: Stop
) -> None:
    work = endpoints.targets.endpoint_limits()
    inner = Stop()
    watching = asyncio.create_task(_stop_when_changed(endpoints, work, stop, inner))
    try:
        if not work:
            await inner.wait()
            return
        await _work(settings, endpoints, inner)
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


async def _stop_when_changed(
    endpoints: HttpEndpoints, work: dict[tuple[str, str], EndpointLimits], stop: Stop, inner: Stop
) -> None:
    """Request the inner worker's stop with the process's, or when its kinds have changed."""
    asked = asyncio.create_task(stop.wait())
    try:
        while endpoints.targets.endpoint_limits() == work and not stop.is_requested:
            endpoints.refreshed.clear()
            refreshed = asyncio.create_task(endpoints.refreshed.wait())
            await asyncio.wait({asked, refreshed}, return_when=asyncio.FIRST_COMPLETED)
            refreshed.cancel()
    finally:
        asked.cancel()
        inner.request()
