"""The service as a process: its socket, its connections, its presence, and its end."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, Protocol, final

import uvicorn

from dueledger.ledger.errors import InvalidSetting, Problem
from dueledger.ledger.gauges import READ_SECONDS, LedgerGauges
from dueledger.ledger.metrics import METRICS
from dueledger.ledger.presence import Presence, open_presence
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import Stop, run_service, run_to_stop
from dueledger.ledger.store import Pool, has_role, open_pool
from dueledger.ledger.store.actors import ActorKind, incarnation
from dueledger.ledger.store.api_keys import CallRate, read_cursor_secret
from dueledger.ledger.store.cells import lift_sequences
from dueledger.ledger.store.processes import ProcessRole
from dueledger.ledger.upkeep import Upkeep
from dueledger.service import certificate
from dueledger.service.admission import ConnectionShares
from dueledger.service.app import ServiceApp
from dueledger.service.callers import Callers
from dueledger.service.calls import CallHost
from dueledger.service.client_connection import KEPT_SECONDS, connections_of
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


@dataclass(frozen=True, slots=True)
class RunningService:
    """A service that answers at `url`, and its application."""

    url: str
    app: ServiceApp
    pulls: PullQueue
    ended: "asyncio.Task[None]"


@final
class _Server(uvicorn.Server):
    """A server that leaves signals to `Stop`."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


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


@asynccontextmanager
async def open_service(
    settings: ServiceSettings, open_console: OpenConsole | None = None
) -> AsyncGenerator[RunningService]:
    """Answer requests for the block; at its end, open ones have `service_drain_seconds`.

    With `open_console`, the console is at `/console/`.

    Raises Unavailable if Postgres cannot be reached, NotPermitted if its login is no service,
    InvalidSetting if the port or the certificate cannot be used.
    """
    name, dsn = incarnation(ActorKind.API), settings.dsn.get_secret_value()
    with _bound_socket(settings) as listener:
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
            config, expires_at = _config(settings, app)
            await background.enter_async_context(
                _certificate_reloaded(settings, config, expires_at, pool, presence)
            )
            server = _Server(config)
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            listening = asyncio.create_task(server.listening.wait())
            await asyncio.wait({serving, listening}, return_when=asyncio.FIRST_COMPLETED)
            log = get_logger("service")
            try:
                url = _url(settings, listener)
                log.info(
                    LogEvent.PROCESS_STARTED, actor=name, actor_no=presence.process_no, url=url
                )
                yield RunningService(url, app, pulls, serving)
            finally:
                pulls.close()
                if streams is not None:
                    streams.close()
                server.should_exit = True
                await serving
                log.info(LogEvent.PROCESS_STOPPED, actor=name)


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


async def run_service_process(
    settings: ServiceSettings, stop: Stop, open_console: OpenConsole | None = None
) -> None:
    """Answer requests until a stop is requested. Any number of processes may run."""
    await run_to_stop(
        lambda: _run(settings, stop, open_console),
        stop,
        drain_seconds=settings.service_drain_seconds,
    )


async def _run(settings: ServiceSettings, stop: Stop, open_console: OpenConsole | None) -> None:
    async with open_service(settings, open_console) as service:
        stop.mark_started()
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({stopping, service.ended}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()


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


@asynccontextmanager
async def _certificate_reloaded(
    settings: ServiceSettings,
    config: uvicorn.Config,
    expires_at: datetime | None,
    pool: Pool,
    presence: Presence,
) -> AsyncGenerator[None]:
    """Load the certificate again for the block when its files change."""
    chain, key = settings.service_certificate, settings.service_certificate_key
    if config.ssl is None or chain is None or key is None or expires_at is None:
        yield
        return
    files, stop = (
        certificate.CertificateFiles(
            config.ssl,
            chain,
            key,
            expires_at=expires_at,
            pool=pool,
            process_no=presence.process_no,
        ),
        Stop(),
    )
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(
            run_service(
                "service.certificate", files.tick, stop=stop, idle_seconds=certificate.CHECK_SECONDS
            )
        )
        try:
            yield
        finally:
            stop.request()


def _config(settings: ServiceSettings, app: ServiceApp) -> tuple[uvicorn.Config, datetime | None]:
    """Return the server's configuration, and when its certificate expires; None without one."""
    config = uvicorn.Config(
        RequestEntry(
            app,
            settings.service_trusted_proxies,
            settings.service_requests_max,
            settings.service_path_prefix,
        ),
        http=connections_of(settings.service_requests_max),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",  # an error is logged under its request's id, and without values
        access_log=False,
        proxy_headers=False,  # RequestEntry reads them
        server_header=False,
        timeout_keep_alive=KEPT_SECONDS,
        timeout_graceful_shutdown=max(1, round(settings.service_drain_seconds)),
        ssl_certfile=settings.service_certificate,
        ssl_keyfile=settings.service_certificate_key,
    )
    chain, key = settings.service_certificate, settings.service_certificate_key
    expires_at = None
    try:
        if chain is not None and key is not None:
            expires_at = certificate.check_certificate(chain, key)
        config.load()
    except OSError as error:  # as of `ssl`, whose errors are of this class
        expected = "a certificate and its key as PEM"
        problem = Problem("DUELEDGER_SERVICE_CERTIFICATE", "", str(error), expected)
        raise InvalidSetting("The certificate cannot be used:", [problem]) from None
    return config, expires_at


@contextmanager
def _bound_socket(settings: ServiceSettings) -> Generator[socket.socket]:
    host, port = str(settings.service_host), settings.service_port
    family = socket.AF_INET6 if settings.service_host.version == 6 else socket.AF_INET  # noqa: PLR2004 - the versions of IP
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        reason = error.strerror or "it cannot be used"
        problem = Problem("DUELEDGER_SERVICE_PORT", f"{host} {port}", reason, "a free port")
        raise InvalidSetting("The service cannot listen:", [problem]) from None
    with listener:
        # Its connections inherit it; asyncio sets it only where the protocol is named. Without it
        # the end of each answer waits for the client's delayed acknowledgement: 40 ms.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield listener


def _url(settings: ServiceSettings, listener: socket.socket) -> str:
    scheme = "http" if settings.service_certificate is None else "https"
    host = str(settings.service_host)
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{listener.getsockname()[1]}"
