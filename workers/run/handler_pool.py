"""The handler pool of one handler: its concurrent calls, and how each call ends.

The handler boundary is here: whatever a handler does, each of its items gets an outcome.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, cast, final

from dueledger.ledger.runtime.service import crash_point
from dueledger.ledger.runtime.tracing import call_span, is_tracing
from dueledger.workers.handlers import Handler, HandlerForm
from dueledger.workers.item import trace_of_items
from dueledger.workers.open_run import CallState
from dueledger.workers.run.call_slots import AHEAD_WAIT_SECONDS, CallSlots
from dueledger.workers.run.chunk import HELD_UP, Chunk
from dueledger.workers.run.own_transaction import Losses
from dueledger.workers.run.thread_call import CallResult, call_in_thread
from dueledger.workers.verdict_outcomes import (
    ItemOutcome,
    outcome_of_error,
    outcome_of_verdict,
    outcomes_of_verdicts,
    parked,
    released,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine
    from types import FrameType

    from dueledger.ledger.store import Connection, Pool
    from dueledger.ledger.store.runs import RunIsolation
    from dueledger.workers.item import DueItem
    from dueledger.workers.open_run import OpenRun
    from dueledger.workers.run.listener import PoolListener

# A batch that fails is retried in ever smaller ones, as the reaper does with runs that died. So an
# item that makes its batch fail is alone in the end, and its neighbours complete.
SHRINK_FACTOR: Final = 8
RUN_ITEMS_MAX: Final = 1_000_000  # a claim is smaller
FULL_WAIT_SECONDS_MAX: Final = 30.0  # most seconds that an item waits for a full pool
CANCEL_GRACE_SECONDS: Final = (
    2.0  # a handler that was cancelled at its timeout must end within this time
)

NO_SLOT: Final = released("the calls before it did not end")

ItemAtIndex = tuple[int, "DueItem"]


class HandlerTimeout(Exception):  # its name is what the journal shows
    """A handler did not return within its timeout."""


class HandlerCancelled(Exception):  # its name is what the journal shows
    """A handler's call was cancelled and returned no verdict."""


@final
class HandlerPool:
    """Runs one handler. `free_items` counts items, so that only items that run now are started.

    The pool is stuck while each of its slots is taken by a call that is past its timeout and
    cannot be stopped; `stuck_since` is monotonic.
    """

    def __init__(
        self,
        handler: Handler,
        listener: PoolListener,
        *,
        worker_no: int,
        pool: Pool | None = None,
        isolation: RunIsolation | None = None,
    ) -> None:
        self.handler = handler
        self.isolation = isolation
        self.busy = 0
        self.stuck_since: float | None = None
        self._overdue = 0
        # A thread cannot be stopped: items that wait for it would look like running ones.
        goes_ahead = (
            handler.form is not HandlerForm.BATCH and handler.is_async and isolation is None
        )
        self._slots = CallSlots(handler.options.concurrency, goes_ahead=goes_ahead)
        self._listener = listener
        self._worker_no = worker_no
        self._pool = pool
        self._losses = Losses()
        self._open_chunks: set[Chunk] = set()
        self._batch_max = handler.options.batch_max
        self._unsettled: list[OpenRun] = []
        """Runs of suspects of which the ledger lacks an outcome."""

    @property
    def free_calls(self) -> int:
        """How many more calls may be started. Of suspects none before the last one is settled.

        Otherwise the reaper would blame a suspect that ended for the next one that ends the worker.
        """
        self._unsettled = [run for run in self._unsettled if not run.is_settled]
        return 0 if self._unsettled else self._slots.startable_calls(self.busy)

    @property
    def free_items(self) -> int:
        """How many more items may be started."""
        return self.free_calls * self._batch_max

    @property
    def overdue_calls(self) -> int:
        """How many calls are past their timeout and cannot be stopped."""
        return self._overdue

    @property
    def initial_credit_items(self) -> int:
        """How many items may wait for the pool before its speed is known.

        As many as the pool runs at once: they start when the calls before them are at their timeout
        at the latest. Fewer if the timeout is longer than FULL_WAIT_SECONDS_MAX.
        """
        if self.stuck_since is not None:
            return 0
        options = self.handler.options
        share = min(1.0, FULL_WAIT_SECONDS_MAX / options.timeout_seconds)
        return max(1, int(options.concurrency * self._batch_max * share))

    @property
    def run_items_max(self) -> int:
        """How many items a run may have.

        As many as share a transaction: two of those in one run would wait for each other's commit.
        """
        is_transaction = self.handler.form is HandlerForm.TRANSACTION
        return self._batch_max if is_transaction else RUN_ITEMS_MAX

    def reserve(self, count: int) -> None:
        """Reserve the capacity for `count` items of one slice."""
        self.busy += self._calls(count)

    def release(self, count: int) -> None:
        """Release the capacity of a slice that was not started."""
        self.busy -= self._calls(count)

    def start_run(self, run: OpenRun) -> None:
        """Call the handler for a run. Capacity for all its items must be reserved."""
        if self.isolation is not None:
            self._unsettled.append(run)
        work = run.items_to_run()
        self.busy -= self._calls(len(run.items)) - self._calls(len(work))
        match self.handler.form:
            case HandlerForm.BATCH:
                batches = deque(self._batches(work))
                for _ in range(self._calls(len(work))):
                    current: list[ItemAtIndex] = []
                    self._spawn(run, current, self._work_batches(run, batches, current))
            case HandlerForm.SINGLE:
                for index, item in work:
                    self._spawn(run, [(index, item)], self._work_single(run, index, item))
            case HandlerForm.TRANSACTION:
                chunks = deque(self._chunks(work))
                for _ in range(self._calls(len(work))):
                    current = []
                    self._spawn(run, current, self._work_chunks(run, chunks, current))

    def _calls(self, count: int) -> int:
        return -(-count // self._batch_max)

    def _spawn(
        self, run: OpenRun, current: Sequence[ItemAtIndex], call: Coroutine[None, None, None]
    ) -> None:
        task = asyncio.get_running_loop().create_task(call)
        run.tasks.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            run.tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            if run.open_count and not run.is_cancelled:
                self._fail_unfinished(
                    run, current, error or HandlerCancelled("its call was cancelled")
                )
            self._call_ended(task)

        task.add_done_callback(ended)

    def _fail_unfinished(
        self, run: OpenRun, work: Sequence[ItemAtIndex], error: BaseException
    ) -> None:
        """Fail the items without an outcome: no lease is kept without a running call (G5, G9)."""
        left = [*work, *(() if run.tasks else run.items_to_run())]
        run.end_many((index, self._outcome(CallResult(None, error), item)) for index, item in left)
        self._listener.on_items_ended(run)

    def _call_ended(self, _: object) -> None:
        self.busy -= 1
        self._listener.on_call_ended()

    async def _work_single(self, run: OpenRun, index: int, item: DueItem) -> None:
        if not await self._take_slot(run, [(index, item)]):
            return
        began = monotonic()
        try:
            result = await self._await_handler(run, self._call(run, [(index, item)], item))
        finally:
            self._return_slot(began)
        run.end(index, self._outcome(result, item))
        crash_point("worker.handled")
        self._listener.on_items_ended(run)

    async def _take_slot(self, run: OpenRun, work: Sequence[ItemAtIndex]) -> bool:
        """Wait for a slot; without one in time, release the items."""
        if await self._slots.acquire(min(AHEAD_WAIT_SECONDS, (run.stop_at - monotonic()) / 2)):
            return True
        run.end_many((index, NO_SLOT) for index, _ in work)
        self._listener.on_items_ended(run)
        return False

    def _return_slot(self, began: float) -> None:
        self._slots.record_duration(monotonic() - began)
        self._slots.release()

    async def _work_batches(
        self, run: OpenRun, batches: deque[Sequence[ItemAtIndex]], current: list[ItemAtIndex]
    ) -> None:
        while batches and not run.is_cancelled:
            batch = batches.popleft()
            current[:] = batch
            await self._work_batch(run, batch)
            crash_point("worker.handled")
            self._listener.on_items_ended(run)

    async def _work_batch(self, run: OpenRun, batch: Sequence[ItemAtIndex]) -> None:
        """Call the handler; halve a batch that raised until the failing item is alone."""
        parts = deque([batch])
        calls_left = 4 * len(batch).bit_length()
        while parts and not run.is_cancelled:
            # Those of a call that ignored its cancellation have ended before it raises.
            part = run.without_ended(parts.popleft())
            if not part:
                continue
            calls_left -= 1
            result = await self._await_handler(
                run, self._call(run, part, [item for _, item in part])
            )
            if result.error is None:
                run.end_many(self._outcomes(result.value, part))
            elif len(part) > 1 and calls_left > 0 and type(result.error) is not HandlerTimeout:
                run.mark_calls([index for index, _ in part], CallState.WAITS)
                parts += [part[: len(part) // 2], part[len(part) // 2 :]]
            else:
                run.end_many((index, self._outcome(result, item)) for index, item in part)

    def _batches(self, work: Sequence[ItemAtIndex]) -> list[Sequence[ItemAtIndex]]:
        by_retries: dict[int, list[ItemAtIndex]] = {}
        if len({item.retries for _, item in work}) == 1:  # nearly always
            by_retries[work[0][1].retries] = list(work)
        else:
            for each in work:
                by_retries.setdefault(each[1].retries, []).append(each)
        batches: list[Sequence[ItemAtIndex]] = []
        for retries, alike in by_retries.items():
            size = max(1, self._batch_max // SHRINK_FACTOR ** min(retries, 5))
            batches += [alike[start : start + size] for start in range(0, len(alike), size)]
        return batches

    def _outcomes(
        self, value: object, part: Sequence[ItemAtIndex]
    ) -> list[tuple[int, ItemOutcome]]:
        try:
            if not isinstance(value, Sequence) or isinstance(value, str | bytes):
                verdicts, wrong = [], f"{type(value).__name__}, not a list of verdicts"
            else:
                verdicts = list(cast("Sequence[object]", value))
                wrong = f"{len(verdicts)} verdicts for {len(part)} items"
        except BaseException:  # noqa: BLE001  # the handler boundary: a sequence of its own
            verdicts, wrong = [], "a value that cannot be read"
        if len(verdicts) == len(part):
            indexes, items = zip(*part, strict=True)
            outcomes = outcomes_of_verdicts(verdicts, items, self.handler.options)
            return list(zip(indexes, outcomes, strict=True))
        outcome = parked(f"bad verdict: the handler returned {wrong}")
        return [(index, outcome) for index, _ in part]

    def _outcome(self, result: CallResult, item: DueItem) -> ItemOutcome:
        if result.error is None:
            return outcome_of_verdict(result.value, item, self.handler.options)
        return outcome_of_error(result.error, item, self.handler.options)

    async def _await_handler(self, run: OpenRun, call: Awaitable[object]) -> CallResult:
        """Await a handler's call. Only a cancellation by this worker is raised."""
        try:
            result = CallResult(await call, None)
        except asyncio.CancelledError as error:
            if run.is_cancelled:
                raise
            result = CallResult(None, error)
        except BaseException as error:  # noqa: BLE001  # the handler boundary
            result = CallResult(None, error)
        task = asyncio.current_task()
        if task is not None and task.cancelling() and not run.is_cancelled:
            # The handler cancelled its own task: clear that before the next call.
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
            while task.cancelling() and not run.is_cancelled:
                task.uncancel()
        return result

    def _call(
        self, run: OpenRun, work: Sequence[ItemAtIndex], *arguments: object
    ) -> Awaitable[object]:
        """Call the handler with its timeout, in a span if somebody records them."""
        call = self._call_in_span if is_tracing() else self._call_handler
        return call(run, work, *arguments)

    async def _call_in_span(
        self, run: OpenRun, work: Sequence[ItemAtIndex], *arguments: object
    ) -> object:
        items = [item for _, item in work]
        with call_span(run.kind, *trace_of_items(items)) as span:
            result = await self._call_handler(run, work, *arguments)
            span.set_verdict(result)
            return result

    async def _call_handler(
        self, run: OpenRun, work: Sequence[ItemAtIndex], *arguments: object
    ) -> object:
        run.mark_calls([index for index, _ in work], CallState.IN_CALL)
        seconds = self.handler.options.timeout_seconds
        if self.handler.is_async:
            limit = asyncio.timeout(seconds)
            # A handler that ignores its cancellation keeps its slot, but not its items.
            ignoring: list[OpenRun] = []
            ignored_timer = asyncio.get_running_loop().call_later(
                seconds + CANCEL_GRACE_SECONDS, self._handler_ignored_cancel, run, work, ignoring
            )
            try:
                async with limit:
                    return await cast("Awaitable[object]", self.handler.function(*arguments))
            except TimeoutError as error:
                if limit.expired():
                    raise self._timeout() from error
                raise
            finally:
                ignored_timer.cancel()
                self._count_overdue(-len(ignoring))
        call = call_in_thread(self.handler.function, *arguments)
        try:
            done, _ = await asyncio.wait({call}, timeout=seconds)
        finally:
            if not call.done():
                # A thread cannot be stopped. It keeps its slot until it ends.
                self.busy += 1
                self._slots.acquire_overdue()
                self._count_overdue(1)
                call.add_done_callback(self._overdue_ended)
        if not done:
            raise self._timeout()
        result = call.result()
        if result.error is not None:
            raise result.error
        return result.value

    def _handler_ignored_cancel(
        self, run: OpenRun, work: Sequence[ItemAtIndex], ignoring: list[OpenRun]
    ) -> None:
        ignoring.append(run)
        self._count_overdue(1)
        self._fail_unfinished(run, work, self._timeout())
        self._give_up_chunk(run, work[0][0])

    def _overdue_ended(self, call: object) -> None:
        self._count_overdue(-1)
        self._slots.release()
        self._call_ended(call)

    def _count_overdue(self, calls: int) -> None:
        self._overdue += calls
        if self._overdue < self.handler.options.concurrency:
            self.stuck_since = None
        elif self.stuck_since is None:
            self.stuck_since = monotonic()

    def _timeout(self) -> HandlerTimeout:
        return HandlerTimeout(f"no verdict within {self.handler.options.timeout_seconds:g} s")

    def _chunks(self, work: Sequence[ItemAtIndex]) -> list[Sequence[ItemAtIndex]]:
        """Return the items by transaction. One that lost a connection has a transaction to itself.

        So if it ends connections, it takes no others with it.
        """
        if self._batch_max == 1 or not self._losses.has_any:
            return self._batches(work)
        alone = [[each] for each in work if self._losses.has(each[1])]
        together = [each for each in work if not self._losses.has(each[1])]
        return [*self._batches(together), *alone]

    async def _work_chunks(
        self,
        run: OpenRun,
        chunks: deque[Sequence[ItemAtIndex]],
        current: list[ItemAtIndex],
    ) -> None:
        if self._pool is None:
            raise ValueError("a transactional handler needs a pool")

        async def call(at: ItemAtIndex, connection: Connection) -> CallResult:
            return await self._await_handler(run, self._call(run, [at], at[1], connection))

        while chunks and not run.is_cancelled:
            work = current[:] = run.without_ended(chunks.popleft())
            if not work or not await self._take_slot(run, work):
                continue
            chunk = Chunk(run, work, self.handler.options, self._losses, self._worker_no)
            self._open_chunks.add(chunk)
            began = monotonic()
            lent = self._pool.acquire()
            try:
                result = await self._await_handler(run, chunk.call_all(lent, call))
            finally:
                self._return_slot(began)
                self._open_chunks.discard(chunk)
            chunks.extendleft(reversed(chunk.end(lent, result.error)))
            if completed := chunk.completed:
                self._listener.on_items_completed(run, completed)
            crash_point("worker.handled")
            self._listener.on_items_ended(run)

    def _give_up_chunk(self, run: OpenRun, index: int) -> None:
        """Release what waits for a call that ignores its cancellation."""
        open_chunks = [chunk for chunk in self._open_chunks if chunk.run is run]
        for chunk in open_chunks:
            if any(at == index for at, _ in chunk.work):
                chunk.give_up()
        if len(open_chunks) == len(run.tasks) and all(each.is_given_up for each in open_chunks):
            run.end_many((at, HELD_UP) for at, _ in run.items_to_run())
        self._listener.on_items_ended(run)


class HandlerCall(NamedTuple):
    """A running call of a handler, with its items."""

    handler: Handler
    run: OpenRun
    work: Sequence[ItemAtIndex]


_CALL_CODE: Final = HandlerPool._call_handler.__code__  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def find_handler_call(stack: FrameType | None) -> HandlerCall | None:
    """Return the handler's call that a thread's stack is in, or None."""
    while stack is not None:
        if stack.f_code is _CALL_CODE:
            local_names = stack.f_locals
            return HandlerCall(local_names["self"].handler, local_names["run"], local_names["work"])
        stack = stack.f_back
    return None
