"""Samples of what waits and where, in a site: they say why it is slow."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from dueledger.ledger.kafka.envelope import work_topic
from dueledger.ledger.runtime.service import Stop

from .programs import SERVER_DOWN
from .short_times import PARTITIONS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from .site import Site

SAMPLE_SECONDS: Final = 1.0
SHOWN_PARTITIONS: Final = 3
COUNTS: Final = """
select
  (select count(*) from ledger.transition where at >= clock_timestamp() - interval '1 s'
    and event in (5, 11, 12, 13, 14)) as ended,
  (select count(*) from ledger.pending where available_at <= ledger.now()) as due,
  (select count(*) from ledger.pending where available_at <= ledger.now() and batch_max is not null)
    as suspects,
  (select count(*) from ledger.pending where batch_max = 1) as alone,
  (select count(*) from ledger.pending where available_at = 'infinity') as blocked,
  (select coalesce(sum(size - started), 0) from ledger.claim where closed_at is null) as queued,
  (select count(*) from ledger.claim where closed_at >= clock_timestamp() - interval '1 s'
    and started < size) as lapsed_claims,
  (select count(*) from ledger.run where closed_at is null) as runs,
  (select count(*) from ledger.open_item where state = 3) as running,
  (select coalesce(sum(items), 0) from ledger.credit where granted_until > ledger.machine_now())
    as credit
"""
QUEUED: Final = """
select c.topic, c.partition, sum(c.size - c.started) as queued,
  extract(epoch from clock_timestamp() - min(c.claimed_at))::numeric(6, 1) as oldest_seconds
from ledger.claim c where c.closed_at is null and c.started < c.size
group by 1, 2 order by 3 desc limit 3
"""


DUE: Final = """
select k.name, count(*) as due,
  extract(epoch from ledger.now() - min(p.available_at))::numeric(6, 1) as oldest_seconds
from ledger.pending p join ledger.flow f using (flow_no) join ledger.kind k using (kind_no)
where p.available_at <= ledger.now()
group by 1 order by 2 desc limit 3
"""


class WaitingWork:
    """What was seen, a line a second."""

    def __init__(self, site: Site, note: Callable[[str], None]) -> None:
        self._site = site
        self._note = note

    @asynccontextmanager
    async def sampled(self) -> AsyncGenerator[None]:
        """Sample for the length of the block."""
        stop = Stop()
        async with _lag_reader(self._site) as read_lag:
            sampling = asyncio.create_task(self._sample(stop, read_lag))
            try:
                yield
            finally:
                stop.request()
                await sampling

    async def _sample(self, stop: Stop, read_lag: Callable[[], Awaitable[str]]) -> None:
        while not stop.is_requested:
            with suppress(*SERVER_DOWN, KafkaError):
                async with self._site.connected() as connection:
                    row = await connection.fetchrow(COUNTS)
                    queued = await connection.fetch(QUEUED)
                    due = await connection.fetch(DUE)
                assert row is not None
                counts = " ".join(f"{name}={count}" for name, count in row.items())
                claims = " ".join(
                    f"{each['topic']}/{each['partition']}:{each['queued']}"
                    f"@{each['oldest_seconds']}s"
                    for each in queued
                )
                flows = " ".join(
                    f"{each['name']}:{each['due']}@{each['oldest_seconds']}s" for each in due
                )
                self._note(f"{counts} | due {flows} | claims {claims} | unread {await read_lag()}")
            await stop.wait(SAMPLE_SECONDS)


@asynccontextmanager
async def _lag_reader(site: Site) -> AsyncGenerator[Callable[[], Awaitable[str]]]:
    """Read how much lies in the partitions above the offsets that workers have committed."""
    places = [
        TopicPartition(work_topic(kind), number)
        for kind in site.kinds.keys() - site.direct_kinds
        for number in range(PARTITIONS)
    ]
    if not places:

        async def nothing() -> str:
            return "-"

        yield nothing
        return
    admin = AIOKafkaAdminClient(bootstrap_servers=site.bootstrap_servers)
    await admin.start()
    try:
        async with AIOKafkaConsumer(bootstrap_servers=site.bootstrap_servers) as consumer:
            consumer.assign(places)

            async def read() -> str:
                ends = await consumer.end_offsets(places)
                committed = await admin.list_consumer_group_offsets(site.group)
                lags = {
                    place: end - max(committed[place].offset if place in committed else 0, 0)
                    for place, end in ends.items()
                }
                worst = sorted(lags, key=lambda place: -lags[place])[:SHOWN_PARTITIONS]
                shown = " ".join(
                    f"{place.topic}/{place.partition}:{lags[place]}" for place in worst
                )
                return f"{sum(lags.values())}: {shown}"

            yield read
    finally:
        await admin.close()
