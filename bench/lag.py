"""How long after its time an item is started, at a rate spread evenly: through Kafka and direct."""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, final

from bench.draining import PREFIX, ProcessSet, working
from bench.ledgers import Ledger, MeasurementFailed, after
from bench.measurements import Lag, count_claims, measure_lags
from bench.report import Goal, Measured, at_most, usage_fields
from bench.rig import BENCH, Rig
from bench.usage import Usage, bound_by
from bench.workload import tenant_flows

LOAD_PER_SECOND: Final = 15_000
REST_SECONDS: Final = 15.0
WARM_FOR_NOW_SECONDS: Final = 5.0
WARM_FOR_NOW_RATE: Final = 100
"""At two items a second a broker that has just started would compile nothing."""
WARM_PREFIX: Final = "NOW-"
KAFKA: Final = "kafka"
DIRECT: Final = "direct"
PROCESSES_OF_WAY: Final = {KAFKA: ProcessSet(), DIRECT: ProcessSet(direct=True)}

_FOR_NOW: Final[Mapping[tuple[str, int], tuple[float | None, float | None]]] = {
    (DIRECT, 2): (5.0, 12.0),
    (DIRECT, 100): (4.0, 10.0),
    (KAFKA, 2): (10.0, 25.0),
    (KAFKA, 100): (9.0, 22.0),
}
"""The goals for p50 and p99, in milliseconds, of items that are emitted when they are due."""

_AHEAD: Final[Mapping[tuple[str, int], tuple[float | None, float | None]]] = {
    (KAFKA, 1_000): (7.0, 18.0),
    (KAFKA, 5_000): (None, 60.0),
    (DIRECT, 1_000): (None, 10.0),
}
"""The goals for p50 and p99, in milliseconds, of items that are emitted ahead."""

_NONE: Final = (None, None)
_ROUNDS_OF: Final = {(KAFKA, 100, True), (KAFKA, 1_000, False)}
"""Ways and rates at which a round has a goal, and whether items are emitted for now.

The second has no emission in it, and claims of about two items: rounds share wake-ups there.
"""
ROUND_GOAL_MILLISECONDS: Final = 5.0

_EVEN: Final = 1_000
_FAST: Final = 5_000


@final
@dataclass(frozen=True, slots=True)
class LagOptions:
    """For how long each way and rate is measured; `ways` are kafka and direct.

    At `rates_for_now` each item is emitted when it is due. For `warm_seconds` before each
    measurement the same load runs, or a larger one: a broker that has just started compiles itself.
    """

    seconds: float = 30.0
    warm_seconds: float = 30.0
    rates: tuple[int, ...] = (_EVEN, _FAST)
    ways: tuple[str, ...] = (KAFKA, DIRECT)
    rates_for_now: tuple[int, ...] = (2, 100, 1_000)


@final
@dataclass(frozen=True, slots=True)
class _One:
    way: str
    rate: int
    is_for_now: bool
    lag: Lag
    usage: Usage
    claims: int

    @property
    def round_milliseconds(self) -> float | None:
        """CPU of all programs a claim, until its settlement, in milliseconds.

        It contains the emission of items that are emitted for now.
        """
        used = sum(cpu for name, cpu in self.usage.cpu_seconds.items() if name != BENCH)
        return round(used / self.claims * 1e3, 2) if self.claims else None


async def bench_lag(rig: Rig, options: LagOptions) -> Measured:
    """Measure each way at each rate in a ledger of its own."""
    ones = [await _one(rig, way, rate, options) for way in options.ways for rate in options.rates]
    ones += [
        await _one_for_now(rig, way, rate, options)
        for way in options.ways
        for rate in options.rates_for_now
    ]
    goals = [goal for one in ones for goal in _goals(one)]
    return Measured(
        goals, {"lags": [_fields(one) for one in ones]}, ones[0].usage, ones[0].lag.items
    )


def lead_seconds(items: int) -> float:
    """Return the seconds before the first item's due time at which the load must start."""
    return REST_SECONDS + items / LOAD_PER_SECOND


async def whole_lag(ledger: Ledger, *, prefix: str, since: datetime, until: datetime) -> Lag:
    """Measure the lag of all items of a prefix that were started in a window of time.

    Raises MeasurementFailed if one was started early, or none was started.
    """
    lags = await measure_lags(
        ledger.watcher, started_from=since, started_until=until, key_prefix=prefix
    )
    if len(lags) != 1 or lags[0].early:
        raise MeasurementFailed(f"items of {prefix} were started early, or never: {lags}")
    return lags[0]


def lag_fields(lag: Lag) -> dict[str, Any]:
    """Return a lag as it is printed."""
    fields = asdict(lag)
    del fields["bucket"], fields["early"]
    return fields


async def _one(rig: Rig, way: str, rate: int, options: LagOptions) -> _One:
    rig.say(f"{rate:,} items/s, {way}")
    items = round(rate * (options.warm_seconds + options.seconds))
    async with rig.ledger() as ledger, working(rig, ledger, PROCESSES_OF_WAY[way]):
        begins = after(await ledger.now(), lead_seconds(items))
        await ledger.load(
            items,
            flows=tenant_flows(ledger.kind),
            prefix=PREFIX,
            due_at=begins,
            spacing_seconds=1 / rate,
        )
        await ledger.rest()
        since = after(begins, options.warm_seconds)
        await ledger.wait_until(since)
        meter = rig.meter()
        await asyncio.sleep(options.seconds)
        usage = meter.read()
        claims = await count_claims(ledger.watcher, since, await ledger.now())
        await ledger.until_ended(watch=rig.require_alive)
        await ledger.require_balance()
        lag = await whole_lag(ledger, prefix=PREFIX, since=since, until=await ledger.now())
    return _One(way, rate, is_for_now=False, lag=lag, usage=usage, claims=claims)


async def _one_for_now(rig: Rig, way: str, rate: int, options: LagOptions) -> _One:
    async with rig.ledger() as ledger, working(rig, ledger, PROCESSES_OF_WAY[way]):
        flows = tenant_flows(ledger.kind)
        warm_seconds = min(options.warm_seconds, WARM_FOR_NOW_SECONDS)
        warm_rate = max(rate, WARM_FOR_NOW_RATE)
        await ledger.emit_for_now(warm_rate, warm_seconds, flows=flows, prefix=WARM_PREFIX)
        since, meter = await ledger.now(), rig.meter()
        await ledger.emit_for_now(rate, options.seconds, flows=flows, prefix=PREFIX)
        usage = meter.read()
        claims = await count_claims(ledger.watcher, since, await ledger.now())
        await ledger.until_ended(watch=rig.require_alive)
        await ledger.require_balance()
        lag = await whole_lag(ledger, prefix=PREFIX, since=since, until=await ledger.now())
    return _One(way, rate, is_for_now=True, lag=lag, usage=usage, claims=claims)


def _goals(one: _One) -> list[Goal]:
    """Return the goals for this way and rate, if there are any."""
    key = one.way, one.rate
    p50_max, p99_max = _FOR_NOW.get(key, _NONE) if one.is_for_now else _AHEAD.get(key, _NONE)
    where = f"at {one.rate:,}/s, {one.way}{', emitted for now' if one.is_for_now else ''}"
    goals = [
        at_most(f"{name} ≤ {bound:g} ms {where}", figure, bound, "ms")
        for name, figure, bound in (
            ("p50", one.lag.p50_milliseconds, p50_max),
            ("p99", one.lag.p99_milliseconds, p99_max),
        )
        if bound is not None
    ]
    if (*key, one.is_for_now) in _ROUNDS_OF:
        says = f"a round of few items ≤ {ROUND_GOAL_MILLISECONDS:g} ms of CPU {where}"
        goals.append(at_most(says, one.round_milliseconds, ROUND_GOAL_MILLISECONDS, "ms"))
    return goals


def _fields(one: _One) -> dict[str, Any]:
    return {
        "way": one.way,
        "items_per_second": one.rate,
        "is_for_now": one.is_for_now,
        **lag_fields(one.lag),
        **usage_fields(one.usage, one.lag.items),
        "claims": one.claims,
        "cpu_microseconds_a_claim": one.usage.microseconds_an_item(max(1, one.claims)),
        "bound_by": bound_by(one.usage),
    }
