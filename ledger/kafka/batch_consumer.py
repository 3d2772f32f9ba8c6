"""A member of a consumer group that returns record batches as fetched, not single records.

aiokafka's consumer is the member: subscription, assignment, heartbeats, committed offsets. It
fetches nothing, because its partitions are paused as they are assigned; a fetcher does.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Final, final

from aiokafka import (
    AIOKafkaClient,
    AIOKafkaConsumer,
    ConsumerRebalanceListener,
    TopicPartition,
)

from dueledger.ledger.kafka.fetcher import REQUEST_SECONDS, Fetcher, FetchLimits

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from dueledger.ledger.kafka.client_arguments import ClientArguments, MemberArguments
    from dueledger.ledger.kafka.fetch_position import FetchPosition
    from dueledger.ledger.kafka.record_batches import FetchedBatch

_WAKE_MILLISECONDS: Final = 1_000
"""The member's own fetcher wakes so often, and finds every partition paused."""
_NO_PARTITION: Final = TopicPartition("", 0)
"""Never assigned. Polling it returns no records."""
_DEFAULT_LIMITS: Final = FetchLimits()


@final
class BatchConsumer(ConsumerRebalanceListener):
    """Reads topics as one member of a group, each partition from its committed offset on.

    Only `commit` moves the offsets of the group.
    """

    def __init__(
        self,
        client: ClientArguments,
        member: MemberArguments,
        *,
        client_id: str,
        limits: FetchLimits = _DEFAULT_LIMITS,
    ) -> None:
        self._member = AIOKafkaConsumer(
            **client, **member, client_id=client_id, consumer_timeout_ms=_WAKE_MILLISECONDS
        )
        connections = AIOKafkaClient(
            **client, client_id=client_id, request_timeout_ms=REQUEST_SECONDS * 1000
        )
        self._fetcher = Fetcher(connections, self._member, limits)

    def subscribe(
        self,
        topics: Collection[str] = (),
        *,
        pattern: str | None = None,
        revoked: Callable[[Collection[TopicPartition]], Awaitable[None]] | None = None,
    ) -> None:
        """Read these topics or those of a pattern, and no others, from the next assignment on.

        `revoked` is awaited while the partitions are still assigned to this member.
        """
        self._fetcher.revoke()
        self._revoked = revoked
        self._member.subscribe(sorted(topics), pattern, listener=self)

    async def start(self) -> None:
        """Connect, and join the group. Raises KafkaError."""
        await self._fetcher.start()
        await self._member.start()

    async def stop(self) -> None:
        """Leave the group and end all requests."""
        closing = asyncio.ensure_future(self._fetcher.aclose())
        try:
            await self._member.stop()
        finally:
            await closing

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Drop what was fetched: the next member begins at the committed offset."""
        self._fetcher.revoke()
        if self._revoked is not None:
            await self._revoked(revoked)

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Fetch them, and let the member not do so. It has asked for no record yet."""
        self._member.pause(*assigned)
        self._fetcher.assign(assigned)

    def assignment(self) -> Collection[TopicPartition]:
        """Return the partitions that are assigned to this member."""
        return self._member.assignment()

    def positions(self) -> dict[TopicPartition, FetchPosition]:
        """Return the position in each partition of the last assignment. It makes no request."""
        return self._fetcher.positions()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at this offset, if the partition is still assigned."""
        self._fetcher.seek(partition, offset)

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets. Raises KafkaError, CommitFailedError after a rebalance."""
        await self._member.commit(offsets)

    async def getbatches(
        self,
        *,
        timeout_ms: int,
        records_max: int,
        without: Collection[TopicPartition] = (),
    ) -> dict[TopicPartition, list[FetchedBatch]]:
        """Return fetched batches, with at least one if any arrives within `timeout_ms`.

        Reads no partition of those `without`. Stops at `records_max` records, at
        `TOGETHER_BYTES_MAX` decompressed bytes, or when nothing more is fetched. The last batch may
        exceed both limits. A call that raises, or is cancelled, has moved no position. Waits
        for the end of a rebalance.
        """
        # Raises the errors of the group. A member that is not polled leaves it after 300 s.
        await self._member.getmany(_NO_PARTITION)
        until = monotonic() + timeout_ms / 1000
        while not (found := self._fetcher.read(records_max=records_max, without=without)):
            seconds = until - monotonic()
            if seconds <= 0:
                break
            await self._fetcher.wait(seconds)
        return found
