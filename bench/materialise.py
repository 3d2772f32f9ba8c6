"""Schedules: how fast they expand, how fast definitions become items, in how much memory."""

import asyncio
import gc
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from statistics import median
from time import monotonic, perf_counter
from typing import Any, Final, final

from croniter import croniter
from pydantic import SecretStr

from bench.ledgers import STUCK_SECONDS, Ledger, MeasurementFailed, after
from bench.measurements import count_materialised, load_definitions
from bench.report import Goal, Measured
from bench.rig import Rig
from bench.usage import Usage
from dueledger.ledger.definitions.parsing import parse_definition
from dueledger.ledger.materialise import MaterialiserSettings, open_materialiser
from dueledger.ledger.runtime.memory import tune_memory
from dueledger.ledger.schedule import Cron, expand

RATIO_GOAL: Final = 10.0
AHEAD_GOAL_SECONDS: Final = 8.0
GROWTH_GOAL: Final = 1.2
HORIZON_SECONDS: Final = 86_400.0
LOAD_DEFINITIONS: Final = 20_000
POLL_SECONDS: Final = 0.5
STEPS: Final = 200  # of croniter between two reads of the clock
ROUNDS: Final = 3
SINCE: Final = datetime(2027, 1, 1, tzinfo=UTC)
ZONE: Final = "America/New_York"

EXPRESSIONS: Final = (
    "* * * * *",
    "*/5 * * * *",
    "15 */2 * * *",
    "0 9 * * *",
    "0 9,17 * * 1-5",
    "30 6 1,15 * *",
)
HOURS: Final = 24

Counted = Callable[[], int]


@final
@dataclass(frozen=True, slots=True)
class MaterialiseOptions:
    """How many definitions are timed, how many watched; how long each expression expands what."""

    definitions: int = 10_000
    many: int = 1_000_000
    seconds: float = 1.0
    days: int = 365


async def bench_materialise(rig: Rig, options: MaterialiseOptions) -> Measured:
    """Measure expansion, then definitions a day ahead, then the memory of very many."""
    rig.say("expanding expressions")
    rates = {
        text: _rates(text, timedelta(options.days), options.seconds / ROUNDS)
        for text in EXPRESSIONS
    }
    ratios = {text: round(fast / slow, 1) for text, (fast, slow) in rates.items()}
    ahead, usage, items = await _ahead(rig, options.definitions)
    watched, growth = await _memory(rig, options.many)
    goals = [
        Goal(
            f"each expression at {RATIO_GOAL:.0f} times croniter's rate",
            min(ratios.values()),
            RATIO_GOAL,
            "×",
        ),
        Goal(
            f"{options.definitions:,} definitions a day ahead within {AHEAD_GOAL_SECONDS:.0f} s",
            ahead["seconds"],
            AHEAD_GOAL_SECONDS,
            "s",
            ceiling=True,
        ),
        Goal(
            f"memory with {options.many:,} definitions, against the first tenth of them",
            growth,
            GROWTH_GOAL,
            "×",
            ceiling=True,
        ),
    ]
    figures = {
        "occurrences_per_second": {
            text: {"set_based": round(fast), "croniter": round(slow), "ratio": ratios[text]}
            for text, (fast, slow) in rates.items()
        },
        "ratio_least": min(ratios.values()),
        "ratio_median": median(ratios.values()),
        "a_day_ahead": ahead,
        "many_definitions": watched,
    }
    return Measured(goals, figures, usage, items)


def _rates(text: str, window: timedelta, seconds: float) -> tuple[float, float]:
    """Return occurrences/s of both ways, rounds in turn so that other load hits both."""
    cron = Cron(cron=text, timezone=ZONE)
    naive = SINCE.replace(tzinfo=None)
    steps = croniter(cron.fields.canonical, naive, ret_type=datetime)

    def set_based() -> int:
        return len(expand(cron, SINCE, SINCE + window).occurrences)

    def stepped() -> int:
        for _ in range(STEPS):
            steps.get_next(datetime)
        return STEPS

    set_based()  # compile what is compiled once
    rounds = [(_rate(set_based, seconds), _rate(stepped, seconds)) for _ in range(ROUNDS)]
    return median(fast for fast, _ in rounds), median(slow for _, slow in rounds)


def _rate(run: Counted, seconds: float) -> float:
    counted, began = 0, perf_counter()
    while True:
        counted += run()
        passed = perf_counter() - began
        if passed >= seconds:
            return counted / passed


def _whens(ticks: bool) -> list[dict[str, Any]]:  # noqa: FBT001 -- of this module alone
    """Return a typical mix: mostly daily jobs at all hours, some hourly and quarter-hourly."""
    whens: list[dict[str, Any]] = []
    for minute, hour in islice(((n * 7 % 60, n % HOURS) for n in count()), 60):
        kind = (minute + hour) % 5 if ticks else 0
        fields = {0: f"{minute} {hour} * * *", 1: f"{minute} * * * *", 2: "*/15 * * * *"}
        text = fields.get(kind, fields[0])
        whens.append(Cron(cron=text, timezone=ZONE).model_dump(mode="json", exclude_none=True))
    return whens


async def _load(ledger: Ledger, rig: Rig, definitions: int, *, ticks: bool) -> datetime:
    """Put definitions in force now; return that instant."""
    rig.say(f"defining {definitions:,} schedules")
    now = await ledger.now()
    document = {"definition": "d", "tenant": "bench", "kind": ledger.kind, "business_key": "d"}
    whens = _whens(ticks)
    template = parse_definition(document | {"when": whens[0]}).normalised()
    for first in range(0, definitions, LOAD_DEFINITIONS):
        await load_definitions(
            ledger.connection,
            template,
            whens,
            prefix="schedule-",
            first=first,
            count=min(LOAD_DEFINITIONS, definitions - first),
            effective_from=now,
            actor_no=ledger.actor_no,
        )
    await ledger.rest()
    return now


async def _ahead(rig: Rig, definitions: int) -> tuple[dict[str, Any], Usage, int]:
    """Materialise a day ahead in this process."""
    async with rig.ledger() as ledger:
        await _load(ledger, rig, definitions, ticks=True)
        settings = MaterialiserSettings(
            dsn=SecretStr(ledger.dsn), materialise_horizon_seconds=HORIZON_SECONDS
        )
        items = passes = 0
        async with open_materialiser(settings) as materialiser:
            thresholds = gc.get_threshold()
            tune_memory()  # as its process does
            rig.say("materialising a day ahead")
            meter = rig.meter()
            began = perf_counter()
            while (counts := await materialiser.tick())["definitions"]:
                items, passes = items + counts["emitted"], passes + 1
                if counts["failed"]:
                    raise MeasurementFailed("a definition could not be materialised")
            seconds = perf_counter() - began
            usage = meter.read()
            gc.unfreeze()
            gc.set_threshold(*thresholds)
    figures = {
        "definitions": definitions,
        "items": items,
        "passes": passes,
        "seconds": round(seconds, 2),
        "items_per_second": round(items / seconds),
    }
    return figures, usage, items


async def _memory(rig: Rig, definitions: int) -> tuple[dict[str, Any], float | None]:
    """Watch the memory of a process that materialises very many definitions."""
    name = "materialiser"
    environment = {"DUELEDGER_MATERIALISE_HORIZON_SECONDS": str(HORIZON_SECONDS)}
    async with rig.ledger(settings=environment) as ledger:
        since = await _load(ledger, rig, definitions, ticks=False)
        until = after(since, HORIZON_SECONDS)
        seen: list[tuple[int, int]] = []
        async with rig.several(name, 1, ledger, "materialise"):
            rig.say("watching its memory")
            moved, began = monotonic(), monotonic()
            while not seen or seen[-1][0] < definitions:
                await asyncio.sleep(POLL_SECONDS)
                rig.require_alive()
                done = await count_materialised(ledger.watcher, until)
                if not seen or done > seen[-1][0]:
                    moved = monotonic()
                elif monotonic() - moved > STUCK_SECONDS:
                    raise MeasurementFailed(f"{done:,} of {definitions:,} were materialised")
                seen.append((done, rig.memory_bytes()[name]))
            seconds = monotonic() - began
    tenth = [memory for done, memory in seen if done >= definitions / 10]
    figures = {
        "definitions": definitions,
        "seconds": round(seconds, 1),
        "definitions_per_second": round(definitions / seconds),
        "memory_bytes_at_a_tenth": tenth[0],
        "memory_bytes_at_the_end": tenth[-1],
        "memory_bytes_at_most": max(memory for _, memory in seen),
    }
    return figures, round(max(tenth) / tenth[0], 2)
