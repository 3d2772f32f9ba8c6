"""Connections of a direct worker that Postgres ends, and handlers that lose others."""

import asyncio
from collections.abc import Callable
from typing import Final
from uuid import UUID

import asyncpg

from dueledger import Completed, Connection, DueItem, Handlers, Verdict
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.workers.run.own_transaction import LOSSES_MAX, LOSSES_TOTAL_MAX, Losses
from tests.workers.killed_connections import ITEMS, KilledConnections

from .conftest import Estate

MakeDrafts = Callable[..., list[ItemDraft]]
PAUSE: Final = "update ledger.flow set paused_at = ledger.now(), paused_by = $1"
WAITING: Final = """
    select e.name, p.attempt, p.starts, extract(epoch from p.available_at - t.at)::float as seconds
    from ledger.pending p join ledger.transition t using (item_no)
    join ledger.transition_event e using (event)
"""


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


async def test_g5_an_item_whose_transaction_lost_its_connection_may_be_claimed_within_a_second(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    handlers, paused = Handlers(), asyncio.Event()

    @handlers.on_transaction(estate.kind)
    async def work(item: DueItem, connection: Connection) -> Verdict:
        del item
        await estate.connection.execute(PAUSE, estate.actor_no)  # so that it waits for this test
        paused.set()
        await connection.execute("select pg_terminate_backend(pg_backend_pid())")
        return Completed()

    await estate.emit(make_drafts(1))
    await estate.work(handlers)
    await paused.wait()

    row = await estate.eventually(lambda: estate.connection.fetchrow(WAITING))
    assert (row["name"], row["attempt"], row["starts"]) == ("released", 0, 0)
    assert 0 < row["seconds"] <= 1
    assert _losses_of(Losses(), *[0] * 3) == [0.25, 0.5, 0.5]


def test_an_item_that_loses_its_connection_alone_is_excused_so_many_times() -> None:
    assert _losses_of(Losses(), *[0] * LOSSES_MAX)[LOSSES_MAX - 2 :] == [0.5, None]


def test_losses_of_others_while_an_item_waits_excuse_it() -> None:
    losses = Losses()
    waits = [_losses_of(losses, 0, number)[0] for number in range(1, LOSSES_TOTAL_MAX)]
    assert waits == [0.25] * (LOSSES_TOTAL_MAX - 1)
    assert _losses_of(losses, 0) == [None]


def test_losses_of_others_beside_an_item_do_not_excuse_it() -> None:
    losses, items = Losses(), [UUID(int=0), UUID(int=1)]
    for _ in range(LOSSES_MAX - 1):
        begin_nos = [losses.begin(item) for item in items]
        assert all(losses.add(*each) for each in zip(items, begin_nos, strict=True))
    begin_nos = [losses.begin(item) for item in items]
    assert not any(losses.add(*each) for each in zip(items, begin_nos, strict=True))


def _losses_of(losses: Losses, *numbers: int) -> list[float | None]:
    """Return how long each waits that loses its connection, one after another; None if it fails."""
    items = [UUID(int=number) for number in numbers]
    outcomes = [losses.add(item, losses.begin(item)) for item in items]
    return [None if each is None else each.after_seconds for each in outcomes]


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
