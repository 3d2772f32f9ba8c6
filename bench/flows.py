"""Ten thousand flows with due rows, half of them paused or exhausted with a million rows behind."""

from dataclasses import dataclass
from typing import Final, final

from bench.draining import PREFIX, ProcessSet, drain
from bench.ledgers import Ledger
from bench.pipeline import drained_fields
from bench.report import Goal, Measured, usage_fields
from bench.rig import Rig
from bench.workload import DUE_AT, TENANTS, WARM_ITEMS
from dueledger.ledger.store.claims import list_due_flows
from dueledger.ledger.store.flow_limits import spend_tokens
from dueledger.ledger.store.flows import FlowLimits, FlowScope, pause_flows, set_flow_limits

RATE_GOAL: Final = 0.85
PAUSED: Final = "paused"
EXHAUSTED: Final = "exhausted"
NEXT_TO_NOTHING: Final = 0.001  # items a second


@final
@dataclass(frozen=True, slots=True)
class FlowsOptions:
    """How many flows are served and how many are not, and the items of each type.

    Before each measurement `warm_items` are worked. A broker that has just started would slow the
    pipeline, which is measured first, and not the many flows.
    """

    flows: int = 5_000
    blocked_flows: int = 5_000
    items: int = 300_000
    blocked_items: int = 1_000_000
    warm_items: int = WARM_ITEMS


async def bench_flows(rig: Rig, options: FlowsOptions) -> Measured:
    """Measure the pipeline with ten flows, then with all of these."""
    rig.say(f"{TENANTS} flows")
    async with rig.ledger() as ledger:
        few = await drain(rig, ledger, options.items, ProcessSet(), warm_items=options.warm_items)
    rig.say(f"{options.flows:,} flows, and {options.blocked_flows:,} that are held back")
    async with rig.ledger() as ledger:

        async def fill() -> None:
            await _load_blocked(ledger, options)
            flows = [
                (f"tenant-{number % TENANTS}", ledger.kind, f"lane-{number // TENANTS}")
                for number in range(options.flows)
            ]
            await ledger.load(options.items, flows=flows, prefix=PREFIX, due_at=DUE_AT)

        many = await drain(
            rig, ledger, options.items, ProcessSet(), fill=fill, warm_items=options.warm_items
        )
    ratio = round(many.items_per_second / few.items_per_second, 3)
    figures = {
        "pipeline": drained_fields(few) | usage_fields(few.usage, few.items),
        "many_flows": drained_fields(many),
    }
    says = f"{RATE_GOAL} × the pipeline's rate"
    return Measured([Goal(says, ratio, RATE_GOAL, "×")], figures, many.usage, many.items)


async def _load_blocked(ledger: Ledger, options: FlowsOptions) -> None:
    """Make due items of flows of which half are paused and half have no tokens left."""
    lanes = max(options.blocked_flows // 2, 1)
    for tenant in (PAUSED, EXHAUSTED):
        await ledger.load(
            options.blocked_items // 2,
            flows=[(tenant, ledger.kind, f"lane-{number}") for number in range(lanes)],
            prefix=f"{tenant}-",
            due_at=DUE_AT,
        )
    scope = FlowScope(PAUSED)
    await pause_flows(ledger.connection, scope, reason="benchmark", actor_no=ledger.actor_no)
    await set_flow_limits(
        ledger.connection,
        FlowScope(EXHAUSTED, ledger.kind),
        FlowLimits(rate_per_second=NEXT_TO_NOTHING),
        actor_no=ledger.actor_no,
    )
    # A bucket begins with a token: its item would end and be counted instead of a served one.
    flows = await list_due_flows(ledger.connection, lanes)
    exhausted = [flow.flow_no for flow in flows if flow.tenant == EXHAUSTED]
    await spend_tokens(ledger.connection, exhausted, [1] * len(exhausted))
