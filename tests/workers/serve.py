"""A worker process of the tests: `serve.py KIND HANDLER`. Its handlers leave rows as evidence.

HANDLER is a name from here, or `module:name` of handlers that another process can load again.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Sequence

from dueledger import Completed, DueItem, Handlers, Verdict
from dueledger.ledger.runtime.log import configure
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.store import Connection, connect
from dueledger.workers.handler_loading import load_handlers
from dueledger.workers.process import run_worker
from dueledger.workers.settings import WorkerSettings

POISON = "poison"


ONE_AT_A_TIME = asyncio.Lock()


async def see(connection: Connection, items: list[DueItem]) -> None:
    """Leave a row for each time an item is worked."""
    async with ONE_AT_A_TIME:
        await connection.execute(
            "insert into public.seen (item, pid) select i, $2 from unnest($1::uuid[]) i",
            [item.id for item in items],
            os.getpid(),
        )


def batch(handlers: Handlers, kind: str, evidence: Connection) -> None:
    """Complete in batches."""

    @handlers.on_batch(kind, batch_max=50, concurrency=2)
    async def work(items: list[DueItem]) -> Sequence[Verdict]:
        await see(evidence, items)
        return [Completed({"pid": os.getpid()}) for _ in items]


def transaction(handlers: Handlers, kind: str, evidence: Connection) -> None:
    """Have an effect in the transaction that completes the item."""
    del evidence

    @handlers.on_transaction(kind)
    async def work(item: DueItem, connection: Connection) -> Verdict:
        await connection.execute("insert into public.effect (item) values ($1)", item.id)
        return Completed()


def stop(handlers: Handlers, kind: str, evidence: Connection) -> None:
    """Stop its own process between the work and the verdict."""

    @handlers.on_batch(kind, concurrency=1)
    async def work(items: list[DueItem]) -> Sequence[Verdict]:
        await see(evidence, items)
        os.kill(os.getpid(), signal.SIGSTOP)
        return [Completed({"by": "zombie"}) for _ in items]


def stop_transaction(handlers: Handlers, kind: str, evidence: Connection) -> None:
    """Stop the own process between the effect and its commit."""

    @handlers.on_transaction(kind)
    async def work(item: DueItem, connection: Connection) -> Verdict:
        await connection.execute("insert into public.effect (item) values ($1)", item.id)
        await see(evidence, [item])
        os.kill(os.getpid(), signal.SIGSTOP)
        return Completed({"by": "zombie"})


def die(handlers: Handlers, kind: str, evidence: Connection) -> None:
    """Let one item end the process that works it, as if all were well."""
    del evidence

    @handlers.on_batch(kind, batch_max=50)
    async def work(items: list[DueItem]) -> Sequence[Verdict]:
        if any(item.business_key.startswith(POISON) for item in items):
            os._exit(0)
        return [Completed() for _ in items]


def block(handlers: Handlers, kind: str, evidence: Connection) -> None:
    """Block the event loop, once, until SIGUSR1."""
    released = threading.Event()

    def release(number: int, frame: object) -> None:
        del number, frame
        released.set()

    signal.signal(signal.SIGUSR1, release)

    @handlers.on(kind)
    async def hold_the_loop(item: DueItem) -> Verdict:
        await see(evidence, [item])
        released.wait()
        return Completed({"by": "blocked"})


REGISTER = {
    register.__name__: register
    for register in (batch, transaction, stop, stop_transaction, die, block)
}


async def main(kind: str, name: str) -> None:
    """Work until a stop is requested."""
    configure(json=True)
    settings = WorkerSettings()  # pyright: ignore[reportCallIssue]  # from the environment
    asked = Stop()
    asked.on_signals()
    evidence = await connect(settings.dsn.get_secret_value(), application_name="evidence")
    if name in REGISTER:
        handlers = Handlers()
        REGISTER[name](handlers, kind, evidence)
    else:
        handlers = load_handlers([name])
    await run_worker(settings, handlers, asked)
    await evidence.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
