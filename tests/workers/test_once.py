"""A pass of a worker ends by itself: when due items are done, or when none arrive."""

import asyncio
from collections.abc import Callable

from dueledger import Completed, DueItem, Handlers, Retry, Verdict
from dueledger.ledger.rules.drafts import ItemDraft

from .conftest import Site
from .test_kafka import completing

MakeDrafts = Callable[..., list[ItemDraft]]


async def test_a_pass_works_what_is_due_and_what_is_handed_out_meanwhile_and_then_ends(
    site: Site, make_drafts: MakeDrafts
) -> None:
    await site.emit(make_drafts(300))
    await site.allocate()
    await site.emit(make_drafts(200, prefix="meanwhile"))
    handlers = Handlers()
    once = asyncio.Event()

    @handlers.on_batch(site.kind, batch_max=50)
    async def complete(items: list[DueItem]) -> list[Verdict]:
        once.set()
        return [Completed() for _ in items]

    passing = asyncio.create_task(site.work_once(handlers))
    await once.wait()
    await site.allocate()
    counts = await passing

    assert counts["settled"] == 500
    assert await site.completed() == 500
    assert not await site.credits()


async def test_a_pass_ends_even_if_no_allocator_claims_due_items(
    site: Site, make_drafts: MakeDrafts
) -> None:
    await site.emit(make_drafts(3))

    counts = await site.work_once(completing(site.kind))

    assert counts["polled"] == 0
    assert len(await site.pending()) == 3


async def test_a_pass_does_not_wait_for_what_is_due_only_later(
    site: Site, make_drafts: MakeDrafts
) -> None:
    handlers = Handlers()

    @handlers.on(site.kind)
    async def later(item: DueItem) -> Verdict:
        del item
        return Retry(after_seconds=3600)

    await site.emit(make_drafts(3))
    await site.allocate()

    counts = await site.work_once(handlers)

    assert counts["settled"] == 3
    assert len(await site.pending()) == 3
