"""Long polls of pull workers: one loop a process finds due items for all that wait.

Those that ask for the same form a subscription: its flows are served by weight, its polls in the
order in which they came. A poll holds no connection while it waits.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, final

from dueledger.ledger.errors import DueledgerError, Unavailable, UnseenPartition
from dueledger.ledger.flows.queue import FlowQueue
from dueledger.ledger.flows.shares import FlowLoad, FlowShare, ShareResult, split_by_demand
from dueledger.ledger.presence import Presence
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import Signals, crash_point
from dueledger.ledger.runtime.waiting import wait_for_event
from dueledger.ledger.sleep import Sleep
from dueledger.ledger.store import Connection
from dueledger.ledger.store.lost_connections import POSTGRES
from dueledger.ledger.store.processes import WokenFlow
from dueledger.service.pulls import IDLE_SECONDS, Pull, Pulls, Subscription, tenants_by_kind
from dueledger.workers.pull.claims import PulledRun, claim_shares, list_pull_flows, release_runs
from dueledger.workers.pull.observe import observe_starts

LIST_SECONDS: Final = 0.05
LIST_SHARE: Final = 20
HORIZON_POLLS: Final = 3
IDLE_DOUBLINGS_MAX: Final = 5
EARLY_SECONDS: Final = 0.0005
LISTED_SECONDS: Final = 30.0
"""Most time that a poll that waits briefly has until what is due was listed for it."""
CLAIMS_MAX: Final = 10
"""Claims of a subscription in one pass, so that none waits long for another one."""
CLAIMS_AT_ONCE: Final = 4
SUBSCRIPTION_SECONDS: Final = 30.0
"""How long what a flow was given is remembered after the last poll."""
NOTHING_FOUND: Final = ShareResult(0)
REFUSED: Final = ShareResult(0, next_seconds=0.1)

log = get_logger("service")


@final
@dataclass(slots=True)
class _Subscribers:
    """The polls of a subscription, in the order in which they came, and its flows."""

    flows: FlowQueue[None]
    pulls: OrderedDict[Pull, None] = field(default_factory=OrderedDict[Pull, None])
    left_at: float = 0.0


@final
class PullQueue(Pulls):
    """Serves polls with due items, whose payloads have `bytes_max` bytes at most.

    `list_as` opens a transaction that may list all flows.
    """

    def __init__(
        self,
        presence: Presence,
        list_as: Callable[[], AbstractAsyncContextManager[Connection]],
        *,
        bytes_max: int,
    ) -> None:
        self._list_as = list_as
        self._bytes_max = bytes_max
        self._presence = presence
        self._subscribers: dict[Subscription, _Subscribers] = {}
        self._kinds: frozenset[str] = frozenset()
        self._is_joined = False
        self._sleep = Sleep(presence, [])
        self._wake = asyncio.Event()
        self._claims = asyncio.Semaphore(CLAIMS_AT_ONCE)
        self._has_news = True
        self._is_closed = False
        self._poll_at = self._list_at = float("-inf")
        self._list_seconds = 0.0
        self._idle_lists = 0
        self.signals = Signals()
        presence.on_woken(self._on_woken)

    @property
    def waiting(self) -> int:
        """Return how many polls wait, without those that are being served."""
        return sum(len(each.pulls) for each in self._subscribers.values())

    async def pull(
        self, pull: Pull, seconds: float, *, gone: "asyncio.Future[None]"
    ) -> list[PulledRun]:
        """Wait for runs, as `Pulls` says. A closed queue answers with none."""
        if self._is_closed:
            return []
        subscribers = self._join(pull)
        try:
            await asyncio.wait(
                {pull.answered, gone},
                timeout=LISTED_SECONDS if pull.needs_list else seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            pull.is_over = True
            subscribers.pulls.pop(pull, None)
            self.signals.emit("pulls.changed")
            subscribers.left_at = monotonic()
        if pull.is_served:
            await asyncio.wait({pull.answered})
        runs = pull.answered.result() if pull.answered.done() else []
        if runs and gone.done():
            async with pull.open() as call:
                await release_runs(call.connection, runs, pull.key_no)
        return runs

    def close(self) -> None:
        """Answer all polls with nothing: the process ends."""
        self._is_closed = True
        for subscribers in self._subscribers.values():
            for pull in subscribers.pulls:
                if not pull.is_served and not pull.answered.done():
                    pull.answered.set_result([])
        self._wake.set()

    async def tick(self) -> dict[str, int]:
        """Wait for a poll and for due items, and serve what there is; return the counts."""
        await self._wait()
        if self._is_closed or not self.waiting:
            return {}
        self._forget(now := monotonic())
        served = await self._serve_all()
        brief = [
            pull for each in self._subscribers.values() for pull in each.pulls if pull.needs_list
        ]
        if self._has_news or now >= self._list_at or brief:
            await self._list()
            served += await self._serve_all()
        for pull in brief:
            if not pull.answered.done():
                pull.answered.set_result([])
        if served and self._idle_lists:
            self._idle_lists = 0
            self._list_at = min(self._list_at, monotonic() + self._list_pause())
        self._poll_at = self._next_poll_at()
        return {"served": served}

    async def _serve_all(self) -> int:
        subscribers = list(self._subscribers.values())
        results = await asyncio.gather(*map(self._serve, subscribers), return_exceptions=True)
        served = 0
        for result in results:
            if isinstance(result, BaseException):
                raise result
            served += result
        return served

    def _join(self, pull: Pull) -> _Subscribers:
        subscribers = self._subscribers.get(pull.subscription)
        if subscribers is None:
            subscribers = _Subscribers(FlowQueue(lambda _: None, serial_apart=True))
            self._subscribers[pull.subscription] = subscribers
            self._has_news = self._is_joined = True
        subscribers.pulls[pull] = None
        self._wake.set()
        self.signals.emit("pulls.changed")
        return subscribers

    def _forget(self, now: float) -> None:
        left = [
            subscription
            for subscription, each in self._subscribers.items()
            if not each.pulls and each.left_at + SUBSCRIPTION_SECONDS < now
        ]
        for subscription in left:
            del self._subscribers[subscription]
        if left:
            self._serve_kinds()

    def _asked_kinds(self) -> frozenset[str]:
        return frozenset[str]().union(*(each.kinds for each in self._subscribers))

    def _serve_kinds(self) -> None:
        """Be woken for items that are asked for, and let the ledger know which these are."""
        kinds = self._asked_kinds()
        if kinds != self._kinds:
            self._kinds = kinds
            self._sleep.wake_for(sorted(kinds))
        self._presence.serve_kinds(sorted(kinds), tenants_by_kind(self._subscribers))
        self._is_joined = False

    def _on_woken(self, _: WokenFlow | None) -> None:
        self._sleep.woken()
        self._has_news = True
        self._wake.set()

    async def _wait(self) -> None:
        while not self.waiting and not self._is_closed:
            self._wake.clear()
            self._forget(monotonic())
            await wait_for_event(self._wake, SUBSCRIPTION_SECONDS if self._subscribers else None)
        await self._sleep.end_if_busy(poll_seconds=self._list_seconds)
        if not self._wake.is_set():
            wanted = max(0.0, self._poll_at - monotonic())
            seconds = await self._sleep.pause_seconds(wanted, poll_seconds=self._list_seconds)
            self._has_news |= seconds < wanted
            await wait_for_event(self._wake, seconds)
        self._wake.clear()

    async def _list(self) -> None:
        """List the flows that are due now or soon, of all kinds that are asked for."""
        began = monotonic()
        self._has_news = False
        if self._is_joined:
            self._serve_kinds()
        horizon = HORIZON_POLLS * max(IDLE_SECONDS, self._list_pause())
        async with self._list_as() as connection:
            flows = await list_pull_flows(connection, sorted(self._kinds), horizon)
        for subscription, each in self._subscribers.items():
            each.flows.update(filter(subscription.admits, flows), asked_at=began)
            each.flows.remove_unlisted(asked_at=began)
        self._list_seconds = monotonic() - began
        self._list_at = monotonic() + self._list_pause()
        self._idle_lists = min(self._idle_lists + 1, IDLE_DOUBLINGS_MAX)

    def _list_pause(self) -> float:
        pause = IDLE_SECONDS
        if not self._sleep.is_asleep:
            pause = min(pause, LIST_SECONDS * 2**self._idle_lists)
        return max(pause, LIST_SHARE * self._list_seconds)

    def _next_poll_at(self) -> float:
        now, at = monotonic(), self._list_at
        for each in self._subscribers.values():
            if each.pulls:
                each.flows.move_due(now)
                if each.flows.waiting_groups():
                    return now
                at = min(at, each.flows.next_due_at() + EARLY_SECONDS)
        return at

    async def _serve(self, subscribers: _Subscribers) -> int:
        """Serve polls of a subscription while flows are due; return how many had items."""
        served = 0
        for _ in range(CLAIMS_MAX):
            subscribers.flows.move_due(monotonic())
            pull = next(iter(subscribers.pulls), None)
            if pull is None:
                break
            shares = _shares_of(subscribers.flows, pull.items_max)
            if not shares:
                break
            del subscribers.pulls[pull]
            pull.is_served = True
            async with self._claims:
                runs = await self._claim_for(pull, subscribers, shares)
            served += bool(runs)
        return served

    async def _claim_for(
        self, pull: Pull, subscribers: _Subscribers, shares: Sequence[FlowShare]
    ) -> list[PulledRun]:
        """Claim for a poll and answer it; if nothing was found, it waits on, as the first one."""
        runs: list[PulledRun] = []
        try:
            runs = await self._claim(pull, subscribers.flows, shares)
        except DueledgerError as error:
            if isinstance(error, Unavailable) and error.service == POSTGRES:
                raise
            # The poll's own, as of a key that was revoked or of a token's issuer that is away.
            pull.answered.set_exception(error)
        finally:
            subscribers.flows.return_unserved(shares)
            pull.is_served = False
            if not pull.answered.done():
                if any(run.positions for run in runs) or pull.is_over or self._is_closed:
                    pull.answered.set_result(runs)
                else:
                    subscribers.pulls[pull] = None
                    subscribers.pulls.move_to_end(pull, last=False)
        return runs

    async def _claim(
        self, pull: Pull, flows: FlowQueue[None], shares: Sequence[FlowShare]
    ) -> list[PulledRun]:
        """Claim shares; after UnseenPartition, each by itself, so that none blocks the others."""
        asked_at = monotonic()
        try:
            async with pull.open() as call:
                result = await claim_shares(
                    call.connection,
                    shares,
                    key_no=pull.key_no,
                    lease_seconds=pull.lease_seconds,
                    tenants=call.tenants,
                    bytes_max=self._bytes_max,
                )
        except UnseenPartition as error:
            if len(shares) > 1:
                parts = [await self._claim(pull, flows, [share]) for share in shares]
                return [run for part in parts for run in part]
            flow_no = shares[0].flow.flow_no
            log.warning(LogEvent.CLAIM_REFUSED, flow_no=flow_no, message=error.message)
            flows.requeue_by_weight(shares[0], REFUSED, asked_at=asked_at)
            return []
        crash_point("pull.claimed")
        observe_starts(result.runs, self._presence.ledger_now(), asked_at)
        for share in shares:
            found = result.results.get(share.key, NOTHING_FOUND)
            flows.requeue_by_weight(share, found, asked_at=asked_at)
        return result.runs


def _shares_of(flows: FlowQueue[None], items_max: int) -> list[FlowShare]:
    """Take the next flows, with their quotas: together as many items as a poll may have."""
    shares = flows.next_shares(FlowLoad, lambda _, __: True, flows_max=items_max)
    quotas = split_by_demand(
        items_max, [share.flow.weight for share in shares], [share.quota for share in shares]
    )
    return [share._replace(quota=quota) for share, quota in zip(shares, quotas, strict=True)]
