"""The service as a process: its socket, its certificate, and its end."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import final

import uvicorn

from dueledger.ledger.errors import InvalidSetting, Problem
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import Stop, run_service, run_to_stop
from dueledger.service import certificate
from dueledger.service.app import ServiceApp
from dueledger.service.application import OpenApplication, OpenConsole, open_application
from dueledger.service.client_connection import KEPT_SECONDS, connections_of
from dueledger.service.entry import RequestEntry
from dueledger.service.pull_queue import PullQueue
from dueledger.service.settings import ServiceSettings


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


@asynccontextmanager
async def open_service(
    settings: ServiceSettings, open_console: OpenConsole | None = None
) -> AsyncGenerator[RunningService]:
    """Answer requests for the block; at its end, open ones have `service_drain_seconds`.

    With `open_console`, the console is at `/console/`.

    Raises Unavailable if Postgres cannot be reached, NotPermitted if its login is no service,
    InvalidSetting if the port or the certificate cannot be used.
    """
    with _bound_socket(settings) as listener:
        prefix = settings.service_path_prefix
        async with open_application(settings, open_console, path_prefix=prefix) as opened:
            config, expires_at = _config(settings, opened.entry)
            async with _certificate_reloaded(settings, config, expires_at, opened):
                server = _Server(config)
                serving = asyncio.create_task(server.serve(sockets=[listener]))
                listening = asyncio.create_task(server.listening.wait())
                await asyncio.wait({serving, listening}, return_when=asyncio.FIRST_COMPLETED)
                log = get_logger("service")
                try:
                    url, name, number = _url(settings, listener), opened.name, opened.process_no
                    log.info(LogEvent.PROCESS_STARTED, actor=name, actor_no=number, url=url)
                    yield RunningService(url, opened.app, opened.pulls, serving)
                finally:
                    opened.close()
                    server.should_exit = True
                    await serving
                    log.info(LogEvent.PROCESS_STOPPED, actor=opened.name)


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
async def _certificate_reloaded(
    settings: ServiceSettings,
    config: uvicorn.Config,
    expires_at: datetime | None,
    opened: OpenApplication,
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
            pool=opened.pool,
            process_no=opened.process_no,
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


def _config(
    settings: ServiceSettings, entry: RequestEntry
) -> tuple[uvicorn.Config, datetime | None]:
    """Return the server's configuration, and when its certificate expires; None without one."""
    config = uvicorn.Config(
        entry,
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
