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
from datetime import UTC, datetime
from statistics import quantiles
from time import monotonic
from typing import Final

import asyncpg

from dueledger import Completed, DueItem, Handlers, Verdict, __version__, worker

DSN: Final = os.environ["DATABASE_URL"]
RATE: Final = int(os.environ.get("PRODUCER_RATE", "800"))
WORKERS: Final = int(os.environ.get("WORKER_COUNT", "32"))
WORK_SECONDS: Final = int(os.environ.get("JOB_WORK_MS", "1")) / 1000
SAMPLE_SECONDS: Final = float(os.environ.get("SAMPLE_EVERY_S", "5"))
PADDING: Final = "x" * int(os.environ.get("JOB_PAYLOAD_BYTES", "256"))
BATCH_SECONDS: Final = 0.025
EVENT_TABLES: Final = ("ledger.pending", "ledger.flow")
EMIT: Final = """
select count(*) from generate_series($1::bigint, $2::bigint) n
cross join lateral ledger.emit('bench', 'BenchJob', n::text, date '2027-03-01', now(), $3::json)
"""

handlers = Handlers()
emitted = completed = 0
claim_ms: deque[float] = deque(maxlen=32_768)


@handlers.on("BenchJob", concurrency=WORKERS)
async def work(item: DueItem) -> Verdict:
    """Do as much as a job of the benchmark does."""
    global completed  # noqa: PLW0603 - a program with counters
    claim_ms.append((datetime.now(UTC) - item.due_at).total_seconds() * 1000)  # noqa: TID251 - a measurement
    await asyncio.sleep(WORK_SECONDS)
    completed += 1
    return Completed({"job": item.business_key})


def write(**record: object) -> None:
    """Write one line of the protocol."""
    sys.stdout.write(json.dumps({"system": "dueledger", **record}) + "\n")
    sys.stdout.flush()


async def produce(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Emit items due at once, at the rate."""
    global emitted  # noqa: PLW0603 - a program with counters
    began = monotonic()
    while True:
        upto = int((monotonic() - began) * RATE)
        if upto > emitted:
            await connection.execute(EMIT, emitted + 1, upto, json.dumps({"padding": PADDING}))
            emitted = upto
        await asyncio.sleep(BATCH_SECONDS)


async def sample(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Write the metrics of each interval."""
    while True:
        before = emitted, completed
        await asyncio.sleep(SAMPLE_SECONDS)
        (depth,) = await connection.fetch(
            "select sum(due) as due, sum(running) as running, sum(retrying) as retrying,"
            " sum(waiting) as waiting from ledger.depth"
        )
        cuts = quantiles(claim_ms, n=100) if len(claim_ms) > 1 else [0.0] * 99
        metrics = {
            "claim_p50_ms": cuts[49],
            "claim_p95_ms": cuts[94],
            "claim_p99_ms": cuts[98],
            "enqueue_rate": (emitted - before[0]) / SAMPLE_SECONDS,
            "completion_rate": (completed - before[1]) / SAMPLE_SECONDS,
            "queue_depth": int(depth["due"] or 0),
            "running_depth": int(depth["running"] or 0),
            "retryable_depth": int(depth["retrying"] or 0),
            "scheduled_depth": int(depth["waiting"] or 0),
        }
        for name, value in metrics.items():
            write(kind="adapter", subject_kind="adapter", subject="", metric=name, value=value)


async def main() -> None:
    """Install the ledger, produce and work until SIGTERM."""
    install = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dueledger", "migrate", "--json"),
        env={**os.environ, "DUELEDGER_DSN": DSN},
        stdout=asyncio.subprocess.DEVNULL,
    )
    if await install.wait():
        sys.exit(1)
    write(kind="descriptor", event_tables=EVENT_TABLES, extensions=[], version=__version__)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    producing, sampling = await asyncpg.connect(DSN), await asyncpg.connect(DSN)
    async with worker(handlers, dsn=DSN, direct=True, worker_drain_seconds=2.0):
        tasks = [asyncio.create_task(produce(producing)), asyncio.create_task(sample(sampling))]
        await stopped.wait()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    await producing.close()
    await sampling.close()


if __name__ == "__main__":
    asyncio.run(main())
