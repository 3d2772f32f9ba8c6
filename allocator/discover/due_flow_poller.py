"""The poller of due flows, of the allowances of limited flows, and of credit."""

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import Final, final

from dueledger.allocator.admission_group import AdmissionGroup
from dueledger.allocator.discover.credit_accounts import CreditAccounts
from dueledger.allocator.discover.topic_directory import TopicDirectory
from dueledger.allocator.publish import Publisher
from dueledger.ledger.flows.queue import FlowQueue
from dueledger.ledger.sleep import PollDuration
from dueledger.ledger.store import Connection
from dueledger.ledger.store.claims import list_due_flows
from dueledger.ledger.store.flow_limits import estimate_allowances

FLOWS_LISTED_MAX: Final = 20_000
HORIZON_SECONDS: Final = 5.0
"""Rows due within this time are listed ahead, in case the next poll is late."""
POLL_TIME_DIVISOR: Final = 30
"""Listing may use a thirtieth of the time, or a tenth if one takes long."""
POLL_TIME_DIVISOR_MIN: Final = 10
FLOW_SECONDS: Final = 0.000_004
"""A list takes so long for each flow at least, whatever the lists of fewer flows before it took."""
POLL_INTERVAL_SECONDS_MIN: Final = 0.003
POLL_INTERVAL_SECONDS_MAX: Final = 1.0
POLL_INTERVAL_BUSY_SECONDS: Final = 0.05
POLL_INTERVAL_NOTIFIED_SECONDS: Final = 0.25
"""Between lists while each item that may be claimed earlier is announced."""
FLOWS_PER_YIELD: Final = 200
KNOWN_READY_MIN: Final = 500
"""So many flows that are queued are left out of a list: each of them takes 6 microseconds."""
WHOLE_LIST_SECONDS: Final = 5.0
"""So often a list leaves out none: terms may have changed, and rows may have committed late."""
LIMIT_CHECKS_MAX: Final = 1000
LIMIT_CHECK_TIME_DIVISOR: Final = 20


@final
class DueFlowPoller:
    """Polls the ledger. Each kind of poll may use a fixed part of the time."""

    def __init__(
        self,
        flow_queue: FlowQueue[AdmissionGroup],
        credit_accounts: CreditAccounts,
        topics: TopicDirectory,
        publisher: Publisher,
        *,
        topic_window_items: int,
    ) -> None:
        """Poll for one allocator. `publisher` makes the topics that are missing."""
        self._flow_queue = flow_queue
        self._credits = credit_accounts
        self._topics = topics
        self._publisher = publisher
        self._topic_window_items = topic_window_items
        self._duration = PollDuration()
        self._listed = 0
        self._limits_poll_at = float("-inf")
        self._heavy_active = self._is_notified = False
        self.polled_at = float("-inf")
        self._is_invalid = False
        self._listed_whole_at = float("-inf")

    @property
    def poll_seconds(self) -> float:
        """How long it takes to list due flows."""
        return max(self._duration.seconds, FLOW_SECONDS * self._listed)

    @property
    def next_poll_at(self) -> float:
        """When due flows are listed next."""
        return self.polled_at + self.poll_interval_seconds

    @property
    def poll_interval_seconds(self) -> float:
        """Seconds from one list of due flows to the next."""
        pause = max(POLL_INTERVAL_SECONDS_MIN, POLL_TIME_DIVISOR * self.poll_seconds)
        if self._heavy_active:
            pause = max(POLL_INTERVAL_BUSY_SECONDS, pause)
        elif self._is_notified:
            pause = max(POLL_INTERVAL_NOTIFIED_SECONDS, pause)
        return max(min(pause, POLL_INTERVAL_SECONDS_MAX), POLL_TIME_DIVISOR_MIN * self.poll_seconds)

    @property
    def next_event_at(self) -> float:
        """When the next known work is due: rows, limit checks, credit, or a suspended topic."""
        limit_check_at = self._flow_queue.next_limit_check_at()
        times = [self._flow_queue.next_due_at(), max(limit_check_at, self._limits_poll_at)]
        wanted: set[str] = set()
        for group in self._flow_queue.waiting_groups():
            if self._topics.is_suspended(group.topic):
                times.append(self._topics.suspended_until(group.topic))
            elif group.needs_credit:
                wanted.add(group.topic)
        if wanted:
            times.append(self._credits.next_read_at(wanted))
        return min(times)

    def invalidate(self) -> None:
        """List due flows at the next poll: the queue may be wrong, also after a list that runs."""
        self.polled_at = self._listed_whole_at = float("-inf")
        self._is_invalid = True

    async def poll(self, connection: Connection, *, heavy_active: bool, is_notified: bool) -> None:
        """Run the polls that are due.

        Flows are listed less often while heavy ones are claimed, or while the process is notified.
        Raises Unavailable when items are due and Kafka cannot be reached.
        """
        self._heavy_active, self._is_notified = heavy_active, is_notified
        if monotonic() >= self.next_poll_at:
            await self._poll_due_flows(connection)
        if monotonic() >= self._limits_poll_at:
            await self._poll_limited_flows(connection)
        groups = self._flow_queue.waiting_groups()
        if not groups:
            return
        # No worker can grant credit for a topic that does not exist.
        await self._topics.make_missing(self._publisher, {group.topic for group in groups})
        wanted = {
            group.topic
            for group in groups
            if group.needs_credit and not self._topics.is_suspended(group.topic)
        }
        if wanted and self._credits.needs_read(wanted, now=monotonic()):
            await self._credits.read(connection, wanted)

    async def _poll_due_flows(self, connection: Connection) -> None:
        began = monotonic()
        self._is_invalid = False
        horizon = max(HORIZON_SECONDS, 2 * self.poll_interval_seconds)
        known = self._known_ready(began)
        flows = await list_due_flows(
            connection, FLOWS_LISTED_MAX, horizon_seconds=horizon, without=known
        )
        self._duration.add(monotonic() - began)
        self._listed = len(known) + len(flows)
        for start in range(0, len(flows), FLOWS_PER_YIELD):
            self._flow_queue.update(flows[start : start + FLOWS_PER_YIELD], asked_at=began)
            await asyncio.sleep(0)  # 10,000 flows take 30 ms: claims go on meanwhile
        self._flow_queue.remove_unlisted(asked_at=began)
        if not self._is_invalid:
            self.polled_at = monotonic()
            if not known:
                self._listed_whole_at = began

    def _known_ready(self, now: float) -> Sequence[int]:
        if now >= self._listed_whole_at + WHOLE_LIST_SECONDS:
            return ()
        return self._flow_queue.known_ready(KNOWN_READY_MIN, asked_at=now)

    async def _poll_limited_flows(self, connection: Connection) -> None:
        """Estimate the allowances of limited flows, without locks since they may be many."""
        began = monotonic()
        flow_nos = self._flow_queue.limit_checks_due(LIMIT_CHECKS_MAX, now=began)
        if not flow_nos:
            return
        allowances = await estimate_allowances(connection, flow_nos, self._topic_window_items)
        now = monotonic()
        self._flow_queue.apply_allowances(flow_nos, allowances, now=now)
        self._limits_poll_at = now + LIMIT_CHECK_TIME_DIVISOR * (now - began)
