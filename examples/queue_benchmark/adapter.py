"""An adapter for a benchmark of job queues that was written elsewhere: producer, worker, samples.

It follows that harness's protocol (hardbyte/postgresql-job-queue-benchmarking): settings arrive in
the environment, JSON lines leave on stdout, SIGTERM ends it. It uses public names alone: commands,
`dueledger.worker`, `ledger.emit` and `ledger.depth`.
"""

import asyncio
import json
import os
import signal
import sys
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from statistics import quantiles
from time import monotonic
from typing import Final, final

import asyncpg

from dueledger import Completed, DueItem, Handlers, Verdict, __version__, worker

BATCH_SECONDS: Final = 0.025
EVENT_TABLES: Final = ("ledger.pending", "ledger.flow")
EMIT: Final = """
select count(*) from generate_series($1::bigint, $2::bigint) n
cross join lateral ledger.emit('bench', 'BenchJob', n::text, date '2027-03-01', now(), $3::json)
"""


@final
class Adapter:
    """What the harness asks for, and what was measured so far."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Read the harness's variables. Raises KeyError without DATABASE_URL."""
        self.dsn = environment["DATABASE_URL"]
        self.handlers = Handlers()
        self._rate = int(environment.get("PRODUCER_RATE", "800"))
        self._work_seconds = int(environment.get("JOB_WORK_MS", "1")) / 1000
        self._sample_seconds = float(environment.get("SAMPLE_EVERY_S", "5"))
        padding = "x" * int(environment.get("JOB_PAYLOAD_BYTES", "256"))
        self._payload = json.dumps({"padding": padding})
        self._emitted = self._completed = 0
        self._claim_ms: deque[float] = deque(maxlen=32_768)
        workers = int(environment.get("WORKER_COUNT", "32"))
        self.handlers.on("BenchJob", concurrency=workers)(self._work)

    async def _work(self, item: DueItem) -> Verdict:
        """Do as much as a job of the benchmark does."""
        now = datetime.now(UTC)  # noqa: TID251 - a measurement
        self._claim_ms.append((now - item.due_at).total_seconds() * 1000)
        await asyncio.sleep(self._work_seconds)
        self._completed += 1
        return Completed({"job": item.business_key})

    async def produce(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        """Emit items due at once, at the rate."""
        began = monotonic()
        while True:
            upto = int((monotonic() - began) * self._rate)
            if upto > self._emitted:
                await connection.execute(EMIT, self._emitted + 1, upto, self._payload)
                self._emitted = upto
            await asyncio.sleep(BATCH_SECONDS)

    async def sample(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        """Write the metrics of each interval."""
        while True:
            emitted, completed = self._emitted, self._completed
            await asyncio.sleep(self._sample_seconds)
            (depth,) = await connection.fetch(
                "select sum(due) as due, sum(running) as running, sum(retrying) as retrying,"
                " sum(waiting) as waiting from ledger.depth"
            )
            claim_ms = quantiles(self._claim_ms, n=100) if len(self._claim_ms) > 1 else [0.0] * 99
            metrics = {
                "claim_p50_ms": claim_ms[49],
                "claim_p95_ms": claim_ms[94],
                "claim_p99_ms": claim_ms[98],
                "enqueue_rate": (self._emitted - emitted) / self._sample_seconds,
                "completion_rate": (self._completed - completed) / self._sample_seconds,
                "queue_depth": int(depth["due"] or 0),
                "running_depth": int(depth["running"] or 0),
                "retryable_depth": int(depth["retrying"] or 0),
                "scheduled_depth": int(depth["waiting"] or 0),
            }
            for name, value in metrics.items():
                write(kind="adapter", subject_kind="adapter", subject="", metric=name, value=value)


def write(**record: object) -> None:
    """Write one line of the protocol."""
    sys.stdout.write(json.dumps({"system": "dueledger", **record}) + "\n")
    sys.stdout.flush()


async def install(dsn: str) -> None:
    """Make the ledger in the harness's database."""
    migrating = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dueledger", "migrate", "--json"),
        env={**os.environ, "DUELEDGER_DSN": dsn},
        stdout=asyncio.subprocess.DEVNULL,
    )
    if await migrating.wait():
        sys.exit(1)


async def main() -> None:
    """Install the ledger, produce and work until SIGTERM."""
    adapter = Adapter(os.environ)
    await install(adapter.dsn)
    write(kind="descriptor", event_tables=EVENT_TABLES, extensions=[], version=__version__)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    producing, sampling = await asyncpg.connect(adapter.dsn), await asyncpg.connect(adapter.dsn)
    async with worker(adapter.handlers, dsn=adapter.dsn, direct=True, worker_drain_seconds=2.0):
        tasks = [
            asyncio.create_task(adapter.produce(producing)),
            asyncio.create_task(adapter.sample(sampling)),
        ]
        await stopped.wait()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    await producing.close()
    await sampling.close()


if __name__ == "__main__":
    asyncio.run(main())
