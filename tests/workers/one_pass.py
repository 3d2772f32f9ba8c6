"""An allocator and a worker of one ledger and one kind, run one pass at a time."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from pydantic import SecretStr

from dueledger import Completed, DueItem, Handlers, Verdict
from dueledger.allocator import AllocatorSettings, open_allocator
from dueledger.ledger.kafka.envelope import work_topic
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.store import Connection, Record, connect
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.credits import grant_credits
from dueledger.ledger.store.items import emit_items, read_accounting
from dueledger.workers.process import run_worker
from dueledger.workers.settings import WorkerSettings

from .conftest import SESSION_SECONDS

_REFUSED = """
select verb, reason, fence, position
from ledger.rejected_write r cross join generate_series(r.from_position, r.to_position) position
"""

_COMPLETED = """
select i.business_key, t.detail ->> 'key' as evidence
from ledger.transition t join ledger.due_item i using (effective_date, item_no)
"""


@dataclass
class OnePassLedger:
    """A ledger, whose address may change, and the processes of one kind."""

    dsn: str
    bootstrap_servers: str
    kind: str
    group_id: str
    seen: list[str] = field(default_factory=list)
    """The keys with which the handler was called."""

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[Connection]:
        connection = await connect(self.dsn, application_name="test")
        try:
            yield connection
        finally:
            await connection.close()

    async def allocate(self) -> None:
        settings = AllocatorSettings(
            dsn=SecretStr(self.dsn), bootstrap_servers=self.bootstrap_servers
        )
        async with open_allocator(settings, stop=Stop()) as allocator:
            await allocator.tick()

    async def emit_and_allocate(self, drafts: Sequence[ItemDraft]) -> set[int]:
        """Return the fences of the items."""
        async with self.connected() as connection:
            actor_no = await register_actor(connection, "test", ActorKind.WORKER)
            await grant_credits(connection, actor_no, [work_topic(self.kind)], [1_000_000], 3600)
            before = await connection.fetchval("select coalesce(max(fence), 0) from ledger.claim")
            await emit_items(connection, drafts, actor_no=actor_no)
            await self.allocate()
            rows = await connection.fetch("select fence from ledger.claim where fence > $1", before)
        return {row["fence"] for row in rows}

    async def work(self) -> None:
        """Complete what the worker may start, with the key as evidence."""
        handlers = Handlers()

        @handlers.on_batch(self.kind, batch_max=50)
        async def complete(items: list[DueItem]) -> list[Verdict]:
            self.seen.extend(item.business_key for item in items)
            return [Completed({"key": item.business_key}) for item in items]

        settings = WorkerSettings(
            dsn=SecretStr(self.dsn),
            bootstrap_servers=self.bootstrap_servers,
            worker_group_id=self.group_id,
            worker_session_timeout_seconds=SESSION_SECONDS,
        )
        await run_worker(settings, handlers, Stop(), once=True)

    async def counts(self) -> tuple[int, int]:
        """Return how many positions were refused, and how many items are completed."""
        async with self.connected() as connection:
            accounts = await read_accounting(connection)
        return len(await self.refused()), sum(account.completed for account in accounts)

    async def refused(self) -> list[Record]:
        """Return verb, reason, fence and position of each refused position."""
        async with self.connected() as connection:
            return await connection.fetch(_REFUSED)

    async def completed(self) -> dict[str, str]:
        """Return the evidence of each completed key."""
        async with self.connected() as connection:
            rows = await connection.fetch(_COMPLETED)
        return {row["business_key"]: row["evidence"] for row in rows}
