"""A partition that a worker does not get on with is reported, and taken anew."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.fetch import FetchRequest
from pydantic import SecretStr
from structlog.testing import capture_logs

from dueledger import Completed, DueItem, Handlers, Verdict
from dueledger.doctor import Health, run_checks
from dueledger.ledger.metrics import Metric
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.log import LogEvent
from dueledger.ledger.store.items import show_item
from dueledger.ledger.store.topic_partitions import list_stalled_partitions
from dueledger.why import explain
from dueledger.workers import worker
from dueledger.workers.poll.work_consumer import WorkConsumer
from tests.metrics_page import read_own_page

from .conftest import Site
from .test_kafka import completing

pytestmark = pytest.mark.long

MakeDrafts = Callable[..., list[ItemDraft]]
QUEUE_SECONDS = 2


class HungFetches:
    """Requests for records of the first client that makes one are never answered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hung: AIOKafkaClient | None = None
        send = AIOKafkaClient.send

        async def send_or_hang(
            client: AIOKafkaClient, node: int, request: object, **more: object
        ) -> Any:  # noqa: ANN401 - as aiokafka's
            if isinstance(request, FetchRequest):
                self.hung = self.hung or client
                if client is self.hung:
                    await asyncio.get_running_loop().create_future()
            return await send(client, node, request, **more)

        monkeypatch.setattr(AIOKafkaClient, "send", send_or_hang)


async def test_a_partition_whose_fetch_hangs_is_reported_and_then_taken_anew(
    site: Site, make_drafts: MakeDrafts, monkeypatch: pytest.MonkeyPatch
) -> None:
    [draft] = make_drafts(1)
    hung = HungFetches(monkeypatch)
    monkeypatch.setattr(worker, "REPORT_SECONDS", 0.05)
    await site.emit([draft])
    await site.set_kind(queue_seconds=QUEUE_SECONDS)
    await site.work(completing(site.kind))
    await site.eventually(site.credits)

    async def explained() -> str | None:
        await site.allocate()
        item = await show_item(site.connection, draft.id)
        assert item is not None
        explanation = await explain(site.connection, item)
        return explanation.sentence if explanation.code == "PARTITION_STALLED" else None

    sentence = await site.eventually(explained)
    shown = read_own_page()
    [((topic, partition, waits_for), seconds)] = shown[Metric.PARTITION_STALLED_SECONDS].items()
    assert (topic, waits_for) == (f"due.{site.kind}", "records")
    assert f"partition {partition} " in sentence
    assert seconds >= QUEUE_SECONDS
    assert shown[Metric.PARTITIONS_STALLED] == {(): 1}
    assert f" of due.{site.kind} " in sentence
    assert "has read nothing since" in sentence  # it has not read a first offset either
    assert hung.hung is not None

    async def completed_and_not_stalled() -> bool:
        await site.allocate()
        stalled = await site.connection.fetchval("select count(*) from ledger.stalled_partition")
        return await site.completed() == 1 and stalled == 0

    with capture_logs() as logged:
        await site.eventually(completed_and_not_stalled)

        async def is_counted() -> bool:
            lines = [line for line in logged if line["event"] == LogEvent.TICK_COMPLETED]
            return any(line.get("stalls") and line["settled"] == 1 for line in lines)

        await site.eventually(is_counted)
    shown = read_own_page()
    assert Metric.PARTITION_STALLED_SECONDS not in shown
    assert shown[Metric.PARTITIONS_STALLED] == {(): 0}
    assert shown[Metric.WORKER_COUNTS]["stalls",] >= 1
    rejoined = [line for line in logged if line["event"] == LogEvent.CONSUMER_REJOINED]
    assert [line["idle_seconds"] >= 2 * QUEUE_SECONDS for line in rejoined] == [True]


async def test_a_partition_whose_handlers_hang_is_reported_and_not_taken_anew(
    site: Site, make_drafts: MakeDrafts, monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    drafts = make_drafts(60)
    rejoined: list[object] = []
    monkeypatch.setattr(WorkConsumer, "rejoin", rejoined.append)
    await site.emit(drafts)
    await site.set_kind(queue_seconds=1)
    handlers, gate = Handlers(), asyncio.Event()

    @handlers.on(site.kind, timeout_seconds=3600, concurrency=1)
    async def hang(item: DueItem) -> Verdict:
        del item
        await gate.wait()
        return Completed()

    await site.allocate()
    await site.work(handlers, worker_buffer_items_max=20)

    async def checks_answered() -> list[dict[str, object]]:
        stalled = await list_stalled_partitions(site.connection)
        now = await site.connection.fetchval("select ledger.machine_now()")
        # The queue deadline passed three times: one that is not read was taken anew by then.
        return stalled if stalled and (now - stalled[0]["stalled_at"]).total_seconds() > 4 else []

    stalled, *_ = await site.eventually(checks_answered)
    assert stalled["waits_for_handlers"]
    place = (stalled["topic"], str(stalled["partition"]), "handlers")
    assert place in read_own_page()[Metric.PARTITION_STALLED_SECONDS]
    await site.connection.execute("update ledger.claim set deadline = deadline + interval '1 h'")
    waiting = await site.connection.fetchval(
        "select i.id from ledger.claim c join ledger.due_item i on i.item_no = c.item_no[c.size]"
        " where c.closed_at is null and c.partition = $1 and c.started < c.size",
        stalled["partition"],
    )
    shown = await show_item(site.connection, waiting)
    assert shown is not None
    explanation = await explain(site.connection, shown)
    assert explanation.code == "HANDLERS_STALLED"
    await site.connection.execute("update ledger.claim set deadline = deadline - interval '1 h'")
    assert rejoined == []
    as_owner = site.settings.model_copy(update={"dsn": SecretStr(database)})
    checks = {check.name: check async for check in run_checks(as_owner)}
    assert checks["workers"].health is Health.WARN
    counted, _, named = checks["workers"].text.partition(": ")
    assert counted == f"{named.count(f' of due.{site.kind} since ')} partitions are stalled"
    gate.set()

    async def none_stalled() -> bool:
        await site.allocate()
        return not await list_stalled_partitions(site.connection)

    await site.eventually(none_stalled)


async def test_a_partition_full_of_waiting_suspects_is_reported_until_they_are_worked(
    site: Site, make_drafts: MakeDrafts
) -> None:
    await site.emit(make_drafts(60, prefix="suspect"))
    await site.connection.execute("update ledger.pending set batch_max = 1, state = 4, starts = 1")
    await site.set_kind(queue_seconds=2)
    handlers, gate = Handlers(), asyncio.Event()

    @handlers.on(site.kind, timeout_seconds=3600)
    async def wait_if_suspect(item: DueItem) -> Verdict:
        if item.business_key.startswith("suspect"):
            await gate.wait()
        return Completed()

    await site.allocate()
    await site.work(handlers, worker_buffer_items_max=20)

    async def stalled() -> int:
        await site.emit(make_drafts(20, prefix=f"plain-{await site.completed()}"))
        await site.allocate()
        return await site.connection.fetchval("select count(*) from ledger.stalled_partition")

    await site.eventually(stalled)
    gate.set()

    async def none_stalled() -> bool:
        await site.allocate()
        return not await site.connection.fetchval("select count(*) from ledger.stalled_partition")

    await site.eventually(none_stalled)
