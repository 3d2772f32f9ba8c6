"""A ledger restored from a copy, beside a Kafka that kept the records of the lost commits."""

import asyncio
import shutil
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from dueledger import Completed, DueItem, Handlers, Verdict
from dueledger.allocator import AllocatorSettings, open_allocator
from dueledger.ledger.kafka.envelope import work_topic
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.store import Connection, connect
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.flow_limits import grant_credits
from dueledger.ledger.store.items import emit_items, read_accounting
from dueledger.ledger.store.migrations import migrate
from dueledger.stack.postgres import Postgres
from dueledger.stack.start_progress import StartProgress
from dueledger.workers.process import run_worker
from dueledger.workers.settings import WorkerSettings

from .conftest import SESSION_SECONDS, Eventually

MakeDrafts = Callable[..., list[ItemDraft]]
ITEMS = 60
RUNS = [*range(2), *(pytest.param(run, marks=pytest.mark.faults) for run in range(2, 22))]


def _completing(kind: str, seen: list[str]) -> Handlers:
    handlers = Handlers()

    @handlers.on_batch(kind, batch_max=50)
    async def complete(items: list[DueItem]) -> list[Verdict]:
        seen.extend(item.business_key for item in items)
        return [Completed({"key": item.business_key}) for item in items]

    return handlers


class OwnServer:
    """A Postgres of the test's own, which can be copied while it is stopped."""

    def __init__(self, directory: Path) -> None:
        directory.chmod(0o711)  # as root, the server runs as another user
        self.postgres = Postgres(directory, durable=False, steps=StartProgress(None))
        self._cluster = directory / "postgres"
        self._copy = directory / "copy"

    async def copy(self) -> None:
        """Stop it, copy its files, and start it again."""
        await asyncio.to_thread(self.postgres.stop)
        await self._run("cp", "-a", str(self._cluster), str(self._copy))
        await asyncio.to_thread(self.postgres.start)

    async def restore(self) -> None:
        """Stop it, put the copy in its place, and start that."""
        await asyncio.to_thread(self.postgres.stop)
        await self._run("rm", "-r", str(self._cluster))
        await self._run("mv", str(self._copy), str(self._cluster))
        await asyncio.to_thread(self.postgres.start)

    async def _run(self, *command: str) -> None:
        await asyncio.to_thread(subprocess.run, command, check=True)


@asynccontextmanager
async def _own_server() -> AsyncGenerator[OwnServer]:
    directory = Path(tempfile.mkdtemp(prefix="dueledger-restored-"))
    server = OwnServer(directory)
    try:
        await asyncio.to_thread(server.postgres.start)
        yield server
    finally:
        await asyncio.to_thread(server.postgres.stop, "immediate")
        await asyncio.to_thread(shutil.rmtree, directory)


@asynccontextmanager
async def _connected(server: OwnServer) -> AsyncGenerator[Connection]:
    connection = await connect(server.postgres.dsn, application_name="test")
    try:
        yield connection
    finally:
        await connection.close()


@pytest.mark.parametrize("_run", RUNS)
async def test_g4_a_cold_copy_restored_under_records_of_a_lost_future_completes_nothing_unworked(
    _run: int,
    bootstrap_servers: str,
    kind: str,
    make_drafts: MakeDrafts,
    eventually: Eventually,
) -> None:
    seen: list[str] = []

    async def allocate(server: OwnServer) -> None:
        settings = AllocatorSettings(
            dsn=SecretStr(server.postgres.dsn), bootstrap_servers=bootstrap_servers
        )
        async with open_allocator(settings, stop=Stop()) as allocator:
            await allocator.tick()

    async def emit_and_allocate(server: OwnServer, prefix: str) -> set[int]:
        """Return the fences of the items."""
        async with _connected(server) as connection:
            actor_no = await register_actor(connection, "test", ActorKind.WORKER)
            await grant_credits(connection, actor_no, [work_topic(kind)], [1_000_000], 3600)
            before = await connection.fetchval("select coalesce(max(fence), 0) from ledger.claim")
            await emit_items(connection, make_drafts(ITEMS, prefix=prefix), actor_no=actor_no)
            await allocate(server)
            rows = await connection.fetch("select fence from ledger.claim where fence > $1", before)
        return {row["fence"] for row in rows}

    async def work(server: OwnServer) -> None:
        settings = WorkerSettings(
            dsn=SecretStr(server.postgres.dsn),
            bootstrap_servers=bootstrap_servers,
            worker_group_id=f"group-{kind}",
            worker_session_timeout_seconds=SESSION_SECONDS,
        )
        await run_worker(settings, _completing(kind, seen), Stop(), once=True)

    async with _own_server() as server:
        async with _connected(server) as connection:
            await migrate(connection, ahead=timedelta(0))
            # Ahead of the clock, so that it does not lift the copy: the tokens alone decide.
            await connection.execute("select setval('ledger.fence', 1::bigint << 42)")
        await emit_and_allocate(server, "kept")
        await work(server)
        await server.copy()
        lost = await emit_and_allocate(server, "lost")
        await server.restore()
        given = await emit_and_allocate(server, "new")
        assert lost & given, "no fence was given twice: the test shows nothing"

        async def all_ended() -> bool:
            await allocate(server)
            await work(server)
            async with _connected(server) as connection:
                refused = await connection.fetchval(
                    "select coalesce(sum(to_position - from_position + 1), 0)"
                    " from ledger.rejected_write where verb = 'start'"
                )
                accounts = await read_accounting(connection)
            completed = sum(account.completed for account in accounts)
            return (refused, completed) == (ITEMS, 2 * ITEMS)

        await eventually(all_ended)
        async with _connected(server) as connection:
            completed = await connection.fetch(
                "select i.business_key, t.detail ->> 'key' as evidence from ledger.transition t"
                " join ledger.due_item i using (effective_date, item_no)"
            )
            refused = await connection.fetch(
                "select verb, fence, from_position, to_position,"
                " reason = case when fence = any ($1::bigint[]) then 'mismatch' else 'unknown' end"
                " as is_named from ledger.rejected_write",
                sorted(given),
            )
    assert {row["business_key"] for row in completed} == set(seen)
    assert not any(key.startswith("lost") for key in seen)
    assert all(row["business_key"] == row["evidence"] for row in completed)
    assert {(row["verb"], row["is_named"]) for row in refused} == {("start", True)}
    positions = [
        (row["fence"], position)
        for row in refused
        for position in range(row["from_position"], row["to_position"] + 1)
    ]
    assert len(positions) == len(set(positions)) == ITEMS
    assert {row["fence"] for row in refused} == lost
