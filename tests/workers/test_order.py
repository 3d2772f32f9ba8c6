"""Items of one key are worked one after another where their kind asks for it."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from dueledger import Completed, DueItem, Handlers, Park, Retry, Verdict
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy

from .conftest import Site

MakeDrafts = Callable[..., list[ItemDraft]]
MakeOrdered = Callable[[int], list[ItemDraft]]

KEYS = ("red", "blue")


@pytest.fixture
def make_ordered(make_drafts: MakeDrafts) -> MakeOrdered:
    """Make so many items of each key, the last ones due first."""

    def make(count: int) -> list[ItemDraft]:
        return [
            replace(draft, due_at=draft.due_at - timedelta(hours=number))
            for key in KEYS
            for number, draft in enumerate(make_drafts(count, prefix=key, partition_key=key))
        ]

    return make


async def order_by_key(site: Site, *, failure_holds: bool = True) -> None:
    policy = KindPolicy("acme", site.kind, ordering="key", failure_holds=failure_holds)
    await put_kind_policy(site.connection, policy)


async def test_items_of_one_key_run_one_after_another_in_the_order_they_are_due(
    site: Site, make_ordered: MakeOrdered
) -> None:
    handlers = Handlers()
    running: set[str] = set()
    together: set[str] = set()
    done: dict[str, list[str]] = {key: [] for key in KEYS}

    @handlers.on(site.kind)
    async def work(item: DueItem) -> Verdict:
        key, _, number = item.business_key.partition("-")
        if key in running:
            together.add(item.business_key)
        running.add(key)
        for _ in range(20):
            await asyncio.sleep(0)  # others would begin now
        running.discard(key)
        done[key].append(number)
        return Completed()

    await order_by_key(site)
    await site.emit(make_ordered(5))
    await site.work(handlers)

    async def all_completed() -> bool:
        await site.allocate()
        return await site.completed() == 10

    await site.eventually(all_completed)
    assert not together
    in_order = [f"{number:06}" for number in reversed(range(5))]
    assert done == dict.fromkeys(KEYS, in_order)


@pytest.mark.parametrize(
    "verdict", [Retry(after_seconds=3600), Park("illegible")], ids=["retry", "park"]
)
@pytest.mark.parametrize("holds", [True, False], ids=["holds", "lets-go"])
async def test_a_failed_item_holds_its_key_back_or_not_and_never_another(
    site: Site,
    make_ordered: MakeOrdered,
    verdict: Verdict,
    holds: bool,  # noqa: FBT001  # what is parametrized
) -> None:
    handlers = Handlers()

    @handlers.on(site.kind)
    async def work(item: DueItem) -> Verdict:
        return verdict if item.business_key == "red-000002" else Completed()

    await order_by_key(site, failure_holds=holds)
    await site.emit(make_ordered(3))
    await site.work(handlers)
    expected = 3 if holds else 5

    async def others_completed() -> bool:
        await site.allocate()
        return await site.completed() == expected and "red-000002" in await site.events()

    await site.eventually(others_completed)
    events = await site.events()
    completed = {key for key, names in events.items() if names == ["completed"]}
    blue = {f"blue-{number:06}" for number in range(3)}
    assert completed == (blue if holds else blue | {"red-000000", "red-000001"})
    assert await site.allocate() == 0
