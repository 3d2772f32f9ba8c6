"""One pass of an allocator: take back what was lost, claim what is due, publish, mark."""

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from operator import itemgetter
from time import monotonic
from typing import Final, final

from allocator.batches import BatchMaker, ClaimBatch
from allocator.publisher import Delivery, Outcome, Publisher
from allocator.rotation import Rotation, Share
from allocator.sends import Sends
from allocator.settings import AllocatorSettings
from ledger.log import LogEvent, get_logger
from ledger.service import Signals, Stop, crash_point
from ledger.store import CONNECTION_LOST, Pool, Record
from ledger.store.claims import (
    apply_withdrawals,
    claim_items,
    list_due_flows,
    next_fences,
    next_wake_seconds,
    reap_claims,
    reap_runs,
    record_claims,
)
from ledger.store.partitions import make_partitions

_COUNTS: Final = ("claimed", "published", "released", "reaped_runs", "reaped_claims", "withdrawn")
_FLOW_NO: Final = itemgetter(3)
_FLOWS_LISTED_MAX: Final = 20_000
_LIST_SECONDS: Final = 1.0
# Listing 10,000 flows takes 40–50 ms: it may use a tenth of the time. Less than this is free.
_LIST_CHEAP_SECONDS: Final = 0.01
_LIST_SHARE: Final = 10
_PARTITIONS_SECONDS: Final = 3600.0
_IDLE_FIRST_SECONDS: Final = 0.002
_IDLE_DOUBLINGS_MAX: Final = 12


@final
class Allocator:
    """Claims due items and publishes them. Any number of allocators may run beside each other."""

    def __init__(
        self,
        pool: Pool,
        publisher: Publisher,
        settings: AllocatorSettings,
        *,
        allocator_no: int,
        stop: Stop,
        signals: Signals | None = None,
    ) -> None:
        self._pool = pool
        self._publisher = publisher
        self._settings = settings
        self._allocator_no = allocator_no
        self._stop = stop
        self._signals = signals or Signals()
        self._log = get_logger("allocator")
        self._maker = BatchMaker(allocator_no, publisher.new_batch)
        self._rotation = Rotation()
        self._sends = Sends(pool, allocator_no)
        self._resting: dict[str, float] = {}
        self._listed_at = self._reap_at = self._partitions_at = float("-inf")
        self._list_seconds = 0.0
        self._idle_passes = 0

    async def tick(self) -> Counter[str]:
        """Do one bounded pass and return what it did; everything it claimed has been sent.

        Counts items: claimed, published (acknowledged and marked), released, withdrawn,
        reaped_claims; and runs: reaped_runs. Raises Unavailable when items are due and Kafka
        cannot be reached: nothing is claimed then.
        """
        counts: Counter[str] = Counter(dict.fromkeys(_COUNTS, 0))
        await self._sends.write(counts)
        await self._reap(counts)
        await self._list_due(patient=True)
        publishing: deque[asyncio.Task[None]] = deque()
        try:
            for _ in range(self._settings.allocator_rounds_max):
                batches = await self._claim(counts)
                if batches is None:
                    break
                if batches:
                    publishing.append(asyncio.create_task(self._publish(batches, counts)))
                if len(publishing) >= self._settings.allocator_publishing_max:
                    await publishing.popleft()
        finally:
            await asyncio.gather(*publishing)
        if any(counts.values()):
            self._idle_passes = 0
            self._log.debug(LogEvent.TICK_COMPLETED, **counts)
        return counts

    async def idle_seconds(self) -> float:
        """Say how long to pause after a pass that did nothing.

        Until the next item, deadline or lease; but looks follow at growing distances, so that
        items emitted for at once are found soon after others were.
        """
        async with self._pool.acquire() as connection:
            wake = await next_wake_seconds(connection)
        self._idle_passes = min(self._idle_passes + 1, _IDLE_DOUBLINGS_MAX)
        longest = self._settings.allocator_idle_seconds
        pause = min(longest, _IDLE_FIRST_SECONDS * 2**self._idle_passes)
        # What is due already could not be served: a topic rests, or another allocator has it.
        return pause if wake is None or wake <= 0 else min(pause, wake)

    async def drain(self) -> None:
        """Write down what is known of finished sends; the process may end after this."""
        try:
            await self._sends.write(Counter())
        except CONNECTION_LOST as error:
            self._log.warning(LogEvent.CLAIM_UNMARKED, error=type(error).__name__)

    async def _claim(self, counts: Counter[str]) -> list[ClaimBatch] | None:
        """Claim one round and record it; None when no flow has anything, or a stop was asked."""
        await self._list_due(patient=False)
        shares = self._rotation.next_shares(
            self._settings.allocator_batch_items_max, self._settings.allocator_flows_max
        )
        if not shares or self._stop.asked:
            return None
        partitions = await self._partitions(shares)
        shares = [
            share
            for share in shares
            if share.flow.topic in partitions and not self._rests(share.flow.topic)
        ]
        if not shares:
            return []
        batches: list[ClaimBatch] = []
        try:
            async with self._pool.acquire() as connection, connection.transaction():
                rows = await claim_items(
                    connection,
                    [share.flow.flow_no for share in shares],
                    [share.quota for share in shares],
                )
                if rows:
                    crash_point("allocator.claimed")
                    batches = await self._maker.make(
                        rows,
                        {share.flow.flow_no: share.flow for share in shares},
                        partitions,
                        lambda count: next_fences(connection, count),
                    )
                    await record_claims(connection, [batch.claim for batch in batches])
        except CONNECTION_LOST:
            # Whether the commit happened is unknown; that nothing was published is certain.
            self._sends.release([batch.fence for batch in batches])
            raise
        self._recorded(rows, shares, counts)
        return batches

    def _recorded(
        self, rows: Sequence[Record], shares: Sequence[Share], counts: Counter[str]
    ) -> None:
        if rows:
            crash_point("allocator.recorded")
            self._signals.emit("claim.recorded", len(rows))
        counts["claimed"] += len(rows)
        self._rotation.served(shares, Counter(map(_FLOW_NO, rows)))

    async def _publish(self, batches: Sequence[ClaimBatch], counts: Counter[str]) -> None:
        deliveries = await self._publisher.publish(batches)
        crash_point("allocator.published")
        for batch, delivery in zip(batches, deliveries, strict=True):
            self._note(delivery, len(batch.claim.item_nos))
        try:
            await self._sends.write(counts)
        except CONNECTION_LOST as error:
            # The next pass writes it before anything else; should this process die, deadlines act.
            self._log.warning(LogEvent.CLAIM_UNMARKED, error=type(error).__name__)
            return
        crash_point("allocator.marked")
        self._signals.emit("claim.published", deliveries)

    def _note(self, delivery: Delivery, items: int) -> None:
        if delivery.outcome is Outcome.ACKNOWLEDGED and delivery.base_offset is not None:
            self._sends.mark(delivery.fence, delivery.base_offset, items)
            return
        event = LogEvent.CLAIM_AMBIGUOUS
        if delivery.outcome is Outcome.NEVER_LEFT:
            event = LogEvent.CLAIM_UNSENT
            self._sends.release([delivery.fence])
            self._rest(delivery.topic)
        self._log.warning(
            event,
            fence=delivery.fence,
            topic=delivery.topic,
            items=items,
            reason=delivery.reason,
        )

    async def _list_due(self, *, patient: bool) -> None:
        """List the due flows once the list is old or used up, within its share of the time."""
        age = monotonic() - self._listed_at
        if self._rotation and age < _LIST_SECONDS:
            return
        expensive = self._list_seconds > _LIST_CHEAP_SECONDS
        early = min(_LIST_SECONDS, _LIST_SHARE * self._list_seconds) - age if expensive else 0.0
        if early > 0:
            if not patient:
                return
            await self._stop.wait(early)
        began = monotonic()
        async with self._pool.acquire() as connection:
            flows = await list_due_flows(connection, _FLOWS_LISTED_MAX)
        self._listed_at = monotonic()
        self._list_seconds = self._listed_at - began
        self._rotation.relist(flow for flow in flows if self._resting.get(flow.topic, 0.0) <= began)

    async def _partitions(self, shares: Sequence[Share]) -> dict[str, int]:
        topics = {share.flow.topic for share in shares}
        partitions = await self._publisher.partitions(topics)
        for topic in topics - partitions.keys():
            self._rest(topic)
            self._log.warning(
                LogEvent.TOPIC_REFUSED, topic=topic, reason=self._publisher.refused.get(topic)
            )
        return partitions

    def _rests(self, topic: str) -> bool:
        return self._resting.get(topic, 0.0) > monotonic()

    def _rest(self, topic: str) -> None:
        """Leave a topic alone for a while, or its items would go round without end."""
        self._resting[topic] = monotonic() + self._settings.allocator_rest_seconds

    async def _reap(self, counts: Counter[str]) -> None:
        began = monotonic()
        if began < self._reap_at:
            return
        limit = self._settings.allocator_reap_runs_max
        async with self._pool.acquire() as connection:
            if began >= self._partitions_at:
                await make_partitions(connection)
                self._partitions_at = began + _PARTITIONS_SECONDS
            runs = await reap_runs(connection, limit, self._allocator_no)
            counts["reaped_runs"] += runs.runs
            counts["reaped_claims"] += await reap_claims(connection, limit)
            counts["withdrawn"] += (await apply_withdrawals(connection, limit)).applied
        full = runs.runs == limit
        self._reap_at = began if full else began + self._settings.allocator_reap_seconds
        if runs.runs:
            self._log.warning(
                LogEvent.RUN_REAPED, runs=runs.runs, retried=runs.retried, parked=runs.parked
            )
