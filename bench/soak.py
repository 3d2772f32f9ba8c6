"""Half the peak rate for twenty minutes: memory, dead rows and lag must not grow.

The peak is measured while items are emitted, because emitting and working share the machine.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import mean
from time import monotonic
from typing import Any, Final, final

from bench.draining import PREFIX, ProcessSet, working
from bench.ledgers import Ledger, after
from bench.measurements import Lag, TableGrowth, measure_lags, read_table_growth
from bench.report import Goal, Measured
from bench.rig import APPLICATION, BENCH, Rig
from bench.usage import Usage
from bench.workload import DUE_AT, tenant_flows
from dueledger.ledger.store import connect

SHARE_OF_PEAK: Final = 0.5
EMIT_SECONDS: Final = 0.25
AHEAD_SECONDS: Final = 1.0
SAMPLES: Final = 120
WINDOWS: Final = 20
MEMORY_GOAL: Final = 1.1
MEMORY_SLACK_BYTES: Final = 16 << 20
DEAD_GOAL: Final = 1.5
DEAD_SLACK_ROWS: Final = 100_000
LAG_GOAL: Final = 1.2
LAG_SLACK_MILLISECONDS: Final = 2.0
EVERY_NTH_RUN: Final = 10


@final
@dataclass(frozen=True, slots=True)
class SoakOptions:
    """For how long, and at which rate: 0 means half the peak, which is then measured first."""

    minutes: float = 20.0
    rate: int = 0
    peak_items: int = 300_000
    items_max: int = 30_000_000


@final
@dataclass(slots=True)
class _Samples:
    """The samples, at equal intervals."""

    memory: list[dict[str, int]] = field(default_factory=list[dict[str, int]])
    tables: list[list[TableGrowth]] = field(default_factory=list[list[TableGrowth]])

    def dead_rows(self) -> list[int]:
        return [sum(table.dead_rows for table in tables) for tables in self.tables]


async def bench_soak(rig: Rig, options: SoakOptions) -> Measured:
    """Measure the peak, then hold half of it."""
    seconds = options.minutes * 60
    peak = 0 if options.rate else await _peak(rig, options.peak_items)
    rate = options.rate or max(round(peak * SHARE_OF_PEAK), 1)
    rate = max(min(rate, round(options.items_max / seconds)), 1)
    async with rig.ledger() as ledger, working(rig, ledger, ProcessSet()):
        await ledger.rest()
        rig.say(f"{rate:,} items/s for {options.minutes:g} minutes")
        began = await ledger.now()
        samples = _Samples()
        meter = rig.meter()
        sampling = asyncio.create_task(_sample(rig, ledger, samples, seconds))
        try:
            behind = await _emit(rig, ledger, rate, seconds)
            await sampling
        finally:
            sampling.cancel()
        usage = meter.read()
        await ledger.until_ended(watch=rig.require_alive)
        await ledger.require_balance()
        lags = await measure_lags(
            ledger.watcher,
            started_from=began,
            started_until=after(began, AHEAD_SECONDS + seconds),
            key_prefix=PREFIX,
            every_nth_run=EVERY_NTH_RUN if seconds > WINDOWS * 10 else 1,
            bucket_seconds=seconds / WINDOWS,
        )
    return _measured(samples, lags, usage, peak=peak, rate=rate, behind=behind)


async def _peak(rig: Rig, items: int) -> int:
    """Measure how fast items are completed while others are emitted."""
    rig.say("the peak")
    async with rig.ledger() as ledger, working(rig, ledger, ProcessSet()):
        await ledger.load(items, flows=tenant_flows(ledger.kind), prefix=PREFIX, due_at=DUE_AT)
        steps = await ledger.steps(items, prefix=PREFIX, watch=rig.require_alive)
    return round(items / steps.seconds)


async def _emit(rig: Rig, ledger: Ledger, rate: int, seconds: float) -> float:
    """Emit evenly, a little ahead; return by how much the emitter was ever behind."""
    began, behind = monotonic(), 0.0
    batch = max(round(rate * EMIT_SECONDS), 1)
    for number in range(round(seconds / EMIT_SECONDS)):
        left = began + number * EMIT_SECONDS - monotonic()
        behind = max(behind, -left)
        await asyncio.sleep(max(left, 0.0))
        await ledger.load(
            batch,
            flows=tenant_flows(ledger.kind),
            prefix=f"{PREFIX}{number}-",
            due_at=after(await ledger.now(), AHEAD_SECONDS),
            spacing_seconds=EMIT_SECONDS / batch,
            quiet=True,
        )
        rig.require_alive()
    return behind


async def _sample(rig: Rig, ledger: Ledger, samples: _Samples, seconds: float) -> None:
    """Read memory and tables at equal intervals, on a separate connection."""
    connection = await connect(ledger.dsn, application_name=APPLICATION)
    try:
        for _ in range(SAMPLES):
            await asyncio.sleep(seconds / SAMPLES)
            samples.memory.append(await asyncio.to_thread(rig.memory_bytes))
            samples.tables.append(await read_table_growth(connection))
    finally:
        await connection.close()


def _measured(
    samples: _Samples,
    lags: Sequence[Lag],
    usage: Usage,
    *,
    peak: int,
    rate: int,
    behind: float,
) -> Measured:
    names = [name for name in samples.memory[-1] if name != BENCH]
    memory = {
        name: growth([one.get(name, 0) for one in samples.memory], MEMORY_SLACK_BYTES)
        for name in names
    }
    p50 = growth([lag.p50_milliseconds for lag in lags], LAG_SLACK_MILLISECONDS)
    p99 = growth([lag.p99_milliseconds for lag in lags], LAG_SLACK_MILLISECONDS)
    dead = growth(samples.dead_rows(), DEAD_SLACK_ROWS)
    goals = [
        *(
            Goal(
                f"memory of {name} flat within {MEMORY_GOAL - 1:.0%}",
                grown,
                MEMORY_GOAL,
                "×",
                ceiling=True,
            )
            for name, grown in memory.items()
        ),
        Goal(f"dead rows at most {DEAD_GOAL} × those before", dead, DEAD_GOAL, "×", ceiling=True),
        Goal(f"p50 lag at most {LAG_GOAL} × that before", p50, LAG_GOAL, "×", ceiling=True),
        Goal(f"p99 lag at most {LAG_GOAL} × that before", p99, LAG_GOAL, "×", ceiling=True),
    ]
    figures: dict[str, Any] = {
        "items_per_second": rate,
        "peak_with_emission_per_second": peak or None,
        "emitter_behind_seconds_max": round(behind, 3),
        "lags": [
            {"p50": lag.p50_milliseconds, "p99": lag.p99_milliseconds, "items": lag.items}
            for lag in lags
        ],
        "memory_bytes": _every_tenth(samples.memory),
        "dead_rows": _every_tenth(samples.dead_rows()),
        "tables": {
            table.name: {"dead_rows": table.dead_rows, "bytes": table.bytes}
            for table in samples.tables[-1]
        },
    }
    return Measured(goals, figures, usage)


def growth(values: Sequence[float], slack: float) -> float | None:
    """Return the last quarter over the second one, where `slack` more counts as nothing."""
    quarter = len(values) // 4
    if not quarter:
        return None
    before, now = mean(values[quarter : 2 * quarter]), mean(values[-quarter:])
    grown = now / before if before else float(now > 0)
    return round(min(grown, 1.0) if now <= before + slack else grown, 3)


def _every_tenth(values: Sequence[Any]) -> list[Any]:
    return list(values[:: max(len(values) // 10, 1)])
