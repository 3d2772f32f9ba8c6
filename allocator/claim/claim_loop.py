"""A track: claims for flows of one load, in rounds of its own, and publishes them apart.

A flow that has a million rows and one that has three never share a claim, a connection to Postgres
or one to Kafka. So what little is due is on its way while a flood is being claimed.
"""

import asyncio
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from time import monotonic
from typing import Final, final

from dueledger.allocator.choose.shares import AdmissionGroup, FlowLoad, FlowShare
from dueledger.allocator.claim.admission import admit_shares, spend_allowances
from dueledger.allocator.claim.claim_batches import ClaimBatch, ClaimBatchBuilder
from dueledger.allocator.publish import Delivery, Publisher, SendResult
from dueledger.allocator.state import AllocatorState
from dueledger.ledger.errors import UnseenPartition
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import crash_point
from dueledger.ledger.store import CONNECTION_LOST, Connection, Record
from dueledger.ledger.store.claims import (
    claim_items,
    claim_serial_items,
    find_next_due,
    next_fences,
    record_claims,
)

SERIAL_ITEMS_MAX: Final = 500
"""Serial rows looked at in one round: each that cannot be had is put behind its key."""
LIGHT_CLAIM_ITEMS: Final = 1000
LIGHT_CLAIM_FLOWS: Final = 200
HEAVY_SHARE_ITEMS: Final = 16
"""What a flow with much to do has at its turn, at least: each that is looked into costs."""
SMOOTHING_CLAIMS: Final = 16
HEAVY_CLAIM_DIVISOR: Final = 2
"""While others wait, a flood's claims are half as large: each keeps the loop for 2 to 5 ms."""
_FLOW_NO: Final = itemgetter(3)
_UNBOUNDED: Final = 2**31 - 1


@final
class ClaimLoop:
    """Claims in rounds and publishes behind them."""

    def __init__(self, load: FlowLoad, office: AllocatorState, publisher: Publisher) -> None:
        self._load = load
        self._state = office
        self._publisher = publisher
        self._batch_builder = ClaimBatchBuilder(
            office.allocator_no, publisher.new_batch, holders=office.topics.settling_actors
        )
        self._log = get_logger("allocator")
        self.publishing: set[asyncio.Task[None]] = set()
        self.claim_seconds = 0.0  # how long a round takes, smoothed

    def has_turn(self) -> bool:
        """Tell whether a flow of this load has something due and room for it."""
        return self._state.rotation.has_ready(self._load, self._capacity, now=monotonic())

    async def claim_once(self, connection: Connection, counts: Counter[str]) -> bool:
        """Claim a share for each flow whose turn it is, and publish behind it; false when none is.

        Several may be under way at once, each on a connection of its own. Raises Unavailable when
        Kafka cannot be reached: nothing is claimed then.
        """
        shares = self._next_shares()
        if not shares:
            return False
        began = monotonic()
        try:
            topics = {share.flow.topic for share in shares}
            partitions = await self._state.topics.partitions(self._publisher, topics)
            there = [share for share in shares if share.flow.topic in partitions]
            with self._reserved(there) as taken:
                batches = await self._claim_with_retry(connection, there, partitions, taken)
            if batches:
                crash_point("allocator.recorded")
                items = sum(taken.values())
                counts["claimed"] += items
                self._state.signals.emit("claim.recorded", items)
                self._publish_in_background(batches, counts)
            await self._requeue_flows(connection, there, taken)
        finally:
            self._state.rotation.return_unserved(shares)
        self.claim_seconds += (monotonic() - began - self.claim_seconds) / SMOOTHING_CLAIMS
        return True

    def _next_shares(self) -> list[FlowShare]:
        rotation, settings = self._state.rotation, self._state.settings
        items, flows = settings.allocator_batch_items_max, settings.allocator_flows_max
        if self._load is FlowLoad.LIGHT:
            items, flows = min(items, LIGHT_CLAIM_ITEMS), min(flows, LIGHT_CLAIM_FLOWS)
        else:
            if rotation.has_active(FlowLoad.LIGHT):
                items = max(1, items // HEAVY_CLAIM_DIVISOR)
            flows = min(flows, max(1, items // HEAVY_SHARE_ITEMS))
        return rotation.next_shares(self._load, items, flows, self._capacity, now=monotonic())

    def _capacity(self, gate: AdmissionGroup) -> int:
        if self._state.topics.is_suspended(gate.topic):
            return 0
        return (
            self._state.credits.available(gate.topic, self._load)
            if gate.needs_credit
            else _UNBOUNDED
        )

    @contextmanager
    def _reserved(self, shares: Sequence[FlowShare]) -> Generator[Counter[int]]:
        """Hold credit back for shares; what is in the counter at the end, by flow, is spent."""
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

    async def _claim_with_retry(
        self,
        connection: Connection,
        shares: Sequence[FlowShare],
        partitions: Mapping[str, int],
        taken: Counter[int],
    ) -> list[ClaimBatch]:
        """Claim; where a partition of an item was unseen, each flow once more by itself.

        One that is refused again waits a moment: where it has a row without an item, which only a
        hand in the database leaves, it must not hold up the others.
        """
        try:
            return await self._claim(connection, shares, partitions, taken)
        except UnseenPartition:
            batches: list[ClaimBatch] = []
            for share in shares:
                try:
                    batches += await self._claim(connection, [share], partitions, taken)
                except UnseenPartition as error:
                    self._log.warning(
                        LogEvent.CLAIM_REFUSED, flow_no=share.flow.flow_no, message=error.message
                    )
                    self._state.rotation.defer_limited([share.flow.flow_no], {}, now=monotonic())
                except CONNECTION_LOST:
                    self._state.sends.add_unsent([batch.fence for batch in batches])
                    raise
            return batches

    async def _claim(
        self,
        connection: Connection,
        shares: Sequence[FlowShare],
        partitions: Mapping[str, int],
        taken: Counter[int],
    ) -> list[ClaimBatch]:
        """Take rows and record their claims; count by flow what was taken."""
        batches: list[ClaimBatch] = []
        held = {share.flow.topic for share in shares if share.flow.settled_by_topic}
        await self._state.topics.register_settling_actors(connection, held)
        try:
            async with connection.transaction():
                window = self._state.settings.allocator_topic_window_items
                admission = await admit_shares(connection, shares, window)
                rows = await self._take(connection, admission.shares)
                taken.update(map(_FLOW_NO, rows))
                if rows:
                    crash_point("allocator.claimed")
                    await spend_allowances(connection, admission, taken)
                    flows = {share.flow.flow_no: share.flow for share in admission.shares}
                    batches = await self._batch_builder.build(
                        rows, flows, partitions, lambda count: next_fences(connection, count)
                    )
                    await record_claims(connection, [batch.claim for batch in batches])
        except CONNECTION_LOST:
            # Whether the commit happened is unknown; that nothing was published is certain.
            self._state.sends.add_unsent([batch.fence for batch in batches])
            raise
        self._state.rotation.defer_limited(admission.exhausted_flows(taken), {}, now=monotonic())
        return batches

    async def _requeue_flows(
        self, connection: Connection, shares: Sequence[FlowShare], taken: Mapping[int, int]
    ) -> None:
        """Queue flows that have more, and find out when the others have rows again.

        Behind the commit, when what was claimed is on its way already.
        """
        rotation = self._state.rotation
        questions = rotation.requeue(shares, taken, now=monotonic())
        if not questions:
            return
        asked_at = monotonic()
        answers = await find_next_due(connection, *zip(*questions, strict=True))
        rotation.update_next_due(questions, answers, asked_at=asked_at)

    async def _take(self, connection: Connection, shares: Sequence[FlowShare]) -> list[Record]:
        """Take rows: serial ones first, of which few may be had, then the others."""
        rows: list[Record] = []
        left = {share.flow.flow_no: share.quota for share in shares}
        serial = [share for share in shares if share.flow.has_serial]
        if serial:
            rows = await claim_serial_items(
                connection,
                [share.flow.flow_no for share in serial],
                _serial_quotas(serial),
                self._state.allocator_no,
                floors=[share.floor for share in serial],
                measured=[share.flow.is_limited for share in serial],
                with_fences=not any(share.flow.has_plain for share in shares),
            )
            for flow_no, items in Counter(map(_FLOW_NO, rows)).items():
                left[flow_no] -= items
        plain = [share for share in shares if share.flow.has_plain and left[share.flow.flow_no] > 0]
        if plain:
            rows += await claim_items(
                connection,
                [share.flow.flow_no for share in plain],
                [left[share.flow.flow_no] for share in plain],
                [share.floor for share in plain],
                [share.flow.is_limited for share in plain],
                with_fences=self._load is FlowLoad.LIGHT,
            )
        return rows

    def _publish_in_background(self, batches: Sequence[ClaimBatch], counts: Counter[str]) -> None:
        task = asyncio.create_task(self._publish(batches, counts))
        self.publishing.add(task)
        task.add_done_callback(self.publishing.discard)

    async def _publish(self, batches: Sequence[ClaimBatch], counts: Counter[str]) -> None:
        deliveries = await self._publisher.publish(batches)
        crash_point("allocator.published")
        for batch, delivery in zip(batches, deliveries, strict=True):
            self._record_delivery(delivery, len(batch.claim.item_nos))
        self._state.sends.write_in_background(counts)
        self._state.signals.emit("claim.published", deliveries)

    def _record_delivery(self, delivery: Delivery, items: int) -> None:
        sends = self._state.sends
        if delivery.outcome is SendResult.ACKNOWLEDGED and delivery.base_offset is not None:
            sends.add_acknowledged(delivery.fence, delivery.base_offset, items)
            return
        event = LogEvent.CLAIM_AMBIGUOUS
        if delivery.outcome is SendResult.NEVER_LEFT:
            event = LogEvent.CLAIM_NOT_SENT
            sends.add_unsent([delivery.fence])
            self._state.topics.suspend(delivery.topic)
        self._log.warning(
            event,
            fence=delivery.fence,
            topic=delivery.topic,
            items=items,
            reason=delivery.reason,
        )


def _serial_quotas(shares: Sequence[FlowShare]) -> list[int]:
    """Bound what is looked at in one statement; where a flow has both sorts, each has its half."""
    most = max(1, SERIAL_ITEMS_MAX // len(shares))
    return [
        min(most, -(-share.quota // 2) if share.flow.has_plain else share.quota) for share in shares
    ]
