"""How long after its time an item is started, at a rate spread evenly: through Kafka and direct."""

import asyncio
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, final

from bench.draining import PREFIX, ProcessSet, working
from bench.ledgers import Ledger, MeasurementFailed, after
from bench.measurements import Lag, count_claims, measure_lags
from bench.report import Goal, Measured, usage_fields
from bench.rig import Rig
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

_FOR_NOW: Final = {
    (DIRECT, 2): (5.0, 12.0),
    (DIRECT, 100): (4.0, 10.0),
    (KAFKA, 2): (10.0, 25.0),
    (KAFKA, 100): (9.0, 22.0),
}
"""The goals for p50 and p99, in milliseconds, of items that are emitted when they are due."""

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
    """Return the goal for this way and rate, if there is one."""

    def at_most(figure: float, name: str, bound: float) -> Goal:
        emitted = ", emitted for now" if one.is_for_now else ""
        says = f"{name} ≤ {bound:g} ms at {one.rate:,}/s, {one.way}{emitted}"
        return Goal(says, figure, bound, ceiling=True)

    if one.is_for_now:
        bounds = _FOR_NOW.get((one.way, one.rate))
        if bounds is None:
            return []
        return [
            at_most(one.lag.p50_milliseconds, "p50", bounds[0]),
            at_most(one.lag.p99_milliseconds, "p99", bounds[1]),
        ]
    match one.way, one.rate:
        case "kafka", 1_000:
            return [
                at_most(one.lag.p50_milliseconds, "p50", 8),
                at_most(one.lag.p99_milliseconds, "p99", 20),
            ]
        case "direct", 1_000:
            return [at_most(one.lag.p99_milliseconds, "p99", 10)]
        case "kafka", 5_000:
            return [at_most(one.lag.p99_milliseconds, "p99", 60)]
        case _:
            return []


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
