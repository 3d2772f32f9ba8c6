"""Records of closed claims: they are dropped in bulk, and bring no more of their kind."""

from collections.abc import Callable
from datetime import timedelta

from dueledger import Completed, DueItem, Handlers, Verdict
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store.claims import reap_claims

from .conftest import Site

MakeDrafts = Callable[..., list[ItemDraft]]

STALE_ITEMS = 5_000
CALLS = 10
PARTITIONS = 4


async def publish_stale(site: Site, drafts: list[ItemDraft]) -> None:
    """Publish items, and let their claims expire before any worker reads them."""
    await site.emit(drafts)
    await site.allocate()
    await site.advance_machine(timedelta(hours=1))
    reaped = await reap_claims(site.connection, 1_000, site.actor_no)
    assert reaped.released == len(drafts)


async def test_g5_stale_records_cost_a_statement_a_poll_and_no_call_slots(
    site: Site, make_drafts: MakeDrafts
) -> None:
    await publish_stale(site, make_drafts(STALE_ITEMS))
    handlers = Handlers()

    @handlers.on(site.kind, concurrency=CALLS)
    async def complete(item: DueItem) -> Verdict:
        del item
        return Completed()

    await site.work(handlers)

    async def all_completed() -> bool:
        await site.allocate()
        return await site.completed() == STALE_ITEMS

    await site.eventually(all_completed)
    refused = await site.connection.fetch(
        "select to_position - from_position + 1 as items from ledger.rejected_write"
        " where verb = 'start' and reason = 'stale'"
    )
    # The first start out of each partition shows that it is behind.
    assert 0 < len(refused) <= PARTITIONS
    assert sum(row["items"] for row in refused) <= PARTITIONS * CALLS
