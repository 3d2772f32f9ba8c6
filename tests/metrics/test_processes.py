"""Each process answers `/metrics` at the port that its settings name."""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from urllib.error import HTTPError

import orjson
import pytest
from aiohttp import web

from dueledger.ledger.errors import InvalidSetting
from dueledger.ledger.metrics import Metric
from dueledger.ledger.metrics.exposition import served_metrics
from dueledger.ledger.metrics.readings import KINDS_MAX
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.log import LogEvent
from dueledger.ledger.store import Connection
from dueledger.ledger.store.items import emit_items
from dueledger.ledger.store.processes import ProcessRole
from dueledger.stack import free_ports
from tests.forks import ForkedProcess, ForkServer
from tests.logins import with_login
from tests.metrics_page import Series
from tests.workers.conftest import Eventually

from .conftest import Scrape, fetch

HANDLERS = """
from dueledger import Completed, Handlers

handlers = Handlers()

async def work(item):
    return Completed()

for number in range(10):
    handlers.on(f"Counted{number}")(work)
"""
PROCESSES = {
    ProcessRole.ALLOCATOR: ("allocator", "allocate"),
    ProcessRole.WORKER: ("worker", "work", "mine:handlers"),
    ProcessRole.DIRECT_WORKER: ("direct_worker", "work", "--direct", "mine:handlers"),
    ProcessRole.OUTCOME_INTAKE: ("outcome_intake", "work", "--outcomes"),
    ProcessRole.INTAKE: ("intake", "intake"),
    ProcessRole.MATERIALISER: ("materialiser", "materialise"),
    ProcessRole.RECONCILER: ("reconciler", "reconcile"),
    ProcessRole.RELAY: ("relay", "relay"),
    ProcessRole.SERVICE: ("service", "serve", "--port", "0"),
    ProcessRole.ALERTER: ("alerter", "alert"),
}


MakeDrafts = Callable[..., list[ItemDraft]]
StartCommand = Callable[..., Awaitable[ForkedProcess]]


@pytest.fixture
async def start_command(
    bootstrap_servers: str, fork_server: ForkServer, tmp_path: Path, kind: str
) -> AsyncGenerator[StartCommand]:
    """Start `dueledger` with arguments, for a database and a login; it dies with the test."""
    (tmp_path / "mine.py").write_text(HANDLERS)
    own = {name: text for name, text in os.environ.items() if "DUELEDGER_" not in name}
    started: list[ForkedProcess] = []

    async def start(dsn: str, login: str, *arguments: str, **more: str) -> ForkedProcess:
        process = await fork_server.start(
            *("-m", "dueledger", *arguments),
            env=own
            | {
                "DUELEDGER_DSN": with_login(dsn, login),
                "DUELEDGER_OUTBOX_DSN": with_login(dsn, login),
                "DUELEDGER_BOOTSTRAP_SERVERS": bootstrap_servers,
                "DUELEDGER_METRICS_PORT": "0",
                "DUELEDGER_ALERT_TOPIC": f"{kind}-alerts",
                "DUELEDGER_EVENT_TOPIC": f"{kind}-events",
                "DUELEDGER_OUTCOME_TOPIC": f"{kind}-outcomes",
            }
            | more,
            cwd=tmp_path,
            pipe="stderr",
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        await process.wait()


async def metrics_url(process: ForkedProcess) -> str:
    """Return where a process serves its metrics; go on reading its log."""
    assert process.piped is not None
    async for line in process.piped:
        if line.startswith(b"{") and LogEvent.METRICS_SERVED.encode() in line:
            return orjson.loads(line)["url"]
    pytest.fail("it has ended")


async def test_each_process_serves_its_metrics_and_says_which_server_is_away(
    database: str,
    start_command: StartCommand,
    eventually: Eventually,
    scrape: Scrape,
) -> None:
    away = f"postgresql://127.0.0.1:{free_ports.free()}/none"
    started = {
        role: await start_command(database, login, *arguments)
        for role, (login, *arguments) in PROCESSES.items()
    }
    waiting = await start_command(away, "allocator", "allocate")
    assert started.keys() == set(ProcessRole)
    for role, process in started.items():
        url = await metrics_url(process)

        async def connected(url: str = url) -> set[str]:
            read = await scrape(url)
            return {role for role, _ in read.get(Metric.PROCESS_INFO, {})}

        assert await eventually(connected) == {role}
    url = await metrics_url(waiting)

    async def unreachable() -> bool:
        read = await scrape(url)
        return read.get(Metric.SERVER_UNREACHABLE) == {("postgres", "connect"): 1}

    await eventually(unreachable)


async def test_a_process_with_a_thousand_tenants_has_less_than_500_series(
    database: str,
    connection: Connection,
    actor_no: int,
    make_drafts: MakeDrafts,
    start_command: StartCommand,
    eventually: Eventually,
    scrape: Scrape,
) -> None:
    drafts, others = (
        [
            draft
            for number in range(1000)
            for draft in make_drafts(tenant=f"tenant-{number}", kind=f"{kind}{number % 10}")
        ]
        for kind in ("Counted", "Unhandled")
    )
    await emit_items(connection, [*drafts, *others], actor_no=actor_no)
    await connection.execute("update ledger.kind set dispatch = 'direct'")
    process = await start_command(database, "direct_worker", "work", "--direct", "mine:handlers")
    url = await metrics_url(process)

    async def completed() -> dict[Metric, Series]:
        read = await scrape(url)
        is_whole = Metric.DUE_ITEMS in read  # those of the ledger are read by themselves
        return (
            read if is_whole and sum(read.get(Metric.OUTCOMES, {}).values()) == len(drafts) else {}
        )

    read = await eventually(completed)
    assert {outcome for _, outcome in read[Metric.OUTCOMES]} == {"completed"}
    assert len(read[Metric.OUTCOMES]) == KINDS_MAX + 1
    for metric in (Metric.START_LAG_SECONDS, Metric.COMPLETION_LAG_SECONDS):
        assert sum(read[metric].values()) == len(drafts)
    assert len(read[Metric.DUE_ITEMS]) == 9
    assert sum(read[Metric.DUE_ITEMS].values()) >= len(others)
    page = await asyncio.to_thread(fetch, url)
    series = [line for line in page.splitlines() if not line.startswith("#")]
    assert 200 < len(series) < 500


async def test_a_worker_exports_its_spans_to_the_endpoint_of_the_environment(
    database: str,
    connection: Connection,
    actor_no: int,
    make_drafts: MakeDrafts,
    start_command: StartCommand,
) -> None:
    received: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def take(request: web.Request) -> web.Response:
        body = await request.read()
        if b"work Counted1" in body and not received.done():
            received.set_result(body)
        return web.Response()

    app = web.Application()
    app.router.add_post("/v1/traces", take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    trace_id = "a1" * 16
    [draft] = make_drafts(kind="Counted1")
    traced = replace(draft, traceparent=f"00-{trace_id}-{'b2' * 8}-01")
    await emit_items(connection, [traced], actor_no=actor_no)
    await connection.execute("update ledger.kind set dispatch = 'direct'")
    host, port = runner.addresses[0][:2]
    await start_command(
        database,
        "direct_worker",
        *("work", "--direct", "mine:handlers"),
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://{host}:{port}",
        OTEL_BSP_SCHEDULE_DELAY="50",
        OTEL_EXPORTER_OTLP_COMPRESSION="none",
    )
    assert bytes.fromhex(trace_id) in await received
    await runner.cleanup()


async def test_metrics_are_served_while_the_event_loop_is_blocked() -> None:
    with served_metrics(IPv4Address("127.0.0.1"), 0) as url:
        page = fetch(url)  # it blocks the loop of this test
        assert "process_cpu_seconds_total" in page
        with pytest.raises(HTTPError, match="404"):
            fetch(url.removesuffix("metrics"))


def test_a_port_in_use_is_refused_by_the_name_of_its_setting() -> None:
    host = IPv4Address("127.0.0.1")
    with served_metrics(host, 0) as url:
        port = int(url.rpartition(":")[2].removesuffix("/metrics"))
        with pytest.raises(InvalidSetting, match="DUELEDGER_METRICS_PORT"):  # noqa: SIM117
            with served_metrics(host, port):
                pass
