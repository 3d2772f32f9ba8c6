"""What an allocator finds out now and then: what is due, what limits leave, what workers want."""

import asyncio
from time import monotonic
from typing import Final, final

from dueledger.allocator.publish import Publisher
from dueledger.allocator.state import Office
from dueledger.ledger.store import Connection
from dueledger.ledger.store.claims import list_due_flows
from dueledger.ledger.store.flow_limits import foresee_allowances

FLOWS_LISTED_MAX: Final = 20_000
HORIZON_SECONDS: Final = 5.0
"""What is due so soon is known ahead, though the next list be late."""
LIST_SHARE: Final = 30
"""Listing may use a thirtieth of the time, or a tenth where it takes long."""
LIST_SHARE_MOST: Final = 10
LIST_SECONDS_MIN: Final = 0.003
LIST_SECONDS_MAX: Final = 1.0
LIST_FLOOD_SECONDS: Final = 0.05
TURN_FLOWS: Final = 200
LOOKS_MAX: Final = 1000
LOOK_SHARE: Final = 20


@final
class Outlook:
    """Looks around, each sort of look within its share of the time."""

    def __init__(self, office: Office, publisher: Publisher) -> None:
        """Look for the allocator of this office; `publisher` has topics made."""
        self._office = office
        self._publisher = publisher
        self._list_seconds = 0.0
        self._look_at = float("-inf")
        self._is_flooded = False
        self.listed_at = float("-inf")

    @property
    def list_at(self) -> float:
        """When flows are listed next."""
        return self.listed_at + self.list_pause

    @property
    def list_pause(self) -> float:
        """How long after a list the next one is made."""
        pause = max(LIST_SECONDS_MIN, LIST_SHARE * self._list_seconds)
        if self._is_flooded:
            pause = max(LIST_FLOOD_SECONDS, pause)
        return max(min(pause, LIST_SECONDS_MAX), LIST_SHARE_MOST * self._list_seconds)

    @property
    def wake_at(self) -> float:
        """When something that is known is to be done: rows fall due, limits or credit are read."""
        at = self._office.rotation.wake_at()
        times = [float("inf") if at is None else at if at > 0 else self._look_at]
        wanted: set[str] = set()
        for gate in self._office.rotation.gates():
            if self._office.topics.rests(gate.topic):
                times.append(self._office.topics.rests_until(gate.topic))
            elif gate.needs_credit:
                wanted.add(gate.topic)
        if wanted:
            times.append(self._office.credits.read_at(wanted))
        return min(times)

    def forget(self) -> None:
        """List anew before anything else: what is known may be wrong."""
        self.listed_at = float("-inf")

    async def look(self, connection: Connection, *, flooded: bool) -> None:
        """Find out what it is time for; fewer lists while a flood is drained.

        Raises Unavailable when something is due and Kafka cannot be reached.
        """
        self._is_flooded = flooded
        if monotonic() >= self.list_at:
            await self._list(connection)
        if monotonic() >= self._look_at:
            await self._look_at_held(connection)
        gates = self._office.rotation.gates()
        if not gates:
            return
        # Nobody can grant credit for a topic before it is there.
        topics = self._office.topics
        await topics.make_missing(self._publisher, {gate.topic for gate in gates})
        wanted = {
            gate.topic for gate in gates if gate.needs_credit and not topics.rests(gate.topic)
        }
        if wanted and self._office.credits.asks(wanted, now=monotonic()):
            await self._office.credits.read(connection, wanted)

    async def _list(self, connection: Connection) -> None:
        began = monotonic()
        horizon = max(HORIZON_SECONDS, 2 * self.list_pause)
        flows = await list_due_flows(connection, FLOWS_LISTED_MAX, horizon_seconds=horizon)
        self._list_seconds = monotonic() - began
        for start in range(0, len(flows), TURN_FLOWS):
            self._office.rotation.learn(flows[start : start + TURN_FLOWS], asked_at=began)
            await asyncio.sleep(0)  # ten thousand take 30 ms: claims go on beside it
        self._office.rotation.forget_unlisted(asked_at=began)
        self.listed_at = monotonic()

    async def _look_at_held(self, connection: Connection) -> None:
        """Look whether limits leave something to flows that they held: many, so without locks."""
        began = monotonic()
        flow_nos = self._office.rotation.due_looks(LOOKS_MAX, now=began)
        if not flow_nos:
            return
        window = self._office.settings.allocator_topic_window_items
        allowances = await foresee_allowances(connection, flow_nos, window)
        now = monotonic()
        self._office.rotation.looked(flow_nos, allowances, now=now)
        self._look_at = now + LOOK_SHARE * (now - began)
