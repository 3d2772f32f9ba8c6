"""The claim loop of one load, light or heavy: claims items and publishes the claims.

A flow with a million rows and a flow with three never share a claim, a connection to Postgres or a
connection to Kafka. So items of light flows are sent while a heavy flow is being claimed.
"""

import asyncio
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Final, final

from dueledger.allocator.admission_group import AdmissionGroup
from dueledger.allocator.choose.topic_shares import next_topic_shares, with_spare
from dueledger.allocator.claim.claim_batches import ClaimBatch, ClaimBatchBuilder
from dueledger.allocator.claim.item_claimer import ItemClaimer
from dueledger.allocator.publish import Delivery, Publisher, SendResult
from dueledger.allocator.state import AllocatorState
from dueledger.ledger.flows.shares import FlowLoad, FlowShare, ScannedFlows, reached_shares
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import crash_point
from dueledger.ledger.store import Connection
from dueledger.ledger.store.claims import Claim, find_next_due

LIGHT_CLAIM_ITEMS: Final = 1000
LIGHT_CLAIM_FLOWS: Final = 200
HEAVY_SHARE_ITEMS: Final = 16
"""The least items of a heavy flow's share: each flow in a claim costs an index scan."""
KNOWN_YIELD: Final = 0.8
"""A claim expects of each flow this share of what those of the last full claim had."""
LIGHT_FLOWS_MANY: Final = 1000
"""If so many light flows wait, their claims are as large as those of heavy flows."""
SMOOTHING_CLAIMS: Final = 16
HEAVY_CLAIM_DIVISOR: Final = 2
"""While light flows wait, heavy claims are half as large: a claim blocks the loop for 2 to 5 ms."""
PUBLISHING_MAX: Final = 8
"""While so many claims of light flows are on their way to Kafka, none is made."""
_UNBOUNDED: Final = 2**31 - 1


@final
class ClaimLoop:
    """Makes claims for flows of one load, and publishes them in the background."""

    def __init__(self, load: FlowLoad, state: AllocatorState, publisher: Publisher) -> None:
        self._load = load
        self._state = state
        self._publisher = publisher
        self._claimer = ItemClaimer(
            load,
            ClaimBatchBuilder(
                state.allocator_no,
                publisher.new_batch,
                settling_actors=state.topics.settling_actors,
            ),
            state.flow_queue,
            state.deliveries,
            allocator_no=state.allocator_no,
            topic_window_items=state.settings.allocator_topic_window_items,
            batch_bytes_max=state.settings.allocator_batch_bytes_max,
        )
        self._log = get_logger("allocator")
        self.publishing: set[asyncio.Task[None]] = set()
        self.claim_seconds = 0.0  # how long a claim takes, smoothed
        self._items_a_flow: float = HEAVY_SHARE_ITEMS

    def has_ready(self) -> bool:
        """Return whether a flow of this load has due items and capacity for them."""
        flow_queue = self._state.flow_queue
        flow_queue.move_due(monotonic())
        return any(self._capacity(group) > 0 for group in flow_queue.waiting_groups([self._load]))

    async def claim_once(self, connection: Connection, counts: Counter[str]) -> bool:
        """Claim a share of each flow that is next, as `claim` does. False without any."""
        shares = self.next_shares()
        if shares:
            await self.claim(connection, shares, counts)
        return bool(shares)

    async def claim(
        self, connection: Connection, shares: Sequence[FlowShare], counts: Counter[str]
    ) -> None:
        """Claim shares, and publish in the background.

        Several calls may run at once, each on its own connection. Raises Unavailable when Kafka
        cannot be reached: nothing is claimed then.
        """
        began = monotonic()
        scanned = ScannedFlows()
        try:
            topics = {share.flow.topic for share in shares}
            partitions = await self._state.topics.partitions(self._publisher, topics)
            available = [share for share in shares if share.flow.topic in partitions]
            if self._load is FlowLoad.HEAVY:
                available = with_spare(available)
            with self._reserved(available) as taken:
                await self._state.topics.register_settling_actors(
                    connection,
                    {share.flow.topic for share in available if share.flow.settled_by_topic},
                )
                batches = await self._claimer.claim(
                    connection, available, partitions, taken, scanned
                )
            if batches:
                crash_point("allocator.recorded")
                items = sum(taken.values())
                counts["claimed"] += items
                self._state.signals.emit("claim.recorded", items)
                self._publish_in_background(batches, counts)
            await self._requeue_flows(connection, available, taken, scanned)
        finally:
            self.return_unserved(shares)
        self.claim_seconds += (monotonic() - began - self.claim_seconds) / SMOOTHING_CLAIMS

    def return_unserved(self, shares: Sequence[FlowShare]) -> None:
        """Queue the flows again of which nothing was claimed."""
        self._state.flow_queue.return_unserved(shares)

    def next_shares(self) -> list[FlowShare]:
        """Take a share of each flow that is next out of the queue: `claim` them, or return them."""
        flow_queue, settings = self._state.flow_queue, self._state.settings
        items, flows = settings.allocator_batch_items_max, settings.allocator_flows_max
        if self._load is FlowLoad.LIGHT:
            if flow_queue.queued(FlowLoad.LIGHT) < LIGHT_FLOWS_MANY:
                items, flows = min(items, LIGHT_CLAIM_ITEMS), min(flows, LIGHT_CLAIM_FLOWS)
        else:
            if flow_queue.has_active(FlowLoad.LIGHT):
                items = max(1, items // HEAVY_CLAIM_DIVISOR)
            items = self._state.flood_pacer.items_of(items)
            flows = min(flows, max(1, int(items / self._items_a_flow)))
        flow_queue.move_due(monotonic())
        return next_topic_shares(flow_queue, self._load, items, flows, self._capacity)

    def _capacity(self, group: AdmissionGroup) -> int:
        if self._state.topics.is_suspended(group.topic):
            return 0
        return (
            self._state.credits.available(group.topic, self._load)
            if group.needs_credit
            else _UNBOUNDED
        )

    @contextmanager
    def _reserved(self, shares: Sequence[FlowShare]) -> Generator[Counter[int]]:
        """Reserve credit for shares; at the end, spend it for the items in the counter, by flow."""
        taken: Counter[int] = Counter()
        reserved: Counter[str] = Counter()
        for share in shares:
            if not share.flow.settled_by_topic:
                reserved[share.flow.topic] += share.quota
        for topic, items in reserved.items():
            self._state.credits.reserve(topic, items)
        try:
            yield taken
        finally:
            spent: Counter[str] = Counter()
            for share in shares:
                spent[share.flow.topic] += taken[share.flow.flow_no]
            for topic, items in reserved.items():
                self._state.credits.spend(topic, items, spent[topic])

    async def _requeue_flows(
        self,
        connection: Connection,
        shares: Sequence[FlowShare],
        taken: Mapping[int, int],
        scanned: ScannedFlows,
    ) -> None:
        """Queue flows that have more rows, and find out when the others have rows again.

        Runs after the commit, when the claims are being sent already.
        """
        flow_queue = self._state.flow_queue
        reached = reached_shares(shares, taken)
        items = sum(taken.values())
        is_full = items >= sum(share.quota for share in shares)
        yielded = KNOWN_YIELD * items / len(reached) if is_full and reached else 0
        self._items_a_flow = max(HEAVY_SHARE_ITEMS, yielded)
        queries = flow_queue.requeue_at_end(reached, taken, now=monotonic(), scanned=scanned)
        if not queries:
            return
        asked_at = monotonic()
        results = await find_next_due(connection, *zip(*queries, strict=True))
        flow_queue.update_next_due(queries, results, asked_at=asked_at)

    def _publish_in_background(self, batches: Sequence[ClaimBatch], counts: Counter[str]) -> None:
        task = asyncio.create_task(self._publish(batches, counts))
        self.publishing.add(task)
        task.add_done_callback(self._published)

    def _published(self, task: asyncio.Task[None]) -> None:
        """Wake the pass if it may have waited for this one; otherwise the marks will wake it."""
        self.publishing.discard(task)
        if len(self.publishing) >= PUBLISHING_MAX - 1 or not self._state.deliveries.writing:
            self._state.progress.set()

    async def _publish(self, batches: Sequence[ClaimBatch], counts: Counter[str]) -> None:
        deliveries = await self._publisher.publish(batches)
        crash_point("allocator.published")
        for batch, delivery in zip(batches, deliveries, strict=True):
            self._record_delivery(delivery, batch.claim)
        self._state.deliveries.write_in_background(counts)
        self._state.signals.emit("claim.published", deliveries)

    def _record_delivery(self, delivery: Delivery, claim: Claim) -> None:
        deliveries, items = self._state.deliveries, len(claim.item_nos)
        if delivery.outcome is SendResult.ACKNOWLEDGED and delivery.base_offset is not None:
            starts_run = claim.topic_actor_no is not None
            deliveries.add_acknowledged(
                claim.id, delivery.base_offset, items, starts_run=starts_run
            )
            return
        event = LogEvent.CLAIM_AMBIGUOUS
        if delivery.outcome is SendResult.NEVER_LEFT:
            event = LogEvent.CLAIM_NOT_SENT
            deliveries.add_unsent([claim.id])
            self._state.topics.suspend(delivery.topic, delivery.reason)
        self._log.warning(
            event,
            fence=delivery.fence,
            topic=delivery.topic,
            items=items,
            reason=delivery.reason,
        )
