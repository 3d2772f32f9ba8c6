"""What an allocator finds out now and then: what is due, what limits leave, what workers want."""

import asyncio
from time import monotonic
from typing import Final, final

from dueledger.allocator.publish import Publisher
from dueledger.allocator.state import AllocatorState
from dueledger.ledger.store import Connection
from dueledger.ledger.store.claims import list_due_flows
from dueledger.ledger.store.flow_limits import estimate_allowances

FLOWS_LISTED_MAX: Final = 20_000
HORIZON_SECONDS: Final = 5.0
"""What is due so soon is known ahead, though the next list be late."""
POLL_TIME_DIVISOR: Final = 30
"""Listing may use a thirtieth of the time, or a tenth where it takes long."""
POLL_TIME_DIVISOR_MIN: Final = 10
POLL_INTERVAL_SECONDS_MIN: Final = 0.003
POLL_INTERVAL_SECONDS_MAX: Final = 1.0
POLL_INTERVAL_BUSY_SECONDS: Final = 0.05
FLOWS_PER_YIELD: Final = 200
LIMIT_CHECKS_MAX: Final = 1000
LIMIT_CHECK_TIME_DIVISOR: Final = 20


@final
class DueFlowPoller:
    """Looks around, each sort of look within its share of the time."""

    def __init__(self, office: AllocatorState, publisher: Publisher) -> None:
        """Look for the allocator of this office; `publisher` has topics made."""
        self._office = office
        self._publisher = publisher
        self._poll_seconds = 0.0
        self._limits_poll_at = float("-inf")
        self._is_flooded = False
        self.polled_at = float("-inf")

    @property
    def next_poll_at(self) -> float:
        """When flows are listed next."""
        return self.polled_at + self.poll_interval_seconds

    @property
    def poll_interval_seconds(self) -> float:
        """How long after a list the next one is made."""
        pause = max(POLL_INTERVAL_SECONDS_MIN, POLL_TIME_DIVISOR * self._poll_seconds)
        if self._is_flooded:
            pause = max(POLL_INTERVAL_BUSY_SECONDS, pause)
        return max(
            min(pause, POLL_INTERVAL_SECONDS_MAX), POLL_TIME_DIVISOR_MIN * self._poll_seconds
        )

    @property
    def next_event_at(self) -> float:
        """When something that is known is to be done: rows fall due, limits or credit are read."""
        at = self._office.rotation.next_due_at()
        times = [float("inf") if at is None else at if at > 0 else self._limits_poll_at]
        wanted: set[str] = set()
        for gate in self._office.rotation.waiting_groups():
            if self._office.topics.is_suspended(gate.topic):
                times.append(self._office.topics.suspended_until(gate.topic))
            elif gate.needs_credit:
                wanted.add(gate.topic)
        if wanted:
            times.append(self._office.credits.next_read_at(wanted))
        return min(times)

    def invalidate(self) -> None:
        """List anew before anything else: what is known may be wrong."""
        self.polled_at = float("-inf")

    async def poll(self, connection: Connection, *, flooded: bool) -> None:
        """Find out what it is time for; fewer lists while a flood is drained.

        Raises Unavailable when something is due and Kafka cannot be reached.
        """
        self._is_flooded = flooded
        if monotonic() >= self.next_poll_at:
            await self._poll_due_flows(connection)
        if monotonic() >= self._limits_poll_at:
            await self._poll_limited_flows(connection)
        gates = self._office.rotation.waiting_groups()
        if not gates:
            return
        # Nobody can grant credit for a topic before it is there.
        topics = self._office.topics
        await topics.make_missing(self._publisher, {gate.topic for gate in gates})
        wanted = {
            gate.topic
            for gate in gates
            if gate.needs_credit and not topics.is_suspended(gate.topic)
        }
        if wanted and self._office.credits.needs_read(wanted, now=monotonic()):
            await self._office.credits.read(connection, wanted)

    async def _poll_due_flows(self, connection: Connection) -> None:
        began = monotonic()
        horizon = max(HORIZON_SECONDS, 2 * self.poll_interval_seconds)
        flows = await list_due_flows(connection, FLOWS_LISTED_MAX, horizon_seconds=horizon)
        self._poll_seconds = monotonic() - began
        for start in range(0, len(flows), FLOWS_PER_YIELD):
            self._office.rotation.update(flows[start : start + FLOWS_PER_YIELD], asked_at=began)
            await asyncio.sleep(0)  # ten thousand take 30 ms: claims go on beside it
        self._office.rotation.remove_unlisted(asked_at=began)
        self.polled_at = monotonic()

    async def _poll_limited_flows(self, connection: Connection) -> None:
        """Look whether limits leave something to flows that they held: many, so without locks."""
        began = monotonic()
        flow_nos = self._office.rotation.limit_checks_due(LIMIT_CHECKS_MAX, now=began)
        if not flow_nos:
            return
        window = self._office.settings.allocator_topic_window_items
        allowances = await estimate_allowances(connection, flow_nos, window)
        now = monotonic()
        self._office.rotation.apply_allowances(flow_nos, allowances, now=now)
        self._limits_poll_at = now + LIMIT_CHECK_TIME_DIVISOR * (now - began)
