"""The settler: records the outcomes of many runs in one statement."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, assert_never, cast, final

from dueledger.ledger.errors import InvalidItem, Unavailable, UnseenPartition
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import crash_point
from dueledger.ledger.runtime.waiting import wait_for_event
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import ReconnectingConnection
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.runs import Outcome, Settlement, SettleRefusal, settle_runs
from dueledger.workers.verdict_outcomes import ItemOutcome, SnoozedUntil, parked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dueledger.ledger.store import Connection, Pool
    from dueledger.workers.counts import WorkerCounts
    from dueledger.workers.open_run import OpenRun

IDLE_SECONDS: Final = 0.25
# A statement that Postgres refuses is halved until the outcome that it refuses is alone.
HALVINGS_MAX: Final = 10
UNRECORDABLE: Final = parked(
    "the ledger refused to record the outcome; its cause is in the worker's log"
)

SentOutcomes = list[tuple["OpenRun", list["ItemOutcome | None"]]]

log = get_logger("worker")


@final
class Settler:
    """Sends outcomes to the ledger. A batch that was sent stays the same until its result is known.

    After a lost COMMIT it is unknown whether the batch was recorded. The same batch is sent again:
    the ledger refuses it as `settled` if it was. New outcomes of its runs wait until then. A batch
    that Postgres refuses was not recorded: it is halved, and the halves are sent after fresh
    outcomes. So are the outcomes of a run of which the ledger may have some, but not all.
    """

    def __init__(
        self,
        pool: Pool,
        counts: WorkerCounts,
        *,
        worker_no: int,
        items_max: int,
        batch_wait_seconds: float,
        on_finished: Callable[[OpenRun], None],
        on_settled: Callable[[OpenRun, Sequence[ItemOutcome | None]], None],
    ) -> None:
        self._connection = ReconnectingConnection(pool)
        self._counts = counts
        self._worker_no = worker_no
        self._items_max = items_max
        self._batch_wait_seconds = batch_wait_seconds
        self._finished = on_finished
        self._settled = on_settled
        self._fresh: dict[int, OpenRun] = {}
        self._sent: SentOutcomes = []
        self._refused: deque[SentOutcomes] = deque()
        self._retry_refused_next = False
        self._wake = asyncio.Event()
        self._failures = 0

    @property
    def is_idle(self) -> bool:
        """Whether the result of every outcome is known."""
        return not self._fresh and not self._sent and not self._refused

    def add(self, run: OpenRun) -> None:
        """Settle the new outcomes of a run soon."""
        self._fresh[run.run_no] = run
        self._wake.set()

    async def tick(self) -> dict[str, int]:
        """Settle one batch; wait a moment if there is none."""
        if self.is_idle:
            await wait_for_event(self._wake, IDLE_SECONDS)
            if not self._fresh:
                return {"settled": 0}
        if not self._sent and self._refused and (self._retry_refused_next or not self._fresh):
            self._sent = self._refused.popleft()
            self._retry_refused_next = False
        elif not self._sent:
            self._retry_refused_next = True
            if self._batch_wait_seconds and self._fresh_count() < self._items_max // 2:
                await asyncio.sleep(self._batch_wait_seconds)
            self._sent = self._take()
        refused = len(self._refused)
        settled = await self._settle()
        return {"settled": settled, "refused": max(0, len(self._refused) - refused)}

    def _fresh_count(self) -> int:
        return sum(run.unsent_count for run in self._fresh.values())

    def _take(self) -> SentOutcomes:
        taken: SentOutcomes = []
        size = 0
        while self._fresh and size < self._items_max:
            run = self._fresh.pop(next(iter(self._fresh)))
            size += len(run.items)
            if run.unsent_count:
                taken.append((run, run.take_unsent()))
        if not self._fresh:
            self._wake.clear()
        return taken

    async def _settle(self) -> int:
        part = self._sent[: max(1, len(self._sent) >> self._failures)]
        if self._failures > HALVINGS_MAX:
            run, item_outcomes = part[0]
            part = self._sent[:1] = [(run, _unrecordable(item_outcomes))]
        self._failures += 1
        try:
            async with self._connection.acquire() as connection:
                settlements = await _settlements(connection, part)
                refused = await settle_runs(connection, settlements, self._worker_no)
        except (Unavailable, UnseenPartition):
            self._failures -= 1  # the batch is not the cause
            raise
        except InvalidItem as refusal:
            if any(UNRECORDABLE in item_outcomes for _, item_outcomes in part):
                raise
            self._failures = 0
            del self._sent[: len(part)]
            self._refused += _split_refused(part, refusal)
            return 0
        self._failures = 0
        crash_point("worker.settled")
        return self._apply_result(part, {refusal.run_no: refusal.reason for refusal in refused})

    def _apply_result(
        self,
        part: Sequence[tuple[OpenRun, list[ItemOutcome | None]]],
        refused: dict[int, SettleRefusal],
    ) -> int:
        again: SentOutcomes = []
        settled = 0
        for run, item_outcomes in part:
            count = len(item_outcomes) - item_outcomes.count(None)
            reason = refused.get(run.run_no)
            match reason:
                case None | SettleRefusal.SETTLED:
                    run.mark_settled(item_outcomes)
                    self._settled(run, item_outcomes)
                    settled += count
                    if run.is_stopped:
                        run.abandon()
                    if run.is_settled:
                        self._finished(run)
                case SettleRefusal.CONTENDED if count > 1:
                    # The ledger may have some of them: of a transaction whose COMMIT was lost.
                    self._refused += _halved(run, item_outcomes)
                case SettleRefusal.CONTENDED:
                    again.append((run, item_outcomes))
                case SettleRefusal.STALE:
                    self._counts.settlements_refused += count
                    log.warning(
                        LogEvent.SETTLEMENT_REFUSED, run_no=run.run_no, fence=run.fence, items=count
                    )
                    run.abandon()
                    self._finished(run)
                case _:
                    assert_never(reason)
        self._sent = again + self._sent[len(part) :]
        self._counts.settled += settled
        return settled


async def _settlements(
    connection: Connection, part: Sequence[tuple[OpenRun, list[ItemOutcome | None]]]
) -> list[Settlement]:
    now = None
    settlements: list[Settlement] = []
    for run, item_outcomes in part:
        if not run.has_snooze_until:
            settlements.append(Settlement(run.id, cast("list[Outcome | None]", item_outcomes)))
            continue
        if now is None:
            now = await read_now(connection)
        outcomes = [
            Outcome(
                TransitionEvent.SNOOZED,
                item_outcome.detail,
                max(0.0, (item_outcome.until - now).total_seconds()),
            )
            if isinstance(item_outcome, SnoozedUntil)
            else item_outcome
            for item_outcome in item_outcomes
        ]
        settlements.append(Settlement(run.id, outcomes))
    return settlements


def _unrecordable(item_outcomes: Sequence[ItemOutcome | None]) -> list[ItemOutcome | None]:
    return [None if item_outcome is None else UNRECORDABLE for item_outcome in item_outcomes]


def _split_refused(part: SentOutcomes, refusal: InvalidItem) -> list[SentOutcomes]:
    """Halve a refused batch; an outcome that is alone is replaced by a parked one."""
    if len(part) > 1:
        middle = len(part) // 2
        return [part[:middle], part[middle:]]
    run, item_outcomes = part[0]
    if len(item_outcomes) - item_outcomes.count(None) == 1:
        log.warning(LogEvent.TICK_FAILED, error=type(refusal).__name__, message=str(refusal))
        return [[(run, _unrecordable(item_outcomes))]]
    return _halved(run, item_outcomes)


def _halved(run: OpenRun, item_outcomes: list[ItemOutcome | None]) -> list[SentOutcomes]:
    ended = [index for index, item_outcome in enumerate(item_outcomes) if item_outcome is not None]
    middle = ended[len(ended) // 2]
    blank: list[ItemOutcome | None] = [None] * len(item_outcomes)
    return [
        [(run, item_outcomes[:middle] + blank[middle:])],
        [(run, blank[:middle] + item_outcomes[middle:])],
    ]
