"""Everybody claims while each item is moved to a new partition: nothing is lost."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import date
from functools import partial

import pytest
from pydantic import SecretStr

from dueledger import Completed, DueItem, Handlers, Verdict
from dueledger.allocator import Allocator
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.store import Connection, connect
from dueledger.ledger.store.items import emit_items, read_accounting
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy
from dueledger.ledger.store.partitions import split_default_partition
from dueledger.workers.direct import DirectSettings
from dueledger.workers.process import run_direct_worker

from .conftest import PLENTY

Start = Callable[..., Awaitable[Allocator]]
Drafts = Callable[..., list[ItemDraft]]
Eventually = Callable[[Callable[[], Awaitable[bool]]], Awaitable[bool]]

MONTHS = [date(year, month, 1) for year in range(2020, 2050) for month in range(1, 13)]
YEARS = [date(year, 1, 1) for year in (*range(1970, 2020), *range(2050, 2200))]
PARTITIONS = [*MONTHS, *YEARS]
EMITTERS = 2
CLAIMERS = 2


@asynccontextmanager
async def _beside(working: Callable[[Stop], Awaitable[object]], count: int) -> AsyncGenerator[None]:
    """Let so many do the same until the block ends."""
    stop = Stop()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(count):
            tasks.create_task(_ended(working(stop)))
        try:
            yield
        finally:
            stop.request()


async def _ended(work: Awaitable[object]) -> None:
    await work


async def _allocate(start_allocator: Start, stop: Stop) -> None:
    allocator = await start_allocator(stop=stop)
    while not stop.is_requested:
        await allocator.tick()
        await asyncio.sleep(0)


async def _work(database: str, kind: str, stop: Stop) -> None:
    handlers = Handlers()

    @handlers.on_batch(kind)
    async def complete(items: list[DueItem]) -> Sequence[Verdict]:
        return [Completed() for _ in items]

    settings = DirectSettings(
        dsn=SecretStr(database), bootstrap_servers="127.0.0.1:1", direct_idle_seconds=0.01
    )
    await run_direct_worker(settings, handlers, stop)


async def _split(database: str, stop: Stop) -> None:
    connection = await connect(database, application_name="upkeep")
    while not stop.is_requested:
        await split_default_partition(connection)
        await asyncio.sleep(0)
    await connection.close()


async def _emit(
    database: str, actor_no: int, make_drafts: Drafts, kinds: Sequence[str], days: Sequence[date]
) -> None:
    connection = await connect(database, application_name="emitter")
    for day in days:
        drafts = [
            draft
            for kind in kinds
            for draft in make_drafts(kind=kind, effective_date=day, prefix=str(day))
        ]
        await emit_items(connection, drafts, actor_no=actor_no)
    await connection.close()


@pytest.mark.parametrize(
    "count",
    [
        50,
        pytest.param(len(PARTITIONS), marks=pytest.mark.full, id="all"),
        pytest.param(len(PARTITIONS), marks=pytest.mark.full, id="all again"),
    ],
)
async def test_g1_nothing_is_lost_while_a_partition_is_made_for_each_item(
    count: int,
    start_allocator: Start,
    make_drafts: Drafts,
    grant: Callable[..., Awaitable[None]],
    connection: Connection,
    actor_no: int,
    kind: str,
    database: str,
    eventually: Eventually,
) -> None:
    kinds = [kind, f"{kind}Direct"]
    await put_kind_policy(connection, KindPolicy("acme", kinds[1], dispatch="direct"))
    days = PARTITIONS[:: len(PARTITIONS) // count][:count]
    await grant(PLENTY)

    async def all_claimed() -> bool:
        await grant(PLENTY)
        claimed = await connection.fetchval(
            "select count(distinct number) from ledger.claim c, unnest(c.item_no) number"
        )
        open_ = await connection.fetchval("select count(*) from ledger.run where closed_at is null")
        return (claimed, open_) == (2 * len(days), 0)

    async with AsyncExitStack() as beside:
        for working in (
            partial(_allocate, start_allocator),
            partial(_work, database, kinds[1]),
            partial(_split, database),
        ):
            await beside.enter_async_context(_beside(working, CLAIMERS))
        await asyncio.gather(
            *(
                _emit(database, actor_no, make_drafts, kinds, days[place::EMITTERS])
                for place in range(EMITTERS)
            )
        )
        await eventually(all_claimed)
    while await connection.fetchval("select count(*) from ledger.due_item_default"):
        await split_default_partition(connection)
    accounts = {account.kind: account for account in await read_accounting(connection)}
    assert {name: account.items for name, account in accounts.items()} == dict.fromkeys(
        kinds, len(days)
    )
    assert all(account.difference == 0 for account in accounts.values())
    assert accounts[kinds[1]].completed == len(days)
