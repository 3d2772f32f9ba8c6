"""Thousands of flows: few claims for many light ones, and few visits to each heavy one."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

import pytest

from dueledger.allocator import Allocator, claim_loop
from dueledger.allocator.admission_group import admission_group_of
from dueledger.allocator.choose.topic_shares import MOST_ITEMS
from dueledger.allocator.discover import due_flow_poller
from dueledger.ledger.flows.queue import FlowQueue
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection, Pool

Emit = Callable[[list[ItemDraft]], Awaitable[None]]
Drafts = Callable[..., list[ItemDraft]]

FLOWS: Final = 45
ITEMS: Final = 80
CLAIMS: Final = "select count(distinct claimed_at) from ledger.claim"
VISITS: Final = (
    "select max(v.visits) from (select count(distinct c.claimed_at) as visits from ledger.claim c,"
    " unnest(c.flow_nos) f (flow_no) group by f.flow_no) v"
)


def in_lanes(
    make_drafts: Drafts, lanes: int, items: int, *, prefix: str = "key"
) -> list[ItemDraft]:
    return [
        draft
        for number in range(lanes)
        for draft in make_drafts(items, lane=f"lane-{number}", prefix=f"{prefix}-{number}")
    ]


async def test_a_flow_of_a_flood_over_many_is_taken_in_few_claims(
    start_allocator: Callable[..., Awaitable[Allocator]],
    connection: Connection,
    emit: Emit,
    make_drafts: Drafts,
) -> None:
    await emit(in_lanes(make_drafts, FLOWS, ITEMS))
    batch = claim_loop.HEAVY_SHARE_ITEMS * FLOWS
    allocator = await start_allocator(allocator_batch_items_max=batch)

    assert (await allocator.tick())["published"] == FLOWS * ITEMS

    # A light share, one of MOST_ITEMS, and another one where a claim was full before.
    assert ITEMS - batch // FLOWS <= MOST_ITEMS
    assert await connection.fetchval(VISITS) <= 3


async def test_many_light_flows_are_claimed_by_claims_as_large_as_those_of_a_flood(
    start_allocator: Callable[..., Awaitable[Allocator]],
    connection: Connection,
    emit: Emit,
    make_drafts: Drafts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(claim_loop, "LIGHT_CLAIM_FLOWS", 2)
    monkeypatch.setattr(claim_loop, "LIGHT_FLOWS_MANY", 5)
    allocator = await start_allocator()
    for flows, claims in ((4, 2), (5, 1)):
        before = await connection.fetchval(CLAIMS)
        await emit(in_lanes(make_drafts, flows, 1, prefix=f"of-{flows}"))

        await allocator.tick()

        assert await connection.fetchval(CLAIMS) == before + claims


async def test_the_time_between_lists_grows_with_the_first_list_of_many_flows(
    pool: Pool, emit: Emit, make_drafts: Drafts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due_flow_poller, "FLOW_SECONDS", 1.0)
    flow_queue = FlowQueue(admission_group_of)
    unused = cast("Any", None)
    poller = due_flow_poller.DueFlowPoller(flow_queue, unused, unused, unused, topic_window_items=1)
    await emit(in_lanes(make_drafts, 3, 1))

    async with pool.acquire() as connection:
        await cast("Any", poller)._poll_due_flows(connection)

    assert len(flow_queue) == 3
    assert poller.poll_seconds == 3.0
