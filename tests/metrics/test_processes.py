"""Each process answers `/metrics` at the port that its settings name."""

import asyncio
import os
from contextlib import AsyncExitStack
from ipaddress import IPv4Address
from pathlib import Path
from urllib.error import HTTPError

import orjson
import pytest

from dueledger.ledger.errors import InvalidSetting
from dueledger.ledger.metrics import Metric
from dueledger.ledger.metrics.exposition import served_metrics
from dueledger.ledger.runtime.log import LogEvent
from dueledger.ledger.store.processes import ProcessRole
from dueledger.stack import free_ports
from tests.forks import ForkedProcess, ForkServer
from tests.logins import with_login
from tests.workers.conftest import Eventually

from .conftest import Scrape, fetch

HANDLERS = """
from dueledger import Completed, Handlers

handlers = Handlers()

@handlers.on("Counted")
async def work(item):
    return Completed()
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
}


async def metrics_url(process: ForkedProcess) -> str:
    """Return where a process serves its metrics; go on reading its log."""
    assert process.piped is not None
    async for line in process.piped:
        if line.startswith(b"{") and LogEvent.METRICS_SERVED.encode() in line:
            return orjson.loads(line)["url"]
    pytest.fail("it has ended")


async def test_each_process_serves_its_metrics_and_says_which_server_is_away(
    database: str,
    bootstrap_servers: str,
    fork_server: ForkServer,
    tmp_path: Path,
    eventually: Eventually,
    scrape: Scrape,
    kind: str,
) -> None:
    (tmp_path / "mine.py").write_text(HANDLERS)
    away = f"postgresql://127.0.0.1:{free_ports.free()}/none"
    own = {name: text for name, text in os.environ.items() if "DUELEDGER_" not in name}

    async def start(dsn: str, *arguments: str) -> ForkedProcess:
        process = await fork_server.start(
            *("-m", "dueledger", *arguments),
            env=own
            | {
                "DUELEDGER_DSN": dsn,
                "DUELEDGER_OUTBOX_DSN": dsn,
                "DUELEDGER_BOOTSTRAP_SERVERS": bootstrap_servers,
                "DUELEDGER_METRICS_PORT": "0",
                "DUELEDGER_EVENT_TOPIC": f"{kind}-events",
                "DUELEDGER_OUTCOME_TOPIC": f"{kind}-outcomes",
            },
            cwd=tmp_path,
            pipe="stderr",
        )
        running.callback(process.kill)
        return process

    async with AsyncExitStack() as running:
        started = {
            role: await start(with_login(database, login), *arguments)
            for role, (login, *arguments) in PROCESSES.items()
        }
        waiting = await start(away, "allocate")
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
    await asyncio.gather(*(each.wait() for each in (*started.values(), waiting)))


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
