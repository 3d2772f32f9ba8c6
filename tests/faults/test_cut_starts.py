"""Processes whose connection to Postgres is lost while they start: they wait, and start."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from pydantic import SecretStr

from dueledger import Completed, DueItem, Handlers
from dueledger.allocator import AllocatorSettings, run_allocator
from dueledger.ledger.intake import EventIntakeSettings, run_intake
from dueledger.ledger.materialise import MaterialiserSettings, run_materialiser
from dueledger.ledger.outbox import RelaySettings, run_relay
from dueledger.ledger.runtime import service
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.store import Connection
from dueledger.reconciler import ReconcilerSettings, ReconcilerSources, run_reconciler
from dueledger.workers.direct import DirectSettings
from dueledger.workers.http import DirectHttpSettings, run_http_worker
from dueledger.workers.outcomes import OutcomeIntakeSettings, run_outcome_intake
from dueledger.workers.process import run_direct_worker, run_worker
from dueledger.workers.settings import WorkerSettings

from .cuts import Cuts
from .programs import eventually
from .proxy import HOST, Proxy
from .servers import with_address
from .site import Site

STARTED_SECONDS = 120.0
handlers = Handlers()


@handlers.on("ReminderDue")
async def remind(_: DueItem) -> Completed:
    return Completed()


@handlers.on_transaction("LetterDue")
async def write(_: DueItem, __: Connection) -> Completed:
    return Completed()


RUNS: dict[str, tuple[type[Any], Callable[[Any, Stop], Awaitable[object]]]] = {
    "allocate": (AllocatorSettings, run_allocator),
    "work": (WorkerSettings, lambda settings, stop: run_worker(settings, handlers, stop)),
    "work --direct": (
        DirectSettings,
        lambda settings, stop: run_direct_worker(settings, handlers, stop),
    ),
    "work --http --direct": (DirectHttpSettings, run_http_worker),
    "work --outcomes": (OutcomeIntakeSettings, run_outcome_intake),
    "intake": (EventIntakeSettings, run_intake),
    "materialise": (MaterialiserSettings, run_materialiser),
    "relay": (RelaySettings, run_relay),
    "reconcile": (
        ReconcilerSettings,
        lambda settings, stop: run_reconciler(settings, ReconcilerSources(), stop),
    ),
}


class StartedStop(Stop):
    """A stop that says when its process has started."""

    def __init__(self) -> None:
        super().__init__()
        self.started = asyncio.Event()

    def mark_started(self) -> None:
        super().mark_started()
        self.started.set()


@pytest.fixture(autouse=True)
def _quick_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "AWAITED_CAP_SECONDS", 0.01)


@asynccontextmanager
async def cut_proxy(upstream_port: int) -> AsyncGenerator[tuple[Cuts, int]]:
    """Cuts in front of a server, and the port to connect to."""
    cuts = Cuts()
    proxy = Proxy(cuts.tap)
    await proxy.start()
    proxy.upstream_port = upstream_port
    yield cuts, proxy.port
    await proxy.stop()


def settings_of(process: str, dsn: str, bootstrap_servers: str) -> Any:  # noqa: ANN401  # by the row
    extra: dict[str, object] = {"http_allowed_origins": ("*",)} if "--http" in process else {}
    if process == "relay":
        extra["outbox_dsn"] = SecretStr(dsn)
    return RUNS[process][0](dsn=SecretStr(dsn), bootstrap_servers=bootstrap_servers, **extra)


async def start_through(
    cuts: Cuts,
    process: str,
    settings: Any,  # noqa: ANN401  # its own
    has_started: Callable[[], Awaitable[object]] | None = None,
) -> None:
    """Run a process until it has started, then stop it."""
    stop = StartedStop()
    running = asyncio.ensure_future(RUNS[process][1](settings, stop))
    started = asyncio.ensure_future(has_started() if has_started else stop.started.wait())
    async with asyncio.timeout(STARTED_SECONDS):
        await asyncio.wait({running, started}, return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        cuts.has_ended = True
        stop.request()
        await running
    assert stop.has_started
    assert cuts.count >= 6


@pytest.mark.parametrize("process", RUNS)
async def test_g5_a_process_that_loses_postgres_at_any_request_of_its_start_waits_and_starts(
    process: str, database: str, bootstrap_servers: str
) -> None:
    async with cut_proxy(urlsplit(database).port or 5432) as (cuts, port):
        settings = settings_of(process, with_address(database, port=port), bootstrap_servers)
        await start_through(cuts, process, settings)


@pytest.mark.faults
@pytest.mark.parametrize("process", ["work", "work --outcomes", "intake", "reconcile"])
async def test_g5_a_process_that_loses_kafka_at_any_request_of_its_start_waits_and_starts(
    process: str, site: Site
) -> None:
    cuts = Cuts()
    proxy = site.servers.kafka
    settings = settings_of(process, site.dsn, f"{HOST}:{proxy.port}")
    if process == "reconcile":
        settings = settings.model_copy(update={"reconcile_repair": "execute"})

    async def joined() -> None:
        await eventually(lambda: site.fetchval("select exists (select from ledger.credit)"))

    tap, proxy.tap = proxy.tap, cuts.tap
    try:
        await start_through(cuts, process, settings, joined if process == "work" else None)
    finally:
        proxy.tap = tap
