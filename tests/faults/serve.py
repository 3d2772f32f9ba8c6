"""A worker process of the fault tests: `serve.py [--direct] KIND=HANDLER …`.

Each call of a handler leaves a row in a database that is not the ledger's.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import TypeAlias, TypedDict
from uuid import UUID

import asyncpg

from dueledger import Completed, DueItem, Handlers, Park, Retry, Snooze, Verdict
from dueledger.ledger.runtime.log import configure
from dueledger.ledger.runtime.service import Stop
from dueledger.ledger.store import Connection
from dueledger.workers.direct import DirectSettings
from dueledger.workers.process import run_direct_worker, run_worker
from dueledger.workers.settings import WorkerSettings

EVIDENCE_VARIABLE = "DUELEDGER_EVIDENCE_DSN"
HANDLER_VARIABLE = "DUELEDGER_HANDLER_SECONDS"
FAILURES_VARIABLE = "DUELEDGER_FAILURES_PER_THOUSAND"
PARKED_VARIABLE = "DUELEDGER_PARKED_PER_THOUSAND"
DIRECT = "--direct"
POISON = "poison"
BACKOFF: "Backoff" = {"backoff_base_seconds": 0.05, "backoff_cap_seconds": 0.5}
SNOOZED: set[UUID] = set()
PARKED: set[UUID] = set()
Evidence: TypeAlias = "asyncpg.Pool[asyncpg.Record]"


class Backoff(TypedDict):
    """Settings that keep retries short."""

    backoff_base_seconds: float
    backoff_cap_seconds: float


async def note(evidence: Evidence, items: Sequence[DueItem]) -> None:
    """Record that the items were worked, whatever their outcome."""
    await evidence.execute(
        "insert into effect (item, fence, position, attempt, worker)"
        " select *, $5 from unnest($1::uuid[], $2::bigint[], $3::integer[], $4::integer[])",
        [item.id for item in items],
        [item.fence for item in items],
        [item.position for item in items],
        [item.attempt for item in items],
        os.getpid(),
    )


def verdict_of(item: DueItem) -> Verdict:
    """Complete, but for shares of the items that first fail, wait or are parked."""
    if item.business_key.startswith(POISON):
        raise ValueError("poison")
    share = int(os.environ.get(FAILURES_VARIABLE, "0"))
    chance = item.id.int % 1000
    if item.attempt == 1 and chance < share:
        return Retry(0.05, reason="as configured")
    if share <= chance < 2 * share and item.id not in SNOOZED:
        SNOOZED.add(item.id)
        return Snooze(seconds=0.05, reason="as configured")
    if chance >= 1000 - int(os.environ.get(PARKED_VARIABLE, "0")) and item.id not in PARKED:
        PARKED.add(item.id)
        return Park("as configured")
    return Completed({"pid": os.getpid()})


def batch(handlers: Handlers, kind: str, evidence: Evidence) -> None:
    """Work in batches; one that has poison in it is left by an error."""

    @handlers.on_batch(kind, batch_max=50, concurrency=4, **BACKOFF)
    async def work(items: list[DueItem]) -> Sequence[Verdict]:
        verdicts = [verdict_of(item) for item in items]
        try:
            await note(evidence, items)
        except (asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError):
            # Perhaps it was noted: a batch that raises would be called again under its fences.
            return [Retry(0.05, reason="no evidence") for _ in items]
        return verdicts


def single(handlers: Handlers, kind: str, evidence: Evidence) -> None:
    """Work one by one."""

    @handlers.on(kind, concurrency=32, **BACKOFF)
    async def work(item: DueItem) -> Verdict:
        await note(evidence, [item])
        return verdict_of(item)


def threaded(handlers: Handlers, kind: str, evidence: Evidence) -> None:
    """Work one by one in threads, which nothing can stop."""
    loop = asyncio.get_running_loop()

    @handlers.on(kind, concurrency=8, **BACKOFF)
    def work(item: DueItem) -> Verdict:
        asyncio.run_coroutine_threadsafe(note(evidence, [item]), loop).result()
        return verdict_of(item)


def unsteady(handlers: Handlers, kind: str, evidence: Evidence) -> None:
    """Work one by one; a fifth of the items fails the first time."""

    @handlers.on(kind, concurrency=32, **BACKOFF)
    async def work(item: DueItem) -> Verdict:
        await note(evidence, [item])
        if item.attempt == 1 and item.id.int % 5 == 0:
            return Retry(0.05, reason="unsteady")
        return verdict_of(item)


def transaction(handlers: Handlers, kind: str, evidence: Evidence, *, chunk_max: int = 1) -> None:
    """Have an effect in the transaction that completes the item."""

    seconds = float(os.environ.get(HANDLER_VARIABLE, "30"))

    @handlers.on_transaction(
        kind, concurrency=8, timeout_seconds=seconds, chunk_max=chunk_max, **BACKOFF
    )
    async def work(item: DueItem, connection: Connection) -> Verdict:
        await note(evidence, [item])
        await connection.execute("insert into public.effect_within (item) values ($1)", item.id)
        return verdict_of(item)


def chunk(handlers: Handlers, kind: str, evidence: Evidence) -> None:
    """Have effects in the transactions that complete the items, several in one."""
    transaction(handlers, kind, evidence, chunk_max=10)


REGISTER = {
    register.__name__: register
    for register in (batch, single, threaded, unsteady, transaction, chunk)
}


async def main(assignments: Sequence[str], *, is_direct: bool) -> None:
    """Work until a stop is requested."""
    configure(json=True)
    asked = Stop()
    asked.on_signals()
    async with asyncpg.create_pool(os.environ[EVIDENCE_VARIABLE], min_size=0, max_size=4) as pool:
        handlers = Handlers()
        for assignment in assignments:
            kind, _, name = assignment.partition("=")
            REGISTER[name](handlers, kind, pool)
        if is_direct:
            await run_direct_worker(DirectSettings(), handlers, asked)  # pyright: ignore[reportCallIssue]  # from the environment
        else:
            await run_worker(WorkerSettings(), handlers, asked)  # pyright: ignore[reportCallIssue]  # from the environment
        pool.terminate()


if __name__ == "__main__":
    given = [argument for argument in sys.argv[1:] if argument != DIRECT]
    asyncio.run(main(given, is_direct=DIRECT in sys.argv))
