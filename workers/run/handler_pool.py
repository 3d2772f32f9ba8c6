"""The crew of one kind: how many calls of its handler run at once, and how each call ends.

The handler boundary is here: whatever a handler does, its items end in an outcome.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, cast, final

from dueledger.ledger.runtime.service import crash_point
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.runs import Outcome, Refusal, Settlement, settle_runs
from dueledger.workers.handlers import Form, Handler
from dueledger.workers.run.call_slots import AHEAD_PATIENCE_SECONDS, Places
from dueledger.workers.run.thread_call import Answer, call_in_thread
from dueledger.workers.verdict_outcomes import (
    Ending,
    ending_of,
    ending_of_error,
    parked,
    returned_unworked,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine
    from types import FrameType

    from dueledger.ledger.store import Connection, Pool
    from dueledger.workers.item import DueItem
    from dueledger.workers.run.open_run import OpenRun

# As the reaper does with runs that died: a batch that fails comes back in ever smaller ones, so
# that one poison item fails alone and its neighbours complete.
SHRINK_FACTOR: Final = 8
RUN_ITEMS_MAX: Final = 1_000_000  # a claim is smaller
CONTENDED_TRIES_MAX: Final = 50
PATIENCE_SECONDS: Final = 30.0  # waiting for a crew that is full is no longer than this
STOP_SECONDS: Final = 2.0  # in which a handler that was cancelled at its time's end must answer

CROWDED_OUT: Final = returned_unworked("the calls before it did not end")

Work = tuple[int, "DueItem"]


class Foreman(Protocol):
    """Whom a crew tells."""

    def items_ended(self, run: OpenRun) -> None:
        """Have what ended of the run settled."""
        ...

    def item_settled(self, run: OpenRun, event: TransitionEvent) -> None:
        """Count an item that was settled in its own transaction."""
        ...

    def call_ended(self) -> None:
        """Use the room for another call."""
        ...


class HandlerTimeout(Exception):  # its name is what the journal shows
    """A handler did not answer in its time."""


class HandlerLost(Exception):  # its name is what the journal shows
    """A handler's call ended without an answer."""


class RunLost(Exception):  # its name is what the journal shows
    """The ledger refused a completion, so the handler's writes were rolled back."""


@final
class Crew:
    """Runs one handler. `room` is in items, so that only what will run now is started.

    It is lost while each of its places is held by a call that is past its time and cannot be
    stopped; `lost_since` is monotonic.
    """

    def __init__(
        self, handler: Handler, foreman: Foreman, *, worker_no: int, pool: Pool | None = None
    ) -> None:
        self.handler = handler
        self.busy = 0
        self.lost_since: float | None = None
        self._overdue = 0
        # A thread cannot be stopped: what waits behind one could not be told from what runs.
        goes_ahead = handler.form is Form.SINGLE and handler.is_async
        self._places = Places(handler.options.concurrency, goes_ahead=goes_ahead)
        self._foreman = foreman
        self._worker_no = worker_no
        self._pool = pool
        self._batch_max = handler.options.batch_max

    @property
    def room_calls(self) -> int:
        """How many more calls may be started."""
        return self._places.room(self.busy)

    @property
    def room(self) -> int:
        """How many more items may be started."""
        return self.room_calls * self._batch_max

    @property
    def waiting_min(self) -> int:
        """How many items may wait for it before it was ever seen at work.

        A crew full, since that is surely started once those before had all their time; a part of
        it where that would be long.
        """
        if self.lost_since is not None:
            return 0
        options = self.handler.options
        share = min(1.0, PATIENCE_SECONDS / options.timeout_seconds)
        return max(1, int(options.concurrency * self._batch_max * share))

    @property
    def run_items_max(self) -> int:
        """How many items a run may hold.

        One where each item settles in a transaction of its own: two in one run would wait for
        each other's commit.
        """
        return 1 if self.handler.form is Form.TRANSACTION else RUN_ITEMS_MAX

    def reserve(self, count: int) -> None:
        """Take the room that `count` items of one stretch need."""
        self.busy += self._calls(count)

    def release(self, count: int) -> None:
        """Give back the room of a stretch that was not started."""
        self.busy -= self._calls(count)

    def launch(self, run: OpenRun) -> None:
        """Work a run whose room was reserved for all its items."""
        work = run.workable()
        self.busy -= self._calls(len(run.items)) - self._calls(len(work))
        match self.handler.form:
            case Form.BATCH:
                batches = deque(self._batches(work))
                for _ in range(self._calls(len(work))):
                    in_hand: list[Work] = []
                    self._spawn(run, in_hand, self._work_batches(run, batches, in_hand))
            case Form.SINGLE:
                for index, item in work:
                    self._spawn(run, [(index, item)], self._work_single(run, index, item))
            case Form.TRANSACTION:
                for index, item in work:
                    self._spawn(run, [(index, item)], self._work_transaction(run, index, item))

    def _calls(self, count: int) -> int:
        return -(-count // self._batch_max)

    def _spawn(
        self, run: OpenRun, in_hand: Sequence[Work], call: Coroutine[None, None, None]
    ) -> None:
        task = asyncio.get_running_loop().create_task(call)
        run.tasks.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            run.tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            if run.open_count and not run.is_cancelled:
                self._fail_unended(run, in_hand, error or HandlerLost("its call was cancelled"))
            self._call_ended(task)

        task.add_done_callback(ended)

    def _fail_unended(self, run: OpenRun, work: Sequence[Work], error: BaseException) -> None:
        """Fail what a call left without an ending: a lease is never kept for nothing (G5, G9)."""
        left = [*work, *(() if run.tasks else run.workable())]
        run.end_many((index, self._ending(Answer(None, error), item)) for index, item in left)
        self._foreman.items_ended(run)

    def _call_ended(self, _: object) -> None:
        self.busy -= 1
        self._foreman.call_ended()

    async def _work_single(self, run: OpenRun, index: int, item: DueItem) -> None:
        if not await self._places.take(
            min(AHEAD_PATIENCE_SECONDS, (run.stop_at - monotonic()) / 2)
        ):
            run.end(index, CROWDED_OUT)
            self._foreman.items_ended(run)
            return
        began = monotonic()
        try:
            answer = await self._guarded(run, self._call(run, [(index, item)], item))
        finally:
            self._places.note(monotonic() - began)
            self._places.give()
        run.end(index, self._ending(answer, item))
        crash_point("worker.handled")
        self._foreman.items_ended(run)

    async def _work_batches(
        self, run: OpenRun, batches: deque[Sequence[Work]], in_hand: list[Work]
    ) -> None:
        while batches and not run.is_cancelled:
            batch = batches.popleft()
            in_hand[:] = batch
            await self._work_batch(run, batch)
            crash_point("worker.handled")
            self._foreman.items_ended(run)

    async def _work_batch(self, run: OpenRun, batch: Sequence[Work]) -> None:
        """Call the handler once; halve a batch that raised until what is left fails alone."""
        parts = deque([batch])
        calls_left = 4 * len(batch).bit_length()
        while parts and not run.is_cancelled:
            part = parts.popleft()
            calls_left -= 1
            answer = await self._guarded(run, self._call(run, part, [item for _, item in part]))
            if answer.error is None:
                run.end_many(self._endings(answer.value, part))
            elif len(part) > 1 and calls_left > 0 and type(answer.error) is not HandlerTimeout:
                parts += [part[: len(part) // 2], part[len(part) // 2 :]]
            else:
                run.end_many((index, self._ending(answer, item)) for index, item in part)

    def _batches(self, work: Sequence[Work]) -> list[Sequence[Work]]:
        by_size: dict[int, list[Work]] = {}
        for index, item in work:
            size = max(1, self._batch_max // SHRINK_FACTOR ** min(item.retries, 5))
            by_size.setdefault(size, []).append((index, item))
        return [
            some[start : start + size]
            for size, some in by_size.items()
            for start in range(0, len(some), size)
        ]

    def _endings(self, value: object, part: Sequence[Work]) -> list[tuple[int, Ending]]:
        try:
            if not isinstance(value, Sequence) or isinstance(value, str | bytes):
                verdicts, wrong = [], f"{type(value).__name__}, not a list of verdicts"
            else:
                verdicts = list(cast("Sequence[object]", value))
                wrong = f"{len(verdicts)} verdicts for {len(part)} items"
        except BaseException:  # noqa: BLE001  # the handler boundary: a sequence of its own
            verdicts, wrong = [], "what cannot be read"
        if len(verdicts) == len(part):
            options = self.handler.options
            return [
                (index, ending_of(verdict, item, options))
                for (index, item), verdict in zip(part, verdicts, strict=True)
            ]
        ending = parked(f"bad verdict: the handler returned {wrong}")
        return [(index, ending) for index, _ in part]

    def _ending(self, answer: Answer, item: DueItem) -> Ending:
        if answer.error is None:
            return ending_of(answer.value, item, self.handler.options)
        return ending_of_error(answer.error, item, self.handler.options)

    async def _guarded(self, run: OpenRun, call: Awaitable[object]) -> Answer:
        """Await a handler's call; only this worker's own cancelling gets through."""
        try:
            answer = Answer(await call, None)
        except asyncio.CancelledError as error:
            if run.is_cancelled:
                raise
            answer = Answer(None, error)
        except BaseException as error:  # noqa: BLE001  # the handler boundary
            answer = Answer(None, error)
        task = asyncio.current_task()
        if task is not None and task.cancelling() and not run.is_cancelled:
            # The handler cancelled its own task: that ends here, before the next call.
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
            while task.cancelling() and not run.is_cancelled:
                task.uncancel()
        return answer

    async def _call(self, run: OpenRun, work: Sequence[Work], *arguments: object) -> object:
        """Call the handler within its time."""
        seconds = self.handler.options.timeout_seconds
        if self.handler.is_async:
            limit = asyncio.timeout(seconds)
            # One that swallows its cancelling keeps its place in the crew, but not its items.
            gone: list[OpenRun] = []
            deaf = asyncio.get_running_loop().call_later(
                seconds + STOP_SECONDS, self._gone_deaf, run, work, gone
            )
            try:
                async with limit:
                    return await cast("Awaitable[object]", self.handler.function(*arguments))
            except TimeoutError as error:
                if limit.expired():
                    raise self._timeout() from error
                raise
            finally:
                deaf.cancel()
                self._overran(-len(gone))
        call = call_in_thread(self.handler.function, *arguments)
        try:
            done, _ = await asyncio.wait({call}, timeout=seconds)
        finally:
            if not call.done():
                # A thread cannot be stopped. It keeps its place in the crew until it ends.
                self.busy += 1
                self._places.keep()
                self._overran(1)
                call.add_done_callback(self._overdue_ended)
        if not done:
            raise self._timeout()
        answer = call.result()
        if answer.error is not None:
            raise answer.error
        return answer.value

    def _gone_deaf(self, run: OpenRun, work: Sequence[Work], gone: list[OpenRun]) -> None:
        gone.append(run)
        self._overran(1)
        self._fail_unended(run, work, self._timeout())

    def _overdue_ended(self, call: object) -> None:
        self._overran(-1)
        self._places.give()
        self._call_ended(call)

    def _overran(self, calls: int) -> None:
        self._overdue += calls
        if self._overdue < self.handler.options.concurrency:
            self.lost_since = None
        elif self.lost_since is None:
            self.lost_since = monotonic()

    def _timeout(self) -> HandlerTimeout:
        return HandlerTimeout(f"no answer within {self.handler.options.timeout_seconds:g} s")

    async def _work_transaction(self, run: OpenRun, index: int, item: DueItem) -> None:
        answer = await self._guarded(run, self._transact(run, index, item))
        crash_point("worker.handled")
        if answer.error is not None:
            # Also where a COMMIT was cut off: if it happened, this outcome is answered as settled.
            run.end(index, ending_of_error(answer.error, item, self.handler.options))
        elif answer.value is not None:
            run.end(index, cast("Ending", answer.value))
        self._foreman.items_ended(run)

    async def _transact(self, run: OpenRun, index: int, item: DueItem) -> Ending | None:
        """Run the handler in a transaction; None where it committed with the item's completion."""
        if self._pool is None:
            raise ValueError("a transactional handler needs a pool")
        async with self._pool.acquire() as connection:
            transaction = connection.transaction()
            await transaction.start()
            try:
                answer = await self._call(run, [(index, item)], item, connection)
                ending = ending_of(answer, item, self.handler.options)
                completed = isinstance(ending, Outcome) and (
                    ending.event is TransitionEvent.COMPLETED
                )
                if completed:
                    await self._settle_inside(connection, run, index, cast("Outcome", ending))
            except BaseException:
                await transaction.rollback()
                raise
            if not completed:
                await transaction.rollback()
                return ending
            await transaction.commit()
        run.end_in_ledger(index)
        self._foreman.item_settled(run, TransitionEvent.COMPLETED)
        return None

    async def _settle_inside(
        self, connection: Connection, run: OpenRun, index: int, outcome: Outcome
    ) -> None:
        outcomes: list[Outcome | None] = [None] * len(run.items)
        outcomes[index] = outcome
        settlement = Settlement(run.run_no, outcomes)
        reason = Refusal.CONTENDED
        for _ in range(CONTENDED_TRIES_MAX):
            refused = await settle_runs(connection, [settlement], self._worker_no)
            if not refused:
                return
            reason = refused[0].reason
            if reason is not Refusal.CONTENDED:
                break
        raise RunLost(f"the ledger answered {reason}; the writes were rolled back")


class Call(NamedTuple):
    """A call of a handler under way, and for which items."""

    handler: Handler
    run: OpenRun
    work: Sequence[Work]


_CALLING: Final = Crew._call.__code__  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def call_on(stack: FrameType | None) -> Call | None:
    """Find the handler's call that a thread's stack is in, if it is in one."""
    while stack is not None:
        if stack.f_code is _CALLING:
            told = stack.f_locals
            return Call(told["self"].handler, told["run"], told["work"])
        stack = stack.f_back
    return None
