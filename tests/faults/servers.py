"""PostgreSQL and Kafka that a test may break, each behind a proxy."""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from dueledger.ledger.store import connect
from dueledger.ledger.store.migrations import migrate
from dueledger.stack.embedded import EmbeddedStack, open_embedded

from .protocol_messages import KafkaTap, PostgresTap
from .proxy import HOST, Proxy


def with_address(dsn: str, *, port: int | None = None, database: str | None = None) -> str:
    """Return `dsn` with another port or database in it."""
    parts = urlsplit(dsn)
    user, _, _ = parts.netloc.rpartition("@")
    netloc = parts.netloc if port is None else f"{user}@{HOST}:{port}"
    path = parts.path if database is None else f"/{database}"
    return urlunsplit(parts._replace(netloc=netloc, path=path))


@asynccontextmanager
async def proxied(dsn: str) -> AsyncGenerator[tuple[Proxy, str]]:
    """Give a proxy before a Postgres of another stack, and its DSN through it."""
    proxy = Proxy(PostgresTap)
    proxy.upstream_port = urlsplit(dsn).port or 0
    await proxy.start()
    try:
        yield proxy, with_address(dsn, port=proxy.port)
    finally:
        await proxy.stop()


@dataclass
class Servers:
    """A stack of the fault tests' own, with a proxy before each server."""

    stack: EmbeddedStack
    postgres: Proxy
    kafka: Proxy
    template: str

    @property
    def dsn(self) -> str:
        return self.stack.endpoints.dsn

    async def heal(self) -> None:
        """Undo all faults."""
        self.postgres.heal()
        self.kafka.heal()
        await asyncio.to_thread(self.stack.postgres.start)
        await asyncio.to_thread(self.stack.kafka.start)


@asynccontextmanager
async def open_servers() -> AsyncGenerator[Servers]:
    async with AsyncExitStack() as running:
        postgres, kafka = Proxy(PostgresTap), Proxy(KafkaTap)
        for proxy in (postgres, kafka):
            await proxy.start()
            running.push_async_callback(proxy.stop)
        opening = open_embedded(durable=False, relay_port=kafka.port)
        stack = await asyncio.to_thread(opening.__enter__)
        running.push_async_callback(asyncio.to_thread, opening.__exit__, None, None, None)
        postgres.upstream_port = urlsplit(stack.endpoints.dsn).port or 0
        kafka.upstream_port = stack.kafka.relayed_port
        template = f"template_{secrets.token_hex(4)}"
        admin = await asyncpg.connect(stack.endpoints.dsn)
        await admin.execute(f"create database {template}")
        await admin.close()
        owner = await connect(
            with_address(stack.endpoints.dsn, database=template), application_name="test"
        )
        await migrate(owner, ahead=timedelta(0))
        await owner.execute("create table public.effect_within (item uuid not null)")
        await owner.close()
        yield Servers(stack, postgres, kafka, template)
