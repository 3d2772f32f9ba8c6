# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
"""PgQueuer under measurement: `peer.py load N`, then `peer.py work N WARM_UP`.

Tuned as its documentation says: a large batch, uvloop, its own autovacuum settings, no limit on
concurrency (each limit costs its dequeue a count).
"""

import asyncio
import json
import os
import sys
from datetime import timedelta
from time import perf_counter

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.models import Job
from pgqueuer.queries import Queries

BATCH = 1000
ENTRYPOINT = "bench"
POLL_SECONDS = 0.002


def report(event: str, **fields: float) -> None:
    """Print one line that the benchmark reads."""
    print(json.dumps({"event": event, **fields}), flush=True)


async def connected() -> asyncpg.Connection:
    """Connect to the database of this round."""
    return await asyncpg.connect(os.environ["DUELEDGER_PEER_DSN"])


async def load(items: int) -> None:
    """Install the schema and enqueue `items` jobs."""
    queries = Queries.from_asyncpg_connection(await connected())
    await queries.install()
    await queries.optimize_autovacuum()
    payload = os.environ["DUELEDGER_PEER_PAYLOAD"].encode()
    began = perf_counter()
    for start in range(0, items, BATCH):
        size = min(BATCH, items - start)
        await queries.enqueue([ENTRYPOINT] * size, [payload] * size, [0] * size)
    report("loaded", seconds=perf_counter() - began)


async def work(items: int, warm_up: int) -> None:
    """Work through all jobs; the time runs from the last one of the warm-up."""
    connection = await connected()
    queue = PgQueuer.from_asyncpg_connection(await connected())
    done = 0
    began = 0.0
    handled = asyncio.Event()

    @queue.entrypoint(ENTRYPOINT)
    async def bench(_job: Job) -> None:
        nonlocal done, began
        done += 1
        if done == warm_up:
            began = perf_counter()
            report("measuring")
        if done == items + warm_up:
            handled.set()

    running = asyncio.create_task(
        queue.run(batch_size=BATCH, dequeue_timeout=timedelta(milliseconds=100))
    )
    await handled.wait()
    left = "select exists (select from pgqueuer)"
    while await connection.fetchval(left):  # noqa: ASYNC110 - it does not notify about commits
        await asyncio.sleep(POLL_SECONDS)
    report("finished", seconds=perf_counter() - began)
    queue.shutdown.set()
    await running


async def main() -> None:
    """Run the command of the command line."""
    command, *counts = sys.argv[1:]
    if command == "load":
        await load(int(counts[0]))
    else:
        await work(int(counts[0]), int(counts[1]))


uvloop.run(main())
