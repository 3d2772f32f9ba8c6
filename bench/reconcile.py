"""Passes over a large ledger that is right: half its items are of schedules, half of events.

Three passes of one process are measured: the first reads everything, nothing has changed before the
second, and a thousand items before the third. Then evidence and Kafka's records are timed apart,
and the pipeline is measured alone and beside a process whose first pass reads everything.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from resource import RUSAGE_SELF, getrusage
from typing import Any, Final, final

from pydantic import SecretStr

from bench.draining import ProcessSet, drain
from bench.ended_ledger import load_ended
from bench.ledgers import POLL_SECONDS, Ledger, MeasurementFailed
from bench.measurements import count_passes, touch_items
from bench.report import Goal, Measured
from bench.rig import Rig
from bench.snapshots import watching_snapshots
from bench.usage import Usage
from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.runtime.memory import tune_memory
from dueledger.ledger.store.clock import set_clock
from dueledger.reconciler import (
    PassResult,
    Reconciler,
    ReconcilerSettings,
    ReconcilerSources,
    SqlEvidence,
)
from dueledger.reconciler.kafka_check import NAME as KAFKA
from dueledger.reconciler.process import open_reconciler

CHANGES: Final = 1_000
CPU_GOAL_MICROSECONDS: Final = 6.0
WHOLE_CPU_GOAL_MICROSECONDS: Final = 12.0
"""Of the pass and Postgres: what two cores have for an item if all are read within a minute."""
SECONDS_GOAL: Final = 60.0
CHANGED_SECONDS_GOAL: Final = 5.0
BESIDE_GOAL: Final = 0.8
DRAINED_OF: Final = 10
DRAINED_MAX: Final = 600_000
"""Of ten items in the ledger one is completed through Kafka, so a pass lasts for longer."""
SNAPSHOT_SECONDS_GOAL: Final = 5.0
APPLICATION: Final = "dueledger-reconciler"
MEMORY_GOAL: Final = 1.5e9
A_DAY: Final = timedelta(days=1)
EVIDENCE: Final = "select business_key, id as reference from ledger.due_item where event_no > 0"
"""The items of events are their own evidence: one row for each, found by an index."""
GOAL_ITEMS: Final = 10_000_000
"""The goals of time are those of so many items."""


@final
@dataclass(frozen=True, slots=True)
class ReconcileOptions:
    """How many items are expected, exist and have ended."""

    items: int = 1_000_000


async def bench_reconcile(rig: Rig, options: ReconcileOptions) -> Measured:
    """Load a ledger, and measure its passes in this process."""
    async with rig.ledger() as ledger:
        until = await load_ended(ledger, rig, options.items)
        await set_clock(ledger.connection, until, 0, database=True)
        await ledger.rest()
        settings = ReconcilerSettings(dsn=SecretStr(ledger.dsn))
        tune_memory()  # as the process does
        with watching_snapshots(ledger.dsn, APPLICATION) as longest:
            async with open_reconciler(settings, ReconcilerSources()) as reconciler:
                rig.say("a pass that reads everything")
                whole, usage = await _pass(rig, reconciler)
                _require_right(whole, options.items)
                peak = getrusage(RUSAGE_SELF).ru_maxrss * 1024  # Linux counts kibibytes
                rig.say("a pass after nothing has changed")
                same, _ = await _pass(rig, reconciler)
                await touch_items(ledger.connection, (await ledger.now()).date() - A_DAY, CHANGES)
                rig.say(f"a pass after {CHANGES:,} changes")
                changed, _ = await _pass(rig, reconciler)
        rig.say("a pass with evidence of half the items")
        proven, proven_usage = await _pass_with_evidence(ledger, rig, settings)
        _require_right(proven, options.items)
        drained = min(DRAINED_MAX, options.items // DRAINED_OF)
        records = await _check_records(rig, drained)
        beside = await _drain_beside(rig, ledger, drained)
    share = options.items / GOAL_ITEMS
    own = usage.microseconds_an_item(options.items)
    goals = [
        Goal(
            f"CPU of the pass an item, at most {CPU_GOAL_MICROSECONDS:.0f} microseconds",
            own["bench"],
            CPU_GOAL_MICROSECONDS,
            "us",
            ceiling=True,
        ),
        Goal(
            "CPU of pass and Postgres an item, at most "
            f"{WHOLE_CPU_GOAL_MICROSECONDS:.0f} microseconds",
            round(own["bench"] + own.get("postgres", 0.0), 1),
            WHOLE_CPU_GOAL_MICROSECONDS,
            "us",
            ceiling=True,
        ),
        Goal(
            f"all read within {SECONDS_GOAL:.0f} s for {GOAL_ITEMS:,} items",
            round(whole.duration_seconds, 1),
            SECONDS_GOAL * share,
            "s",
            ceiling=True,
        ),
        Goal(
            f"a pass after {CHANGES:,} changes within {CHANGED_SECONDS_GOAL:.0f} s",
            round(changed.duration_seconds, 1),
            CHANGED_SECONDS_GOAL,
            "s",
            ceiling=True,
        ),
        Goal("peak memory below 1.5 GB", peak, MEMORY_GOAL, "bytes", ceiling=True),
        Goal(
            f"no snapshot held for more than {SNAPSHOT_SECONDS_GOAL:.0f} s",
            round(longest.seconds, 2),
            SNAPSHOT_SECONDS_GOAL,
            "s",
            ceiling=True,
        ),
        Goal(
            f"the pipeline beside a pass at {BESIDE_GOAL} of its rate",
            round(beside.items_per_second / records.items_per_second, 2),
            BESIDE_GOAL,
            "×",
        ),
    ]
    figures: dict[str, Any] = {
        "seconds": {
            "everything_read": round(whole.duration_seconds, 2),
            "nothing_changed": round(same.duration_seconds, 2),
            f"after_{CHANGES}_changes": round(changed.duration_seconds, 2),
        },
        "seconds_of_sources": {
            read.name: round(read.duration_seconds, 2) for read in whole.sources
        },
        "evidence": {
            "items": options.items // 2,
            "seconds": round(proven.duration_seconds - whole.duration_seconds, 2),
            "cpu_microseconds_an_item": {
                name: round((used - usage.cpu_seconds[name]) / (options.items // 2) * 1e6, 1)
                for name, used in proven_usage.cpu_seconds.items()
            },
        },
        "records_of_kafka": {
            "records": records.records,
            "seconds": round(records.seconds, 2),
            "cpu_microseconds_a_record": records.cpu_microseconds,
        },
        "pipeline": {
            "items": drained,
            "items_per_second": {
                "alone": records.items_per_second,
                "beside_a_pass": beside.items_per_second,
            },
            "pass_lasted": beside.lasted,
        },
        "longest_snapshot_seconds": round(longest.seconds, 2),
        "items_read_again": {
            "nothing_changed": options.items - same.cached_items,
            f"after_{CHANGES}_changes": options.items - changed.cached_items,
        },
        "items_per_second": round(options.items / whole.duration_seconds),
        "peak_memory_bytes": peak,
    }
    return Measured(goals, figures, usage, options.items)


async def _pass(rig: Rig, reconciler: Reconciler) -> tuple[PassResult, Usage]:
    meter = rig.meter()
    result = await reconciler.run_pass(cache=reconciler.cache)
    return result, meter.read()


async def _pass_with_evidence(
    ledger: Ledger, rig: Rig, settings: ReconcilerSettings
) -> tuple[PassResult, Usage]:
    """Read everything again, and look up evidence of each item of events."""
    evidence = SqlEvidence(ledger.dsn, EVIDENCE, "bench", ledger.other_kind)
    async with open_reconciler(settings, ReconcilerSources((), (evidence,))) as reconciler:
        return await _pass(rig, reconciler)


@final
@dataclass(frozen=True, slots=True)
class _RecordsChecked:
    """A drain through Kafka alone, and what the check of its records takes of a pass."""

    items_per_second: int
    records: int
    seconds: float
    cpu_microseconds: dict[str, float]


async def _check_records(rig: Rig, items: int) -> _RecordsChecked:
    """Complete items through Kafka, and compare their claims with the records of these."""
    async with rig.ledger() as ledger:
        drained = await drain(rig, ledger, items, ProcessSet())
        settings = ReconcilerSettings(dsn=SecretStr(ledger.dsn))
        with_kafka = settings.model_copy(
            update={"bootstrap_servers": rig.endpoints.bootstrap_servers}
        )
        usages: list[Usage] = []
        for each in (settings, with_kafka):
            rig.say("a pass with Kafka's records" if each.has_kafka else "a pass without Kafka")
            async with open_reconciler(each, ReconcilerSources()) as reconciler:
                result, usage = await _pass(rig, reconciler)
            usages.append(usage)
    [source] = (each for each in result.sources if each.name == KAFKA)
    records, others = source.extract.row_count, result.found.keys() - {FindingType.LATE}
    if others or source.failure or records < items:
        raise MeasurementFailed(
            f"{records:,} of {items:,} records were read: {source.failure}; findings: {others}"
        )
    without, used = usages
    return _RecordsChecked(
        drained.items_per_second,
        records,
        source.duration_seconds,
        {
            name: round((seconds - without.cpu_seconds.get(name, 0.0)) / records * 1e6, 1)
            for name, seconds in used.cpu_seconds.items()
        },
    )


@dataclass(slots=True)
class _Beside:
    """The rate of the pipeline beside a pass, and whether the pass lasted as long."""

    items_per_second: int = 0
    lasted: bool = False


async def _drain_beside(rig: Rig, busy: Ledger, items: int) -> _Beside:
    """Drain items while a process's first pass reads all of `busy`."""
    beside = _Beside()
    async with rig.ledger() as ledger:
        in_a_pass = _in_a_pass(rig, busy, beside)
        drained = await drain(rig, ledger, items, ProcessSet(), beside=in_a_pass)
    beside.items_per_second = drained.items_per_second
    return beside


@asynccontextmanager
async def _in_a_pass(rig: Rig, busy: Ledger, beside: _Beside) -> AsyncGenerator[None]:
    """Run a process whose pass has begun; say at the end whether it still runs."""
    before = await count_passes(busy.watcher)
    async with rig.several("reconciler", 1, busy, "reconcile"):
        while (await count_passes(busy.watcher)).begun == before.begun:
            rig.require_alive()
            await asyncio.sleep(POLL_SECONDS)
        yield
        beside.lasted = (await count_passes(busy.watcher)).ended == before.ended


def _require_right(result: PassResult, items: int) -> None:
    """Raise MeasurementFailed unless every item was expected, and nothing found."""
    if result.found or result.expected_count != items:
        raise MeasurementFailed(
            f"{result.expected_count:,} of {items:,} items were expected, and "
            f"{result.found.total():,} findings made"
        )
