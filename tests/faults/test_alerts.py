"""Real breakages are alerted within two minutes, and so is their end; beside them nothing is."""

import asyncio
import os
from base64 import b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from dueledger.ledger.states import TransitionEvent

from .programs import eventually
from .site import Site

pytestmark = pytest.mark.faults
ALERTED_SECONDS = 120
Received = list[tuple[str, str]]


@pytest.fixture
async def received() -> AsyncGenerator[tuple[str, Received]]:
    """The address of a receiver of webhooks, and the alerts and states that it got."""
    got: Received = []

    async def take(request: web.Request) -> web.Response:
        document: dict[str, Any] = await request.json()
        got.append((document["alert"], document["status"]))
        return web.Response()

    app = web.Application()
    app.router.add_post("/", take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    yield f"http://{host}:{port}/", got
    await runner.cleanup()


@pytest.mark.long
async def test_breakages_are_alerted_within_two_minutes_and_so_is_their_end(
    site: Site, received: tuple[str, Received]
) -> None:
    url, got = received
    kind = await site.add_kind("batch", attempt_max=1)
    await site.fetchval(  # no reconciler runs, and none is missed within the day
        "insert into ledger.watermark (tenant, kind, complete_before, as_of)"
        " select 'acme', $1, day, day from (select ledger.now() + interval '1 day') d (day)"
        " returning 1",
        kind,
    )
    allocator, worker = await site.start_allocator(), await site.start_worker()
    await site.emit(site.drafts(kind, 20))
    await site.finished()
    alert = await site.start_alert(
        DUELEDGER_ALERT_WEBHOOK_URL=url,
        DUELEDGER_ALERT_WEBHOOK_SECRET="whsec_" + b64encode(os.urandom(32)).decode(),
        DUELEDGER_ALERT_WEBHOOK_NETWORKS="127.0.0.0/8",
        DUELEDGER_ALERT_INTERVAL_SECONDS="2",
    )

    async def break_and_mend(
        name: str, break_: Callable[[], Awaitable[object]], mend: Callable[[], Awaitable[object]]
    ) -> None:
        """Break something; the alert and its end are all that is sent."""
        before = len(got)
        await break_()
        await eventually(lambda: sent(name, "firing"), seconds=ALERTED_SECONDS)
        await mend()
        await eventually(lambda: sent(name, "resolved"), seconds=ALERTED_SECONDS)
        assert got[before:] == [(name, "firing"), (name, "resolved")]

    async def sent(name: str, status: str) -> bool:
        return (name, status) in got

    async def kill_worker() -> None:
        await worker.kill()
        await site.emit(site.drafts(kind, 5))

    async def exhaust() -> None:
        poison = site.drafts(kind, 1, prefix="poison")
        await site.emit(poison)
        poisoned.extend(draft.id for draft in poison)

    poisoned: list[Any] = []
    await break_and_mend(
        "RetriesExhausted",
        exhaust,
        lambda: site.withdraw(poisoned, TransitionEvent.CANCELLED),
    )
    await break_and_mend("WorkerMissing", kill_worker, site.start_worker)
    await break_and_mend("AllocatorMissing", allocator.kill, site.start_allocator)
    postgres = site.servers.stack.postgres
    await break_and_mend(
        "PostgresUnreachable",
        lambda: asyncio.to_thread(postgres.stop),
        lambda: asyncio.to_thread(postgres.start),
    )
    kafka = site.servers.stack.kafka

    async def stop_kafka() -> None:
        await asyncio.to_thread(kafka.stop)
        await site.emit(site.drafts(kind, 5))

    await break_and_mend("KafkaUnreachable", stop_kafka, lambda: asyncio.to_thread(kafka.start))
    assert alert.running
    await site.finished()
