"""Connections of a direct worker that Postgres ends, and handlers that lose others."""

from collections.abc import Callable

import asyncpg

from dueledger import Completed, Connection, DueItem, Handlers, Verdict
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.workers.run.own_transaction import LOSSES_MAX
from tests.workers.killed_connections import ITEMS, KilledConnections

from .conftest import Estate

MakeDrafts = Callable[..., list[ItemDraft]]


async def nobody_else() -> None:
    """The worker claims by itself."""


async def test_g5_transactions_that_die_with_their_connections_count_no_attempt(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    killed = KilledConnections(estate.kind, estate.connection, estate.eventually)
    await estate.emit(make_drafts(ITEMS))
    await estate.work(killed.handlers())

    await killed.until_completed(nobody_else)


async def test_a_connection_of_the_handlers_own_that_is_lost_is_a_failure_of_the_handler(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    handlers = Handlers()

    @handlers.on_transaction(estate.kind, backoff_base_seconds=3600, backoff_cap_seconds=3600)
    async def work(item: DueItem, connection: Connection) -> Verdict:
        del item
        own = await asyncpg.connect(estate.dsn)
        await connection.execute("select 1")
        await own.execute("select pg_terminate_backend(pg_backend_pid())")
        return Completed()

    await estate.emit(make_drafts(1))
    await estate.work(handlers)

    assert await estate.eventually(estate.events) == {"key-000000": ["failed"]}
    detail = await estate.connection.fetchval("select detail ->> 'error' from ledger.transition")
    assert detail == "ConnectionDoesNotExistError"


async def test_g9_an_item_that_loses_its_connection_each_time_fails_at_last(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    handlers = Handlers()

    @handlers.on_transaction(estate.kind, backoff_base_seconds=0.001, backoff_cap_seconds=0.001)
    async def work(item: DueItem, connection: Connection) -> Verdict:
        del item
        await connection.execute("select pg_terminate_backend(pg_backend_pid())")
        return Completed()

    await estate.emit(make_drafts(1))
    await estate.set_kind(attempt_max=2)
    await estate.work(handlers)

    await estate.eventually(estate.reviews)
    (events,) = (await estate.events()).values()
    assert events == ["released"] * (LOSSES_MAX - 1) + ["failed", "parked"]
