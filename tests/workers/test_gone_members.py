"""Killed workers leave the group, and living ones that were taken for dead join it again."""

from collections.abc import Callable
from typing import Final

from dueledger import Completed, DueItem, Handlers, Verdict
from dueledger.ledger.kafka.group_members import end_members
from dueledger.ledger.rules.drafts import ItemDraft

from .conftest import Site

MakeDrafts = Callable[..., list[ItemDraft]]
ITEMS: Final = 40
LONG_AGO: Final = "update ledger.process set unlocked_at = unlocked_at - interval '2 seconds'"
NEVER_SECONDS: Final = 1800.0
"""The longest session that brokers allow: until then a killed worker would keep its partitions."""


def completing(kind: str) -> Handlers:
    handlers = Handlers()

    @handlers.on(kind)
    async def work(_: DueItem) -> Verdict:
        return Completed()

    return handlers


async def test_g5_partitions_of_a_killed_worker_do_not_wait_for_its_session(
    site: Site, make_drafts: MakeDrafts
) -> None:
    victim = await site.start_process("batch", worker_session_timeout_seconds=NEVER_SECONDS)
    await site.emit(make_drafts(ITEMS))
    await _complete(site, ITEMS)
    await site.work(completing(site.kind))
    await site.eventually(lambda: _has_credits_of(site, 2))

    await victim.kill()
    await site.emit(make_drafts(ITEMS, prefix="later"))  # of all partitions

    await _complete(site, 2 * ITEMS)


async def test_a_worker_that_lives_joins_the_group_again(
    site: Site, make_drafts: MakeDrafts
) -> None:
    await site.work(completing(site.kind), worker_session_timeout_seconds=NEVER_SECONDS)
    await site.emit(make_drafts(ITEMS))
    await _complete(site, ITEMS)
    name = await site.connection.fetchval(
        "select name from ledger.process_status where role = 'worker'"
    )
    group = site.settings.worker_group_id

    ended = [await end_members(site.settings, group, [each], client="t") for each in (name, "no")]

    assert ended == [1, 0]
    await site.emit(make_drafts(ITEMS, prefix="later"))
    await _complete(site, 2 * ITEMS)


async def _complete(site: Site, count: int) -> None:
    async def all_completed() -> bool:
        await site.allocate()
        await site.connection.execute(LONG_AGO)
        return await site.completed() == count

    await site.eventually(all_completed)


async def _has_credits_of(site: Site, workers: int) -> bool:
    return len(await site.credits()) == workers
