"""The allocator's passes: upkeep, then claim due items, publish the claims and mark them."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Mapping
from math import inf
from time import monotonic
from typing import Final, final

from dueledger.allocator.admission_group import admission_group_of
from dueledger.allocator.claim_loop import ClaimLoop
from dueledger.allocator.concurrent_claims import (
    SPACING_SECONDS_MAX,
    ConcurrentClaims,
    has_failed,
)
from dueledger.allocator.discover.credit_accounts import CreditAccounts
from dueledger.allocator.discover.due_flow_poller import DueFlowPoller
from dueledger.allocator.discover.topic_directory import TopicDirectory
from dueledger.allocator.mark.delivery_buffer import DeliveryBuffer
from dueledger.allocator.publish import Publisher
from dueledger.allocator.settings import AllocatorSettings
from dueledger.allocator.state import AllocatorState
from dueledger.ledger.errors import Unavailable
from dueledger.ledger.flows.flood_pacer import FloodPacer
from dueledger.ledger.flows.queue import FlowQueue
from dueledger.ledger.flows.shares import FlowLoad
from dueledger.ledger.gauges import LedgerGauges
from dueledger.ledger.item_check import ItemCheck
from dueledger.ledger.presence import Presence
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import Signals, Stop
from dueledger.ledger.runtime.waiting import wait_for_event
from dueledger.ledger.sleep import Sleep
from dueledger.ledger.store import Connection, Pool
from dueledger.ledger.store.processes import WokenFlow
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
        presence: Presence,
        stop: Stop,
        signals: Signals | None = None,
    ) -> None:
        allocator_no = presence.process_no
        self._pool = pool
        self._settings = settings
        self._presence = presence
        self._stop = stop
        self._log = get_logger("allocator")
        self._progress = asyncio.Event()
        self._deliveries = DeliveryBuffer(pool, allocator_no, self._progress.set)
        self._state = AllocatorState(
            allocator_no=allocator_no,
            settings=settings,
            flow_queue=FlowQueue(admission_group_of),
            flood_pacer=FloodPacer(),
            credits=CreditAccounts(),
            topics=TopicDirectory(settings.allocator_topic_suspend_seconds),
            deliveries=self._deliveries,
            stop=stop,
            signals=signals or Signals(),
            progress=self._progress,
        )
        self._poller = DueFlowPoller(
            self._state.flow_queue,
            self._state.credits,
            self._state.topics,
            publishers[FlowLoad.LIGHT],
            topic_window_items=settings.allocator_topic_window_items,
        )
        self._light, self._heavy = (
            ClaimLoop(load, self._state, publishers[load]) for load in FlowLoad
        )
        self._heavy_task: asyncio.Task[None] | None = None
        self.item_check = ItemCheck(pool, actor_no=allocator_no, role="allocator")
        self.upkeep = Upkeep(
            pool,
            actor_no=allocator_no,
            seconds=settings.allocator_reap_seconds,
            role="allocator",
            retention=settings.retention,
            limit=settings.allocator_reap_runs_max,
        )
        self.gauges = LedgerGauges(pool, holder=f"process:{allocator_no}")
        self._idle_passes = 0
        self._sleep = Sleep(presence, None)
        self._is_woken = False
        self._paused_until = inf
        """When the pause ends in which the pass is: infinity if it is in none."""
        presence.on_woken(self._on_woken)
        stop.on_request(self._progress.set)

    async def tick(self) -> Counter[str]:
        """Run the upkeep once, then claim and publish due items. Returns after every send ended.

        Counts items: claimed, published (acknowledged and marked), released, withdrawn,
        reaped_claims, unblocked; and runs: reaped_runs. Raises Unavailable when items are due and
        Kafka cannot be reached: nothing is claimed then.
        """
        counts: Counter[str] = Counter(dict.fromkeys(_COUNTS, 0))
        counts.update(await self.run_upkeep())
        self._poller.invalidate()
        self._deliveries.gather_none()
        counts.update(await self.serve())
        return counts

    async def run_upkeep(self) -> Counter[str]:
        """Run the upkeep once."""
        counts = await self.upkeep.tick()
        if any(counts.values()):
            self._poller.invalidate()
        return counts

    async def serve(self) -> Counter[str]:
        """Claim and publish until nothing is due, or for a bounded number of steps."""
        counts: Counter[str] = Counter()
        began_at = monotonic()
        try:
            await self._deliveries.write(counts)
            await self._serve(counts)
        except BaseException as error:
            self._poller.invalidate()
            self._presence.report_failure(error)
            raise
        finally:
            self._presence.report_tick(began_at)
        self._presence.report_success(self._state.topics.unavailable)
        if any(counts.values()):
            self._idle_passes = 0
            self._log.debug(LogEvent.TICK_COMPLETED, **counts)
        return counts

    async def idle_seconds(self) -> float:
        """Return the seconds to pause after a pass that did nothing.

        The pause ends when the next known item is due. It is also bounded, and the bound doubles
        with each idle pass: items that are emitted soon after others are found quickly.
        """
        self._idle_passes = min(self._idle_passes + 1, _IDLE_DOUBLINGS_MAX)
        now = monotonic()
        growing = (
            inf
            if self._sleep.is_asleep
            else max(_IDLE_FIRST_SECONDS * 2**self._idle_passes, self._poller.poll_interval_seconds)
        )
        next_poll_at = now + min(self._settings.allocator_idle_seconds, growing)
        return max(0.0, min(next_poll_at, self._poller.next_event_at) - now)

    async def wait_for_items(self) -> float:
        """Wait after a pass that did nothing, at most for `idle_seconds`; return 0.

        A notification ends the wait: an item may be claimed earlier than was known.
        """
        await self._pause(await self.idle_seconds())
        return 0.0

    def _on_woken(self, flow: WokenFlow | None) -> None:
        """Claim from the flow that has a due item; list the flows if it is unknown, or not named.

        Several notifications of one moment, as of a transaction, count as one.
        """
        if flow is None or not self._state.flow_queue.wake(*flow, now=monotonic()):
            self._poller.invalidate()
        if not self._is_woken:
            self._is_woken = True
            self._sleep.woken()
        self._progress.set()

    def _on_claim_ended(self, claim: asyncio.Task[None]) -> None:
        """Wake the pass, unless its marks will, and nothing is to be done before its pause ends."""
        if (
            has_failed(claim)
            or not self._light.publishing
            or self._light.has_ready()
            or self._poller.next_event_at < self._paused_until
        ):
            self._progress.set()

    async def _pause(self, wanted: float) -> None:
        """Wait until there may be something to do, at most so long. Asleep, if that is worth it."""
        if self._progress.is_set():
            return
        seconds = await self._sleep.pause_seconds(wanted, poll_seconds=self._poller.poll_seconds)
        if seconds < wanted:
            self._poller.invalidate()
        self._paused_until = monotonic() + seconds
        await wait_for_event(self._progress, seconds)
        self._paused_until = inf

    async def drain(self) -> None:
        """Write the results of finished sends to the ledger; the process may end after this."""
        try:
            await self._deliveries.write(Counter())
        except Unavailable as error:
            self._log.warning(LogEvent.CLAIM_MARK_POSTPONED, error=type(error).__name__)

    async def _serve(self, counts: Counter[str]) -> None:
        self._state.credits.expire()
        began, steps = monotonic(), _STEPS_PER_CLAIM * self._settings.allocator_claims_max
        try:
            async with (
                self._pool.acquire() as connection,
                ConcurrentClaims(self._pool, self._light, self._on_claim_ended) as claims,
            ):
                # While heavy flows are claimed the pass goes on, for light flows as well.
                while steps > 0 or self._heavy_task is not None:
                    steps -= 1
                    await self._sleep.end_if_busy(poll_seconds=self._poller.poll_seconds)
                    self._progress.clear()  # what set it is found by this poll and this step
                    self._is_woken = False
                    await self._poller.poll(
                        connection,
                        heavy_active=self._heavy_task is not None,
                        is_notified=self._sleep.is_asleep,
                    )
                    if self._stop.is_requested:
                        break
                    if self._heavy_task is None and self._heavy.has_ready():
                        self._heavy_task = asyncio.create_task(self._claim_heavy(counts))
                        self._heavy_task.add_done_callback(lambda _: self._progress.set())
                    if not await self._step(claims, counts, began):
                        break
        finally:
            heavy_task, self._heavy_task = self._heavy_task, None
            await _wait_for_all(*([heavy_task] if heavy_task else []), *self._light.publishing)
            await self._deliveries.wait_for_background()

    async def _step(self, claims: ConcurrentClaims, counts: Counter[str], began: float) -> bool:
        """Start a claim of light flows, or wait for one that runs or for due items.

        Returns False when nothing is left to do, judged by a poll made since the pass began.
        """
        heavy_task = self._heavy_task
        start_at = None
        if has_ready := self._light.has_ready():
            spacing_seconds = self._light_spacing_seconds()
            start_at = claims.next_start_at(spacing_seconds)
            if start_at <= monotonic():
                if claims.start(counts, spacing_seconds) and self._light.has_ready():
                    return True
                start_at, has_ready = None, False
        running = bool(
            heavy_task or claims.busy or self._light.publishing or self._deliveries.writing
        )
        if not running and not has_ready and self._poller.polled_at >= began:
            return False
        if start_at is None:
            start_at = min(self._poller.next_poll_at, self._poller.next_event_at)
        pause = max(0.0, min(_WAIT_SECONDS_MAX, start_at - monotonic()))
        if running and (has_ready or heavy_task is not None):
            await wait_for_event(self._progress, pause)
        else:
            # Nothing is left to claim, though claims may be on their way to Kafka.
            await self._pause(pause)
        claims.raise_failures()
        if heavy_task is not None and heavy_task.done():
            self._heavy_task = None
            heavy_task.result()
        return True

    def _light_spacing_seconds(self) -> float:
        """Return the least spacing: beside floods the machine is busy, and large claims cost less.

        Flows with a lag target say how much of it they can spare.
        """
        if self._heavy_task is None:
            return 0.0
        of_targets = self._state.flood_pacer.light_spacing_seconds
        return SPACING_SECONDS_MAX if of_targets is None else of_targets

    async def _claim_heavy(self, counts: Counter[str]) -> None:
        """Make a bounded number of claims for heavy flows."""
        publishing, pacer = self._heavy.publishing, self._state.flood_pacer
        try:
            async with self._pool.acquire() as connection:
                for _ in range(self._settings.allocator_claims_max):
                    await self._pace_flood(connection)
                    if self._stop.is_requested:
                        break
                    pacer.began(monotonic())
                    if not await self._heavy.claim_once(connection, counts):
                        break
                    if len(publishing) >= self._settings.allocator_publishing_max:
                        await asyncio.wait(publishing, return_when=asyncio.FIRST_COMPLETED)
                    pacer.ended(monotonic())
        finally:
            await _wait_for_all(*publishing)

    async def _pace_flood(self, connection: Connection) -> None:
        """Wait until a flood may be claimed, if the lag of other flows has a target."""
        pacer = self._state.flood_pacer
        targets = self._state.flow_queue.lag_targets(monotonic())
        if targets is None:
            pacer.end()
        elif pacer.needs_refresh:
            await pacer.refresh(connection, targets)
        now = monotonic()
        if (rest := pacer.next_claim_at(now) - now) > 0:
            await self._stop.wait(rest)


async def _wait_for_all(*work: Awaitable[None]) -> None:
    """Wait until all have ended, then raise the first error."""
    for result in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
