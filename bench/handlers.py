"""The handlers that benchmarks work with, for the kinds named in the environment."""

import asyncio
import os
from typing import Final

from bench.workload import KINDS_VARIABLE
from dueledger import Completed, Connection, DueItem, Handlers, Verdict

NAP_SECONDS: Final = 0.005
NAPS_AT_ONCE: Final = 8
TRANSACTIONS_AT_ONCE: Final = 32
CHUNKS_AT_ONCE: Final = 4
CHUNK_MAX: Final = 25
MAKE_EFFECTS: Final = "create table effect (item uuid primary key)"
"""Makes the table that `transactional` writes to."""

handlers: Final = Handlers()
"""Does nothing, and leaves evidence of every item."""
napping: Final = Handlers()
"""Takes 5 ms an item, a few at once."""
transactional: Final = Handlers()
"""Writes one row an item in the transaction in which the item completes."""
chunked: Final = Handlers()
"""Likewise, but up to 25 items share a transaction."""


async def complete(items: list[DueItem]) -> list[Verdict]:
    """Complete each item with a reference of its own, as a provider would give."""
    return [Completed(f'{{"reference":"{item.fence}-{item.position}"}}') for item in items]


async def sleep_5ms(_item: DueItem) -> Verdict:
    """Wait like a handler that calls another service."""
    await asyncio.sleep(NAP_SECONDS)
    return Completed()


async def write_effect(item: DueItem, connection: Connection) -> Verdict:
    """Write a row of the domain's own."""
    await connection.execute("insert into effect (item) values ($1)", item.id)
    return Completed()


for _kind in os.environ.get(KINDS_VARIABLE, "").split():
    handlers.on_batch(_kind, batch_max=500, concurrency=16)(complete)
    napping.on(_kind, concurrency=NAPS_AT_ONCE)(sleep_5ms)
    transactional.on_transaction(_kind, concurrency=TRANSACTIONS_AT_ONCE)(write_effect)
    chunked.on_transaction(_kind, concurrency=CHUNKS_AT_ONCE, chunk_max=CHUNK_MAX)(write_effect)
