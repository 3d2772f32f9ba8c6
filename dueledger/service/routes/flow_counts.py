"""Counts of flows and pauses: what ended lately, what falls due, and what fell due in a pause."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from dueledger.ledger.store.flows import FlowScope, count_fell_due, count_flow_coming
from dueledger.ledger.store.overview import list_flow_rates
from dueledger.service.calls import ApiCall

FALL_DUE_MAX: Final = 1_000
"""Items counted of those that fall due in a span; more are shown as this number and +."""
PAUSES_COUNTED: Final = 10
"""Pauses of a page of which it is counted how many items fell due meanwhile."""


class CountedItems(NamedTuple):
    """How many items were counted; at least so many, if it is capped."""

    items: int
    capped: bool


async def flow_rates(call: ApiCall, flows: Sequence[Mapping[str, Any]]) -> list[float | None]:
    """Return how many items of each flow ended a second, in the last minutes; None: unknown."""
    names = [(flow["tenant"], flow["kind"], flow["lane"]) for flow in flows]
    found = await list_flow_rates(call.connection, names)
    return [None if rate is None else float(f"{rate:.3g}") for rate in found]


async def count_coming(call: ApiCall, flow: tuple[str, str, str], until: datetime) -> CountedItems:
    """Count the items of a flow that fall due from now until an instant."""
    found = await count_flow_coming(call.connection, flow, until, count_max=FALL_DUE_MAX)
    return CountedItems(min(found, FALL_DUE_MAX), found > FALL_DUE_MAX)


async def count_in_pauses(
    call: ApiCall, pauses: Sequence[Mapping[str, Any]], now: datetime
) -> list[CountedItems | None]:
    """Count the items that wait and fell due since each pause began; None: of later pauses."""
    counted: list[CountedItems | None] = [None] * len(pauses)
    for place, each in enumerate(pauses[:PAUSES_COUNTED]):
        scope = FlowScope(each["tenant"], each["kind"], each["lane"])
        span = each["paused_at"], now
        found = await count_fell_due(call.connection, scope, *span, read_max=FALL_DUE_MAX)
        counted[place] = CountedItems(*found)
    return counted
