"""The rig of benchmarks: real servers, a database for each, and the measured processes."""

import os
import secrets
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import final
from urllib.parse import urlsplit, urlunsplit

from bench.ledgers import Ledger
from bench.measurements import (
    BenchServer,
    drop_database,
    make_database,
    read_server,
    vacuum_tables,
)
from bench.processes import Process, require_alive, running
from bench.usage import Meter, memory_bytes
from bench.workload import FIRST_DATE, KINDS_VARIABLE
from dueledger.dev.child_processes import forget_kafka_security, process_environment
from dueledger.ledger.store import PlanProfile, connect
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.migrations import migrate
from dueledger.ledger.store.partitions import make_item_months
from dueledger.stack import Endpoints

APPLICATION: str = "dueledger-bench"
BENCH: str = "bench"


@contextmanager
def open_rig(say: Callable[[str], None]) -> Generator["Rig"]:
    """Start PostgreSQL and Kafka for the length of the block, both with durable settings."""
    # Imported here: the embedded extra is no runtime dependency.
    from dueledger.stack.embedded import open_embedded  # noqa: PLC0415

    forget_kafka_security()
    with (
        tempfile.TemporaryDirectory(prefix="dueledger-bench-") as directory,
        open_embedded(progress=say) as stack,
    ):

        def servers() -> dict[str, int]:
            pids = {"postgres": stack.postgres.pid, "kafka": stack.kafka.pid}
            return {name: pid for name, pid in pids.items() if pid is not None}

        yield Rig(stack.endpoints, Path(directory), say, servers=servers)


@final
class Rig:
    """Two servers and the processes that use them. `servers` returns their ids if they are ours."""

    def __init__(
        self,
        endpoints: Endpoints,
        log_dir: Path,
        say: Callable[[str], None],
        *,
        servers: Callable[[], Mapping[str, int]] = dict[str, int],
    ) -> None:
        self.endpoints = endpoints
        self.log_dir = log_dir
        self.say = say
        self._servers = servers
        self._processes: dict[str, Process] = {}
        self._others: dict[str, int] = {}

    @asynccontextmanager
    async def database(self) -> AsyncGenerator[str]:
        """Make an empty database, give its DSN, and drop it at the end."""
        name = f"bench_{secrets.token_hex(4)}"
        admin = await connect(self.endpoints.dsn, application_name=APPLICATION)
        try:
            await make_database(admin, name)
            yield urlunsplit(urlsplit(self.endpoints.dsn)._replace(path=f"/{name}"))
        finally:
            await drop_database(admin, name)
            await admin.close()

    @asynccontextmanager
    async def ledger(self, *, settings: Mapping[str, str] | None = None) -> AsyncGenerator[Ledger]:
        """Make a new ledger: database, kinds, topics and consumer group.

        `settings` are environment variables for the processes that work on it.
        """
        async with self.database() as dsn, AsyncExitStack() as exits:
            connection = await connect(dsn, application_name=APPLICATION)
            exits.push_async_callback(connection.close)
            watcher = await connect(dsn, application_name=APPLICATION, profile=PlanProfile.ANALYTIC)
            exits.push_async_callback(watcher.close)
            await migrate(connection)
            await make_item_months(connection, [FIRST_DATE])
            actor_no = await register_actor(connection, "service:bench", ActorKind.SERVICE)
            kind = f"Bench{secrets.token_hex(4)}"
            ledger = Ledger(dsn, kind, connection, watcher, actor_no=actor_no, say=self.say)
            ledger.environment.update(
                {
                    **process_environment(Endpoints(dsn, self.endpoints.bootstrap_servers)),
                    KINDS_VARIABLE: f"{ledger.kind} {ledger.other_kind}",
                    "DUELEDGER_WORKER_GROUP_ID": f"bench-{kind}",
                    **(settings or {}),
                }
            )
            yield ledger

    @asynccontextmanager
    async def several(
        self, role: str, count: int, ledger: Ledger, *arguments: str
    ) -> AsyncGenerator[list[Process]]:
        """Run `count` processes ``dueledger ARGUMENTS`` on a ledger, under measurement."""
        async with AsyncExitStack() as exits:
            started: list[Process] = []
            for number in range(1, count + 1):
                name = f"{role}-{number}" if count > 1 else role
                process = await exits.enter_async_context(
                    running(name, *arguments, environment=ledger.environment, log_dir=self.log_dir)
                )
                exits.callback(self._processes.pop, name)
                self._processes[name] = process
                started.append(process)
            yield started

    @contextmanager
    def watching(self, name: str, pid: int) -> Generator[None]:
        """Measure another process, and all that it starts, for the length of the block."""
        self._others[name] = pid
        try:
            yield
        finally:
            del self._others[name]

    def roots(self) -> dict[str, int]:
        """Return the process ids under measurement by name, this one's included."""
        return {
            **self._servers(),
            **{name: process.pid for name, process in self._processes.items()},
            **self._others,
            BENCH: os.getpid(),
        }

    def meter(self) -> Meter:
        """Begin to measure the usage of all of them."""
        return Meter(self.roots())

    def memory_bytes(self) -> dict[str, int]:
        """Return the private memory of each of them."""
        return memory_bytes(self.roots())

    def require_alive(self) -> None:
        """Raise ProcessDied if one has ended."""
        require_alive(self._processes, self.log_dir)

    async def read_server(self) -> BenchServer:
        """Read PostgreSQL's version and settings for the document."""
        connection = await connect(self.endpoints.dsn, application_name=APPLICATION)
        try:
            return await read_server(connection)
        finally:
            await connection.close()

    async def rest(self, dsn: str) -> None:
        """Settle a database after a bulk load: the same for every system."""
        connection = await connect(dsn, application_name=APPLICATION)
        try:
            await vacuum_tables(connection)
        finally:
            await connection.close()
