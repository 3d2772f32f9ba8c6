"""A direct worker without work sleeps, and an item that is emitted wakes it."""

import asyncio
from collections.abc import Callable

import pytest

from dueledger import Completed, DueItem, Handlers, Verdict
from dueledger.ledger.rules.drafts import ItemDraft
from tests.workers.direct.conftest import Estate

MakeDrafts = Callable[..., list[ItemDraft]]
SLEEPERS = "select count(*) from ledger.process where sleeps_until is not null"
NEVER_SECONDS = 1e6


@pytest.mark.usefixtures("endless_sleep")
async def test_g9_an_item_emitted_while_a_direct_worker_sleeps_is_worked(
    estate: Estate, make_drafts: MakeDrafts
) -> None:
    began, handlers = asyncio.Event(), Handlers()

    @handlers.on(estate.kind)
    async def work(_: DueItem) -> Verdict:
        began.set()
        return Completed()

    await estate.work(handlers, direct_idle_seconds=NEVER_SECONDS)
    await estate.eventually(lambda: estate.connection.fetchval(SLEEPERS))
    await estate.emit(make_drafts())
    await estate.until_completed(1)
    assert began.is_set()
