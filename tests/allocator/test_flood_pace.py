"""An allocator slows floods beside a flow with a lag target, and measures that flow's lag."""

from collections.abc import Awaitable, Callable

import pytest

from dueledger.allocator import Allocator
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection
from tests.flood_rests import REST_SECONDS, least_pause, rest_always

Start = Callable[..., Awaitable[Allocator]]
Emit = Callable[[list[ItemDraft]], Awaitable[None]]
Drafts = Callable[..., list[ItemDraft]]
Limit = Callable[..., Awaitable[None]]

LARGEST_CLAIM = """
select max(s.items) from (
  select sum(c.size) as items from ledger.claim c where c.lag_flow_no is null group by c.claimed_at
) s
"""
MEASURED = """
select count(*) filter (where f.lane = 'card' and c.available_since <= c.claimed_at), count(*)
from ledger.claim c join ledger.flow f on f.flow_no = c.lag_flow_no
"""


@pytest.mark.parametrize("target", [3600, None])
async def test_g12_a_flood_is_claimed_in_small_shares_beside_a_flow_with_a_lag_target(
    start_allocator: Start,
    emit: Emit,
    limit: Limit,
    make_drafts: Drafts,
    connection: Connection,
    target: float | None,
) -> None:
    card = make_drafts(5, prefix="card", lane="card")
    await emit([*make_drafts(3000, prefix="flood", lane="flood"), *card])
    if target is not None:
        await limit("card", lag_target_seconds=target)
    counts = await (await start_allocator()).tick()
    assert counts["published"] == 3005
    measured = await connection.fetchrow(MEASURED)
    stepped_at = await connection.fetchval("select stepped_at from ledger.flood_pace")
    largest = await connection.fetchval(LARGEST_CLAIM)
    assert measured is not None
    if target is None:
        assert (tuple(measured), stepped_at) == ((0, 0), None)
        assert largest > 1000
    else:
        assert measured[0] == measured[1] > 0
        assert stepped_at is not None
        assert largest <= 1000


async def test_g12_a_flood_rests_after_each_of_its_claims(
    start_allocator: Start,
    emit: Emit,
    limit: Limit,
    make_drafts: Drafts,
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rests = rest_always(monkeypatch)
    card = make_drafts(5, prefix="card", lane="card")
    await emit([*make_drafts(3000, prefix="flood", lane="flood"), *card])
    await limit("card", lag_target_seconds=3600)
    counts = await (await start_allocator()).tick()
    assert counts["published"] == 3005
    assert len(rests) >= 3
    assert all(share < 1 and busy > 0 for share, busy in rests)
    assert await least_pause(connection) >= REST_SECONDS
