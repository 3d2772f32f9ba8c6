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

from dueledger.allocator.choose.shares import Gate, Load, Share
from dueledger.allocator.claim.admission import admit, spend
from dueledger.allocator.claim.claim_batches import BatchMaker, ClaimBatch
from dueledger.allocator.publish import Delivery, Outcome, Publisher
from dueledger.allocator.state import Office
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
LIGHT_ROUND_ITEMS: Final = 1000
LIGHT_ROUND_FLOWS: Final = 200
HEAVY_SHARE_ITEMS: Final = 16
"""What a flow with much to do has at its turn, at least: each that is looked into costs."""
SMOOTHING_ROUNDS: Final = 16
CROWDED: Final = 2
"""While others wait, a flood's claims are half as large: each keeps the loop for 2 to 5 ms."""
_FLOW_NO: Final = itemgetter(3)
_UNBOUNDED: Final = 2**31 - 1


@final
class Track:
    """Claims in rounds and publishes behind them."""

    def __init__(self, load: Load, office: Office, publisher: Publisher) -> None:
        self._load = load
        self._office = office
        self._publisher = publisher
        self._maker = BatchMaker(
            office.allocator_no, publisher.new_batch, holders=office.topics.holders
        )
        self._log = get_logger("allocator")
        self.publishing: set[asyncio.Task[None]] = set()
        self.round_seconds = 0.0  # how long a round takes, smoothed

    def has_turn(self) -> bool:
        """Tell whether a flow of this load has something due and room for it."""
        return self._office.rotation.has_turn(self._load, self._room, now=monotonic())

    async def round(self, connection: Connection, counts: Counter[str]) -> bool:
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
            partitions = await self._office.topics.partitions(self._publisher, topics)
            there = [share for share in shares if share.flow.topic in partitions]
            with self._reserved(there) as taken:
                batches = await self._claim_found(connection, there, partitions, taken)
            if batches:
                crash_point("allocator.recorded")
                items = sum(taken.values())
                counts["claimed"] += items
                self._office.signals.emit("claim.recorded", items)
                self._publish_behind(batches, counts)
            await self._turn_over(connection, there, taken)
        finally:
            self._office.rotation.give_back(shares)
        self.round_seconds += (monotonic() - began - self.round_seconds) / SMOOTHING_ROUNDS
        return True

    def _next_shares(self) -> list[Share]:
        rotation, settings = self._office.rotation, self._office.settings
        items, flows = settings.allocator_batch_items_max, settings.allocator_flows_max
        if self._load is Load.LIGHT:
            items, flows = min(items, LIGHT_ROUND_ITEMS), min(flows, LIGHT_ROUND_FLOWS)
        else:
            if rotation.knows(Load.LIGHT):
                items = max(1, items // CROWDED)
            flows = min(flows, max(1, items // HEAVY_SHARE_ITEMS))
        return rotation.next_shares(self._load, items, flows, self._room, now=monotonic())

    def _room(self, gate: Gate) -> int:
        if self._office.topics.rests(gate.topic):
            return 0
        return (
            self._office.credits.room(gate.topic, self._load) if gate.needs_credit else _UNBOUNDED
        )

    @contextmanager
    def _reserved(self, shares: Sequence[Share]) -> Generator[Counter[int]]:
        """Hold credit back for shares; what is in the counter at the end, by flow, is spent."""
        taken: Counter[int] = Counter()
        reserved: Counter[str] = Counter()
        for share in shares:
            if not share.flow.held_by_topic:
                reserved[share.flow.topic] += share.quota
        for topic, items in reserved.items():
            self._office.credits.reserve(topic, items)
        try:
            yield taken
        finally:
            spent: Counter[str] = Counter()
            for share in shares:
                spent[share.flow.topic] += taken[share.flow.flow_no]
            for topic, items in reserved.items():
                self._office.credits.spend(topic, items, spent[topic])

    async def _claim_found(
        self,
        connection: Connection,
        shares: Sequence[Share],
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
                    self._office.rotation.hold([share.flow.flow_no], {}, now=monotonic())
                except CONNECTION_LOST:
                    self._office.sends.release([batch.fence for batch in batches])
                    raise
            return batches

    async def _claim(
        self,
        connection: Connection,
        shares: Sequence[Share],
        partitions: Mapping[str, int],
        taken: Counter[int],
    ) -> list[ClaimBatch]:
        """Take rows and record their claims; count by flow what was taken."""
        batches: list[ClaimBatch] = []
        held = {share.flow.topic for share in shares if share.flow.held_by_topic}
        await self._office.topics.register(connection, held)
        try:
            async with connection.transaction():
                window = self._office.settings.allocator_topic_window_items
                admission = await admit(connection, shares, window)
                rows = await self._take(connection, admission.shares)
                taken.update(map(_FLOW_NO, rows))
                if rows:
                    crash_point("allocator.claimed")
                    await spend(connection, admission, taken)
                    flows = {share.flow.flow_no: share.flow for share in admission.shares}
                    batches = await self._maker.make(
                        rows, flows, partitions, lambda count: next_fences(connection, count)
                    )
                    await record_claims(connection, [batch.claim for batch in batches])
        except CONNECTION_LOST:
            # Whether the commit happened is unknown; that nothing was published is certain.
            self._office.sends.release([batch.fence for batch in batches])
            raise
        self._office.rotation.hold(admission.held(taken), {}, now=monotonic())
        return batches

    async def _turn_over(
        self, connection: Connection, shares: Sequence[Share], taken: Mapping[int, int]
    ) -> None:
        """Queue flows that have more, and find out when the others have rows again.

        Behind the commit, when what was claimed is on its way already.
        """
        rotation = self._office.rotation
        questions = rotation.served(shares, taken, now=monotonic())
        if not questions:
            return
        asked_at = monotonic()
        answers = await find_next_due(connection, *zip(*questions, strict=True))
        rotation.answered(questions, answers, asked_at=asked_at)

    async def _take(self, connection: Connection, shares: Sequence[Share]) -> list[Record]:
        """Take rows: serial ones first, of which few may be had, then the others."""
        rows: list[Record] = []
        left = {share.flow.flow_no: share.quota for share in shares}
        serial = [share for share in shares if share.flow.serial]
        if serial:
            rows = await claim_serial_items(
                connection,
                [share.flow.flow_no for share in serial],
                _serial_quotas(serial),
                self._office.allocator_no,
                floors=[share.floor for share in serial],
                measured=[share.flow.limited for share in serial],
                with_fences=not any(share.flow.plain for share in shares),
            )
            for flow_no, items in Counter(map(_FLOW_NO, rows)).items():
                left[flow_no] -= items
        plain = [share for share in shares if share.flow.plain and left[share.flow.flow_no] > 0]
        if plain:
            rows += await claim_items(
                connection,
                [share.flow.flow_no for share in plain],
                [left[share.flow.flow_no] for share in plain],
                [share.floor for share in plain],
                [share.flow.limited for share in plain],
                with_fences=self._load is Load.LIGHT,
            )
        return rows

    def _publish_behind(self, batches: Sequence[ClaimBatch], counts: Counter[str]) -> None:
        task = asyncio.create_task(self._publish(batches, counts))
        self.publishing.add(task)
        task.add_done_callback(self.publishing.discard)

    async def _publish(self, batches: Sequence[ClaimBatch], counts: Counter[str]) -> None:
        deliveries = await self._publisher.publish(batches)
        crash_point("allocator.published")
        for batch, delivery in zip(batches, deliveries, strict=True):
            self._note(delivery, len(batch.claim.item_nos))
        self._office.sends.write_soon(counts)
        self._office.signals.emit("claim.published", deliveries)

    def _note(self, delivery: Delivery, items: int) -> None:
        sends = self._office.sends
        if delivery.outcome is Outcome.ACKNOWLEDGED and delivery.base_offset is not None:
            sends.mark(delivery.fence, delivery.base_offset, items)
            return
        event = LogEvent.CLAIM_AMBIGUOUS
        if delivery.outcome is Outcome.NEVER_LEFT:
            event = LogEvent.CLAIM_UNSENT
            sends.release([delivery.fence])
            self._office.topics.rest(delivery.topic)
        self._log.warning(
            event,
            fence=delivery.fence,
            topic=delivery.topic,
            items=items,
            reason=delivery.reason,
        )


def _serial_quotas(shares: Sequence[Share]) -> list[int]:
    """Bound what is looked at in one statement; where a flow has both sorts, each has its half."""
    most = max(1, SERIAL_ITEMS_MAX // len(shares))
    return [
        min(most, -(-share.quota // 2) if share.flow.plain else share.quota) for share in shares
    ]
