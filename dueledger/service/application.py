"""The service as an application: its connections, its presence, its tasks, without a socket."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from dueledger.ledger.gauges import READ_SECONDS, LedgerGauges
from dueledger.ledger.metrics import METRICS
from dueledger.ledger.presence import Presence, open_presence
from dueledger.ledger.runtime.service import Stop, run_service
from dueledger.ledger.store import Pool, has_role, open_pool
from dueledger.ledger.store.actors import ActorKind, incarnation
from dueledger.ledger.store.api_keys import CallRate, read_cursor_secret
from dueledger.ledger.store.cells import lift_sequences
from dueledger.ledger.store.processes import ProcessRole
from dueledger.ledger.upkeep import Upkeep
from dueledger.service.admission import ConnectionShares
from dueledger.service.app import ServiceApp
from dueledger.service.callers import Callers
from dueledger.service.calls import CallHost
from dueledger.service.cursors import CursorSeal
from dueledger.service.entry import RequestEntry
from dueledger.service.pull_queue import PullQueue
from dueledger.service.rates import CallRates
from dueledger.service.readiness import Readiness
from dueledger.service.settings import ServiceSettings

if TYPE_CHECKING:
    from dueledger.service.issuer_login import IssuerLogin
    from dueledger.service.tokens import TokenVerifier

UPKEEP_SECONDS: Final = 1.0
QUIET_DOUBLINGS_MAX: Final = 2


class ClosableStreams(Protocol):
    """Answers that go on until they are closed."""

    def close(self) -> None:
        """End them."""
        ...


OpenConsole = Callable[
    [ServiceApp, ConnectionShares, Callers, ServiceSettings],
    AbstractAsyncContextManager[ClosableStreams],
]
"""Mounts the console into the application, for a block."""


@dataclass(frozen=True, slots=True)
class OpenApplication:
    """An application on its connections. Requests come in at `entry`."""

    name: str
    process_no: int
    app: ServiceApp
    entry: RequestEntry
    pulls: PullQueue
    streams: ClosableStreams | None
    pool: Pool

    def close(self) -> None:
        """End long polls and streams, so that their requests end."""
        self.pulls.close()
        if self.streams is not None:
            self.streams.close()


@asynccontextmanager
async def open_application(
    settings: ServiceSettings, open_console: OpenConsole | None = None, *, path_prefix: str = ""
) -> AsyncGenerator[OpenApplication]:
    """Have the application for the block, and do its tasks.

    `path_prefix` is the path under which a proxy has it. Raises Unavailable if Postgres cannot be
    reached, and NotPermitted if its login is no service.
    """
    name, dsn = incarnation(ActorKind.API), settings.dsn.get_secret_value()
    async with (
        open_pool(
            dsn,
            application_name=name,
            size_max=settings.service_connections_max,
            roles=("service",),
            before_use=lift_sequences,
        ) as pool,
        open_pool(dsn, application_name=name, size_max=1, roles=("service",)) as aside,
        AsyncExitStack() as background,
    ):
        async with pool.acquire() as connection:
            cursors = CursorSeal(await read_cursor_secret(connection))
            does_upkeep = await has_role(connection, "upkeep")
        presence = await background.enter_async_context(
            open_presence(dsn, name, ProcessRole.SERVICE, does_upkeep=does_upkeep)
        )
        tokens, login = await background.enter_async_context(_issuer_of_tokens(settings))
        rate = CallRate(settings.service_rate_per_second, settings.service_rate_burst)
        connections = ConnectionShares(pool, settings.service_connections_max)
        callers = Callers(connections, CallRates(rate), tokens, login)
        calls = CallHost(
            connections,
            callers,
            body_bytes_max=settings.service_body_bytes_max,
            body_seconds=settings.service_body_seconds,
            requests_max=settings.service_requests_max,
        )
        pulls = await background.enter_async_context(
            _background(settings, calls, pool, presence, does_upkeep=does_upkeep)
        )
        app = ServiceApp(calls, pulls, Readiness(aside), cursors)
        app.state.settings = settings
        streams = None
        if open_console is not None:
            streams = await background.enter_async_context(
                open_console(app, connections, callers, settings)
            )
        entry = RequestEntry(
            app, settings.service_trusted_proxies, settings.service_requests_max, path_prefix
        )
        yield OpenApplication(name, presence.process_no, app, entry, pulls, streams, pool)


@asynccontextmanager
async def _issuer_of_tokens(
    settings: ServiceSettings,
) -> AsyncGenerator[tuple["TokenVerifier | None", "IssuerLogin | None"]]:
    if settings.service_oidc_issuer is None:
        yield None, None
        return
    # They load a client of HTTP and cryptography.
    from dueledger.service.issuer_keys import open_issuer_keys  # noqa: PLC0415
    from dueledger.service.issuer_login import IssuerLogin  # noqa: PLC0415
    from dueledger.service.tokens import TokenVerifier  # noqa: PLC0415

    async with open_issuer_keys(settings, settings.service_oidc_issuer) as keys:
        tokens, client = TokenVerifier(settings, keys), settings.service_oidc_client_id
        yield tokens, None if client is None else IssuerLogin(settings, client, keys, tokens)


@asynccontextmanager
async def _background(
    settings: ServiceSettings,
    calls: CallHost,
    pool: Pool,
    presence: Presence,
    *,
    does_upkeep: bool,
) -> AsyncGenerator[PullQueue]:
    """Serve long polls for the block; and if `does_upkeep`, do that and measure the ledger.

    There may be no allocator and no direct worker that does.
    """
    bytes_max = settings.service_claim_bytes_max
    pulls, stop = PullQueue(presence, calls.list_as_worker, bytes_max=bytes_max), Stop()
    upkeep = Upkeep(
        pool,
        actor_no=presence.process_no,
        seconds=UPKEEP_SECONDS,
        role="service",
        retention=settings.retention,
        quiet_doublings_max=QUIET_DOUBLINGS_MAX,
    )
    gauges = LedgerGauges(pool, holder=f"process:{presence.process_no}")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(run_service("service.pull", pulls.tick, stop=stop, idle_seconds=0.0))
        if does_upkeep:
            tasks.create_task(
                run_service(
                    "service.upkeep", upkeep.tick, stop=stop, idle_seconds=upkeep.pause_seconds
                )
            )
        if does_upkeep and settings.metrics_port is not None:
            tasks.create_task(
                run_service("service.measure", gauges.tick, stop=stop, idle_seconds=READ_SECONDS)
            )
        try:
            with METRICS.source(gauges.samples):
                yield pulls
        finally:
            stop.request()
            pulls.close()
