"""Handlers that a worker process of the tests is given by name; they leave rows as evidence."""

import asyncio
import os
import signal
from collections.abc import Sequence

import asyncpg

from dueledger import Completed, DueItem, Handlers, Verdict
from dueledger.ledger.store import Connection

KIND = os.environ["TEST_KIND"]
POISON = "poison"
ONE_AT_A_TIME = asyncio.Lock()


async def see(items: list[DueItem]) -> None:
    """Leave a row for each time an item is worked."""
    connection = await asyncpg.connect(os.environ["DUELEDGER_DSN"])
    await connection.execute(
        "insert into public.seen (item, pid, at) select i, $2, clock_timestamp()"
        " from unnest($1::uuid[]) i",
        [item.id for item in items],
        os.getpid(),
    )
    await connection.close()


batch = Handlers()


@batch.on_batch(KIND, batch_max=20, concurrency=2)
async def work_batch(items: list[DueItem]) -> Sequence[Verdict]:
    """Complete in batches."""
    await see(items)
    return [Completed({"pid": os.getpid()}) for _ in items]


transaction = Handlers()
chunk = Handlers()
"""Several items share a transaction."""


@transaction.on_transaction(KIND, concurrency=8)
@chunk.on_transaction(KIND, concurrency=8, chunk_max=10)
async def work_transaction(item: DueItem, connection: Connection) -> Verdict:
    """Have an effect in the transaction that completes the item."""
    await connection.execute("insert into public.effect (item) values ($1)", item.id)
    return Completed()


stop = Handlers()


@stop.on_batch(KIND, concurrency=1)
async def stop_between(items: list[DueItem]) -> Sequence[Verdict]:
    """Stop its own process between the work and the verdict."""
    await see(items)
    os.kill(os.getpid(), signal.SIGSTOP)
    return [Completed({"by": "zombie"}) for _ in items]


die = Handlers()


@die.on_batch(KIND, batch_max=50, concurrency=4)
async def die_of_poison(items: list[DueItem]) -> Sequence[Verdict]:
    """Let one item kill the process that works it."""
    await see(items)
    if any(item.business_key.startswith(POISON) for item in items):
        os.kill(os.getpid(), signal.SIGKILL)
    return [Completed() for _ in items]


linger = Handlers()


@linger.on(KIND, concurrency=4, timeout_seconds=60)
async def linger_until_cancelled(item: DueItem) -> Verdict:
    """Never return, and leave a row when it is cancelled."""
    await see([item])
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.shield(asyncio.create_task(see([item])))
    return Completed()


hang = Handlers()


@hang.on(KIND, concurrency=4, timeout_seconds=60)
async def hang_for_ever(item: DueItem) -> Verdict:
    """Never return."""
    await see([item])
    await asyncio.Event().wait()
    return Completed()
