"""Direct workers beside an allocator and workers with Kafka: one of them claims each item."""

import asyncio
from collections.abc import Callable, Sequence

from pydantic import SecretStr

from dueledger import Completed, DueItem, Handlers, Verdict
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.service import Stop
from dueledger.workers.direct import DirectSettings
from dueledger.workers.process import run_direct_worker
from tests.logins import with_login

from .conftest import Site

PART = 200


async def test_g4_a_kind_may_be_worked_through_kafka_and_directly_at_once(
    site: Site, make_drafts: Callable[..., list[ItemDraft]]
) -> None:
    seen: list[tuple[str, str]] = []

    def handlers(way: str) -> Handlers:
        own = Handlers()

        @own.on_batch(site.kind, batch_max=10, concurrency=2)
        async def work(items: list[DueItem]) -> Sequence[Verdict]:
            seen.extend((way, item.business_key) for item in items)
            await asyncio.sleep(0)
            return [Completed({"way": way}) for _ in items]

        return own

    def ways() -> set[str]:
        return {way for way, _ in seen}

    await site.work(handlers("kafka"))
    await site.emit(make_drafts(PART))

    async def some_through_kafka() -> bool:
        await site.allocate()
        return "kafka" in ways()

    await site.eventually(some_through_kafka)
    stop = Stop()
    dsn = SecretStr(with_login(site.settings.dsn.get_secret_value(), "direct_worker"))
    settings = DirectSettings(
        **site.settings.model_copy(update={"dsn": dsn}).model_dump(), direct_claim_items_max=20
    )
    direct = asyncio.create_task(run_direct_worker(settings, handlers("direct"), stop))
    await site.emit(make_drafts(PART, prefix="second"))

    async def some_directly() -> bool:
        return "direct" in ways()

    await site.eventually(some_directly)
    await site.emit(make_drafts(PART, prefix="third"))

    async def all_completed() -> bool:
        await site.allocate()
        return await site.completed() == 3 * PART

    await site.eventually(all_completed)
    stop.request()
    await direct
    assert len(seen) == len({key for _, key in seen}) == 3 * PART
