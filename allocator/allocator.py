"""One pass of an allocator: take back what was lost, claim what is due, publish, mark."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Mapping
from time import monotonic
from typing import Final, final

from dueledger.allocator.choose.flow_queue import Rotation
from dueledger.allocator.choose.shares import Load
from dueledger.allocator.claim.claim_loop import Track
from dueledger.allocator.claim.concurrent_claims import Hands
from dueledger.allocator.discover.credit_accounts import Credits
from dueledger.allocator.discover.due_flow_poller import Outlook
from dueledger.allocator.discover.topics import Topics
from dueledger.allocator.mark.delivery_buffer import Sends
from dueledger.allocator.publish import Publisher
from dueledger.allocator.settings import AllocatorSettings
from dueledger.allocator.state import Office
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import Signals, Stop
from dueledger.ledger.store import CONNECTION_LOST, Pool
from dueledger.ledger.upkeep import Upkeep

_COUNTS: Final = ("claimed", "published", "released", "reaped_runs", "reaped_claims", "withdrawn")
_STEPS_A_ROUND: Final = 10
_WAIT_SECONDS_MAX: Final = 0.25
_IDLE_FIRST_SECONDS: Final = 0.002
_IDLE_DOUBLINGS_MAX: Final = 12


@final
class Allocator:
    """Claims due items and publishes them. Any number of allocators may run beside each other."""

    def __init__(
        self,
        pool: Pool,
        publishers: Mapping[Load, Publisher],
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
        self._sends = Sends(pool, allocator_no)
        self._office = Office(
            allocator_no=allocator_no,
            settings=settings,
            rotation=Rotation(),
            credits=Credits(),
            topics=Topics(settings.allocator_rest_seconds),
            sends=self._sends,
            stop=stop,
            signals=signals or Signals(),
        )
        self._outlook = Outlook(self._office, publishers[Load.LIGHT])
        self._light, self._heavy = (Track(load, self._office, publishers[load]) for load in Load)
        self._flood: asyncio.Task[None] | None = None
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
        reaped_claims, woken; and runs: reaped_runs. Raises Unavailable when items are due and
        Kafka cannot be reached: nothing is claimed then.
        """
        counts: Counter[str] = Counter(dict.fromkeys(_COUNTS, 0))
        counts.update(await self.keep_up())
        counts.update(await self.serve())
        return counts

    async def keep_up(self) -> Counter[str]:
        """Take back what was lost, and what else an upkeep does, once."""
        counts = await self._upkeep.tick()
        if any(counts.values()):
            self._outlook.forget()
        return counts

    async def serve(self) -> Counter[str]:
        """Claim and publish until nothing is due, or for a bounded number of steps."""
        counts: Counter[str] = Counter()
        try:
            await self._sends.write(counts)
            await self._serve(counts)
        except BaseException:
            self._outlook.forget()
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
        growing = max(_IDLE_FIRST_SECONDS * 2**self._idle_passes, self._outlook.list_pause)
        look = now + min(self._settings.allocator_idle_seconds, growing)
        return max(0.0, min(look, self._outlook.wake_at) - now)

    async def drain(self) -> None:
        """Write down what is known of finished sends; the process may end after this."""
        try:
            await self._sends.write(Counter())
        except CONNECTION_LOST as error:
            self._log.warning(LogEvent.CLAIM_UNMARKED, error=type(error).__name__)

    async def _serve(self, counts: Counter[str]) -> None:
        self._office.credits.expire()
        began, steps = monotonic(), _STEPS_A_ROUND * self._settings.allocator_rounds_max
        try:
            async with self._pool.acquire() as connection, Hands(self._pool, self._light) as hands:
                # A flood that is being drained goes on to its end, and so do the others beside it.
                while steps > 0 or self._flood is not None:
                    steps -= 1
                    await self._outlook.look(connection, flooded=self._flood is not None)
                    if self._stop.asked:
                        break
                    if self._flood is None and self._heavy.has_turn():
                        self._flood = asyncio.create_task(self._drain_flood(counts))
                    if not await self._step(hands, counts, began):
                        break
        finally:
            flood, self._flood = self._flood, None
            await _all(*([flood] if flood else []), *self._light.publishing)
            await self._sends.finish()

    async def _step(self, hands: Hands, counts: Counter[str], began: float) -> bool:
        """Begin a light claim, or wait for one or for something due; false when all is done.

        Which is only known from a list made since the pass began.
        """
        flood = self._flood
        at = min(self._outlook.list_at, self._outlook.wake_at)
        has_turn = self._light.has_turn()
        if has_turn:
            at = hands.free_at(flooded=flood is not None)
            if at <= monotonic():
                hands.begin(counts)
                return True
        running = {*hands.busy, *self._light.publishing, *([flood] if flood else [])}
        pause = max(0.0, min(_WAIT_SECONDS_MAX, at - monotonic()))
        if running:
            await asyncio.wait(running, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            hands.settle()
            if flood is not None and flood.done():
                self._flood = None
                flood.result()
            return True
        if not has_turn and self._outlook.listed_at >= began:
            return False
        await self._stop.wait(min(pause, max(0.0, self._outlook.list_at - monotonic())))
        return True

    async def _drain_flood(self, counts: Counter[str]) -> None:
        """Claim for the flows that have much, a bounded number of rounds."""
        publishing = self._heavy.publishing
        try:
            async with self._pool.acquire() as connection:
                for _ in range(self._settings.allocator_rounds_max):
                    if self._stop.asked or not await self._heavy.round(connection, counts):
                        break
                    if len(publishing) >= self._settings.allocator_publishing_max:
                        await asyncio.wait(publishing, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _all(*publishing)


async def _all(*work: Awaitable[None]) -> None:
    """Wait for all of it, then raise the first of what was raised."""
    for result in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
