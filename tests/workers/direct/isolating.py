"""Handlers whose items end, block or leave their process; they leave rows as evidence."""

import asyncio
import ctypes
import os
import re
import signal
import sys
import threading
from collections.abc import Sequence

import asyncpg

from dueledger import Completed, DueItem, Handlers, Verdict
from dueledger.ledger.store import Connection

KIND = os.environ["TEST_KIND"]
POISON = "poison"
GATE = 7  # an advisory lock: who works waits for it
TIMEOUT_SECONDS = float(os.environ.get("TEST_TIMEOUT", "60"))


def end_process() -> None:
    """End the process in the way that the test chose."""
    match os.environ.get("TEST_END", ""):
        case "exit":
            os._exit(0)
        case "segfault":
            ctypes.string_at(0)
        case "hold":
            re.match("(a+)+$", "a" * 64 + "b")  # for years, and no other thread runs meanwhile
        case "block":
            threading.Event().wait()  # for ever, in the event loop
        case _:
            os.kill(os.getpid(), signal.SIGKILL)


async def see(items: Sequence[DueItem], *, wait: bool = False) -> None:
    """Leave a row for each time an item is worked; `wait` until the gate is open."""
    connection = await asyncpg.connect(os.environ["DUELEDGER_DSN"])
    await connection.execute(
        "insert into public.seen (item, pid, at) select i, $2, clock_timestamp()"
        " from unnest($1::uuid[]) i",
        [item.id for item in items],
        os.getpid(),
    )
    if wait:
        await connection.execute(f"select pg_advisory_lock_shared({GATE})")
    await connection.close()


async def work_single(item: DueItem) -> Verdict:
    """Work one item."""
    await see([item])
    if item.business_key.startswith(POISON):
        end_process()
    return Completed({"key": item.business_key})


single = Handlers()
single.on(
    KIND, timeout_seconds=TIMEOUT_SECONDS, backoff_base_seconds=0.001, backoff_cap_seconds=0.001
)(work_single)

thread = Handlers()


@thread.on(KIND, timeout_seconds=TIMEOUT_SECONDS)
def work_in_thread(item: DueItem) -> Verdict:
    """Work one item in a thread."""
    if item.business_key.startswith(POISON):
        end_process()
    return Completed()


batch = Handlers()


@batch.on_batch(KIND, batch_max=10, concurrency=2)
async def work_batch(items: list[DueItem]) -> Sequence[Verdict]:
    """Work a batch."""
    await see(items)
    if any(item.business_key.startswith(POISON) for item in items):
        end_process()
    return [Completed() for _ in items]


transaction = Handlers()
chunk = Handlers()
"""Several items share a transaction."""


@transaction.on_transaction(KIND, concurrency=8)
@chunk.on_transaction(KIND, concurrency=8, chunk_max=10)
async def work_transaction(item: DueItem, connection: Connection) -> Verdict:
    """Have an effect in the transaction that completes the item."""
    await connection.execute("insert into public.effect (item) values ($1)", item.id)
    if item.business_key.startswith(POISON):
        end_process()
    return Completed()


waiting = Handlers()


@waiting.on(KIND, timeout_seconds=60)
async def wait_if_suspect(item: DueItem) -> Verdict:
    """Let suspects wait for the gate."""
    await see([item], wait=item.business_key.startswith("suspect"))
    return Completed()


unloadable = Handlers()


@unloadable.on(KIND)
async def never_called(item: DueItem) -> Verdict:
    """Complete."""
    await asyncio.sleep(0)
    return Completed({"key": item.business_key})


if os.environ.get("TEST_END") == "unloadable" and "isolated_worker" in sys.argv[0]:
    raise RuntimeError("this module cannot be loaded there")
