"""One pass of an allocator: take back what was lost, claim what is due, publish, mark."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Mapping
from time import monotonic
from typing import Final, final

from dueledger.allocator.choose.flow_queue import FlowQueue
from dueledger.allocator.choose.shares import FlowLoad
from dueledger.allocator.claim.claim_loop import ClaimLoop
from dueledger.allocator.claim.concurrent_claims import ConcurrentClaims
from dueledger.allocator.discover.credit_accounts import CreditAccounts
from dueledger.allocator.discover.due_flow_poller import DueFlowPoller
from dueledger.allocator.discover.topics import TopicDirectory
from dueledger.allocator.mark.delivery_buffer import DeliveryBuffer
from dueledger.allocator.publish import Publisher
from dueledger.allocator.settings import AllocatorSettings
from dueledger.allocator.state import AllocatorState
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import Signals, Stop
from dueledger.ledger.store import CONNECTION_LOST, Pool
from dueledger.ledger.upkeep import Upkeep

_COUNTS: Final = ("claimed", "published", "released", "reaped_runs", "reaped_claims", "withdrawn")
_STEPS_PER_CLAIM: Final = 10
_WAIT_SECONDS_MAX: Final = 0.25
_IDLE_FIRST_SECONDS: Final = 0.002
_IDLE_DOUBLINGS_MAX: Final = 12


@final
class Allocator:
    """Claims due items and publishes them. Any number of allocators may run beside each other."""

    def __init__(
        self,
        pool: Pool,
        publishers: Mapping[FlowLoad, Publisher],
        settings: AllocatorSettings,
        *,
        allocator_no: int,
        stop: Stop,
        signals: Signals | None = None,
    ) -> None:
        self._pool = pool
        self._settings = settings
        self._stop = stop
        self._log = get_logger("allocator")
        self._sends = DeliveryBuffer(pool, allocator_no)
        self._state = AllocatorState(
            allocator_no=allocator_no,
            settings=settings,
            rotation=FlowQueue(),
            credits=CreditAccounts(),
            topics=TopicDirectory(settings.allocator_topic_suspend_seconds),
            sends=self._sends,
            stop=stop,
            signals=signals or Signals(),
        )
        self._poller = DueFlowPoller(self._state, publishers[FlowLoad.LIGHT])
        self._light, self._heavy = (
            ClaimLoop(load, self._state, publishers[load]) for load in FlowLoad
        )
        self._heavy_task: asyncio.Task[None] | None = None
        self._upkeep = Upkeep(
            pool,
            actor_no=allocator_no,
            seconds=settings.allocator_reap_seconds,
            role="allocator",
            limit=settings.allocator_reap_runs_max,
        )
        self._idle_passes = 0

    async def tick(self) -> Counter[str]:
        """Keep up, then serve what is due; everything it claimed has been sent.

        Counts items: claimed, published (acknowledged and marked), released, withdrawn,
        reaped_claims, unblocked; and runs: reaped_runs. Raises Unavailable when items are due and
        Kafka cannot be reached: nothing is claimed then.
        """
        counts: Counter[str] = Counter(dict.fromkeys(_COUNTS, 0))
        counts.update(await self.run_upkeep())
        counts.update(await self.serve())
        return counts

    async def run_upkeep(self) -> Counter[str]:
        """Take back what was lost, and what else an upkeep does, once."""
        counts = await self._upkeep.tick()
        if any(counts.values()):
            self._poller.invalidate()
        return counts

    async def serve(self) -> Counter[str]:
        """Claim and publish until nothing is due, or for a bounded number of steps."""
        counts: Counter[str] = Counter()
        try:
            await self._sends.write(counts)
            await self._serve(counts)
        except BaseException:
            self._poller.invalidate()
            raise
        if any(counts.values()):
            self._idle_passes = 0
            self._log.debug(LogEvent.TICK_COMPLETED, **counts)
        return counts

    async def upkeep_seconds(self) -> float:
        """Say how long until the next upkeep."""
        return self._upkeep.pause_seconds()

    async def idle_seconds(self) -> float:
        """Say how long to pause after a pass that did nothing.

        Until what is known to be due next; but looks follow at growing distances, so that items
        emitted for at once are found soon after others were.
        """
        self._idle_passes = min(self._idle_passes + 1, _IDLE_DOUBLINGS_MAX)
        now = monotonic()
        growing = max(
            _IDLE_FIRST_SECONDS * 2**self._idle_passes, self._poller.poll_interval_seconds
        )
        look = now + min(self._settings.allocator_idle_seconds, growing)
        return max(0.0, min(look, self._poller.next_event_at) - now)

    async def drain(self) -> None:
        """Write down what is known of finished sends; the process may end after this."""
        try:
            await self._sends.write(Counter())
        except CONNECTION_LOST as error:
            self._log.warning(LogEvent.CLAIM_MARK_POSTPONED, error=type(error).__name__)

    async def _serve(self, counts: Counter[str]) -> None:
        self._state.credits.expire()
        began, steps = monotonic(), _STEPS_PER_CLAIM * self._settings.allocator_claims_max
        try:
            async with (
                self._pool.acquire() as connection,
                ConcurrentClaims(self._pool, self._light) as hands,
            ):
                # A flood that is being drained goes on to its end, and so do the others beside it.
                while steps > 0 or self._heavy_task is not None:
                    steps -= 1
                    await self._poller.poll(connection, flooded=self._heavy_task is not None)
                    if self._stop.is_requested:
                        break
                    if self._heavy_task is None and self._heavy.has_turn():
                        self._heavy_task = asyncio.create_task(self._claim_heavy(counts))
                    if not await self._step(hands, counts, began):
                        break
        finally:
            flood, self._heavy_task = self._heavy_task, None
            await _wait_for_all(*([flood] if flood else []), *self._light.publishing)
            await self._sends.wait_for_background()

    async def _step(self, hands: ConcurrentClaims, counts: Counter[str], began: float) -> bool:
        """Begin a light claim, or wait for one or for something due; false when all is done.

        Which is only known from a list made since the pass began.
        """
        flood = self._heavy_task
        at = min(self._poller.next_poll_at, self._poller.next_event_at)
        has_turn = self._light.has_turn()
        if has_turn:
            at = hands.next_start_at(flooded=flood is not None)
            if at <= monotonic():
                hands.start(counts)
                return True
        running = {*hands.busy, *self._light.publishing, *([flood] if flood else [])}
        pause = max(0.0, min(_WAIT_SECONDS_MAX, at - monotonic()))
        if running:
            await asyncio.wait(running, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            hands.raise_failures()
            if flood is not None and flood.done():
                self._heavy_task = None
                flood.result()
            return True
        if not has_turn and self._poller.polled_at >= began:
            return False
        await self._stop.wait(min(pause, max(0.0, self._poller.next_poll_at - monotonic())))
        return True

    async def _claim_heavy(self, counts: Counter[str]) -> None:
        """Claim for the flows that have much, a bounded number of rounds."""
        publishing = self._heavy.publishing
        try:
            async with self._pool.acquire() as connection:
                for _ in range(self._settings.allocator_claims_max):
                    if self._stop.is_requested or not await self._heavy.claim_once(
                        connection, counts
                    ):
                        break
                    if len(publishing) >= self._settings.allocator_publishing_max:
                        await asyncio.wait(publishing, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _wait_for_all(*publishing)


async def _wait_for_all(*work: Awaitable[None]) -> None:
    """Wait for all of it, then raise the first of what was raised."""
    for result in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
