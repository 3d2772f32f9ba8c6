"""A flood: a million items of one flow are due at once, while fifty other flows go on.

It is measured three times: the flood has a kind, and so a topic, of its own; it shares theirs; and
it shares theirs while all the other flows have a lag target, so that it is slowed for their sake.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, final

from bench.draining import WARM_UP_ITEMS, ProcessSet, drain, working
from bench.lag import lag_fields, lead_seconds, whole_lag
from bench.ledgers import Ledger, after
from bench.measurements import Lag, StepTimes
from bench.report import Goal, Measured, usage_fields
from bench.rig import Rig
from bench.usage import Usage, bound_by
from bench.workload import WARM_ITEMS, tenant_flows
from dueledger.ledger.store.flows import FlowLimits, FlowScope, set_flow_limits

LAG_GOAL: Final = 1.2
RATE_GOAL: Final = 0.8
TARGET_LAG_GOAL: Final = 1.5
TARGET_RATE_GOAL: Final = 0.5
BREAKS_AFTER_SECONDS: Final = 2.0
OTHERS: Final = "OTHER-"
FLOOD: Final = "FLOOD-"
OWN_KIND: Final = "a kind of its own"
SAME_KIND: Final = "the others' kind"
SLOWED: Final = "the others' kind, with a lag target"


@final
@dataclass(frozen=True, slots=True)
class FloodOptions:
    """The flood, the others, their duration, and the items of the pipeline.

    Without `lag_target_seconds` the target is the p99 of the others while they are alone: what
    somebody asks for who wants them to stay as they are.
    The pipeline works `warm_items` before: a broker that has just started compiles its code.
    """

    items: int = 1_000_000
    flows: int = 50
    rate_a_flow: int = 20
    seconds: float = 45.0
    pipeline_items: int = 300_000
    lag_target_seconds: float | None = None
    warm_items: int = WARM_ITEMS


@final
@dataclass(frozen=True, slots=True)
class _Flooded:
    others: Lag
    steps: StepTimes
    items_per_second: int
    usage: Usage


async def bench_flood(rig: Rig, options: FloodOptions) -> Measured:
    """Measure the pipeline, the others alone, then the others with each flood."""
    async with rig.ledger() as ledger:
        pipeline = await drain(
            rig, ledger, options.pipeline_items, ProcessSet(), warm_items=options.warm_items
        )
    alone = await _alone(rig, options)
    target_seconds = options.lag_target_seconds or alone.p99_milliseconds / 1000
    floods = {
        OWN_KIND: await _flooded(rig, options, OWN_KIND),
        SAME_KIND: await _flooded(rig, options, SAME_KIND),
        SLOWED: await _flooded(rig, options, SLOWED, lag_target_seconds=target_seconds),
    }
    rate = pipeline.items_per_second
    goals = [goal for name, one in floods.items() for goal in _goals(name, one, alone, rate)]
    figures = {
        "pipeline_items_per_second": rate,
        "others_alone": lag_fields(alone),
        "lag_target_milliseconds": round(1000 * target_seconds, 1),
        "floods": {name: _fields(one) for name, one in floods.items()},
    }
    return Measured(goals, figures, floods[SAME_KIND].usage, options.items)


async def _alone(rig: Rig, options: FloodOptions) -> Lag:
    """Measure the others while nothing else is due."""
    rig.say("the others alone")
    items = _others(options)
    async with rig.ledger() as ledger, working(rig, ledger, ProcessSet()):
        begins = after(await ledger.now(), lead_seconds(items))
        await _load_others(ledger, options, begins)
        await ledger.rest()
        await ledger.wait_until(begins)
        await ledger.until_ended(watch=rig.require_alive)
        return await whole_lag(ledger, prefix=OTHERS, since=begins, until=await ledger.now())


async def _flooded(
    rig: Rig, options: FloodOptions, name: str, *, lag_target_seconds: float | None = None
) -> _Flooded:
    """Load both ahead, let the flood become due while the others continue, and measure both."""
    rig.say(f"the others, and a flood of {name}")
    items = _others(options) + options.items
    async with rig.ledger() as ledger, working(rig, ledger, ProcessSet()):
        begins = after(await ledger.now(), lead_seconds(items))
        breaks = after(begins, BREAKS_AFTER_SECONDS)
        await _load_others(ledger, options, begins)
        if lag_target_seconds is not None:
            limits = FlowLimits(lag_target_seconds=lag_target_seconds)
            for tenant, kind, lane in tenant_flows(ledger.kind, options.flows):
                scope = FlowScope(tenant, kind, lane)
                await set_flow_limits(ledger.connection, scope, limits, actor_no=ledger.actor_no)
        kind = ledger.other_kind if name == OWN_KIND else ledger.kind
        await ledger.load(options.items, flows=[("flood", kind, "")], prefix=FLOOD, due_at=breaks)
        await ledger.rest()
        await ledger.wait_until(breaks)
        meter = rig.meter()
        await ledger.until_ended(WARM_UP_ITEMS + options.items, watch=rig.require_alive)
        usage = meter.read()
        await ledger.until_ended(watch=rig.require_alive)
        await ledger.require_balance()
        steps = await ledger.steps(options.items, prefix=FLOOD, watch=rig.require_alive)
        until = min(steps.last_completed_at, after(begins, options.seconds))
        others = await whole_lag(ledger, prefix=OTHERS, since=breaks, until=until)
    return _Flooded(others, steps, round(options.items / steps.seconds), usage)


def _others(options: FloodOptions) -> int:
    return round(options.flows * options.rate_a_flow * options.seconds)


async def _load_others(ledger: Ledger, options: FloodOptions, begins: datetime) -> None:
    await ledger.load(
        _others(options),
        flows=tenant_flows(ledger.kind, options.flows),
        prefix=OTHERS,
        due_at=begins,
        spacing_seconds=1 / (options.flows * options.rate_a_flow),
    )


def _goals(name: str, one: _Flooded, alone: Lag, rate: int) -> list[Goal]:
    lag_bound, rate_bound = LAG_GOAL, RATE_GOAL
    if name == SLOWED:
        lag_bound, rate_bound = TARGET_LAG_GOAL, TARGET_RATE_GOAL
    return [
        Goal(
            f"the others' p99 at most {lag_bound} × that without a flood of {name}",
            round(one.others.p99_milliseconds / alone.p99_milliseconds, 2),
            lag_bound,
            "×",
            ceiling=True,
        ),
        Goal(
            f"a flood of {name} drained at {rate_bound} × the pipeline",
            round(one.items_per_second / rate, 3),
            rate_bound,
            "×",
        ),
    ]


def _fields(one: _Flooded) -> dict[str, Any]:
    return {
        "items_per_second": one.items_per_second,
        "others": lag_fields(one.others),
        "claim_to_start_milliseconds": one.steps.milliseconds["claim_to_start"],
        **usage_fields(one.usage, None),
        "bound_by": bound_by(one.usage),
    }
