"""The crew of one kind: how many calls of its handler run at once, and how each call ends.

The handler boundary is here: whatever a handler does, its items end in an outcome.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol, cast, final

from ledger.service import crash_point
from ledger.states import TransitionEvent
from ledger.store.runs import Outcome, Refusal, Settlement, settle_runs
from workers.handlers import Form, Handler
from workers.outcomes import Ending, ending_of, ending_of_error, parked
from workers.thread import Answer, call_in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine

    from ledger.store import Connection, Pool
    from workers.item import DueItem
    from workers.run import OpenRun

# As the reaper does with runs that died: a batch that fails comes back in ever smaller ones, so
# that one poison item fails alone and its neighbours complete.
SHRINK_FACTOR: Final = 8
RUN_ITEMS_MAX: Final = 1_000_000  # a claim is smaller
CONTENDED_TRIES_MAX: Final = 50

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


class RunLost(Exception):  # its name is what the journal shows
    """The ledger refused a completion, so the handler's writes were rolled back."""


@final
class Crew:
    """Runs one handler. `room` is in items, so that only what will run now is started."""

    def __init__(
        self, handler: Handler, foreman: Foreman, *, worker_no: int, pool: Pool | None = None
    ) -> None:
        self.handler = handler
        self.busy = 0
        self._foreman = foreman
        self._worker_no = worker_no
        self._pool = pool
        self._batch_max = handler.options.batch_max

    @property
    def room(self) -> int:
        """How many more items may be started."""
        return max(0, self.handler.options.concurrency - self.busy) * self._batch_max

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
                    self._spawn(run, self._work_batches(run, batches))
            case Form.SINGLE:
                for index, item in work:
                    self._spawn(run, self._work_single(run, index, item))
            case Form.TRANSACTION:
                for index, item in work:
                    self._spawn(run, self._work_transaction(run, index, item))

    def _calls(self, count: int) -> int:
        return -(-count // self._batch_max)

    def _spawn(self, run: OpenRun, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        run.tasks.add(task)
        task.add_done_callback(run.tasks.discard)
        task.add_done_callback(self._call_ended)

    def _call_ended(self, _: object) -> None:
        self.busy -= 1
        self._foreman.call_ended()

    async def _work_single(self, run: OpenRun, index: int, item: DueItem) -> None:
        answer = await self._guarded(self._call(item))
        run.end(index, self._ending(answer, item))
        crash_point("worker.handled")
        self._foreman.items_ended(run)

    async def _work_batches(self, run: OpenRun, batches: deque[Sequence[Work]]) -> None:
        while batches and not run.is_stopped:
            batch = batches.popleft()
            await self._work_batch(run, batch)
            crash_point("worker.handled")
            self._foreman.items_ended(run)

    async def _work_batch(self, run: OpenRun, batch: Sequence[Work]) -> None:
        """Call the handler once; halve a batch that raised until what is left fails alone."""
        parts = deque([batch])
        calls_left = 4 * len(batch).bit_length()
        while parts and not run.is_stopped:
            part = parts.popleft()
            calls_left -= 1
            answer = await self._guarded(self._call([item for _, item in part]))
            if answer.error is None:
                run.end_many(self._endings(answer.value, part))
            elif len(part) > 1 and calls_left > 0 and not isinstance(answer.error, HandlerTimeout):
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
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            wrong = f"{type(value).__name__}, not a list of verdicts"
        elif len(verdicts := cast("Sequence[object]", value)) != len(part):
            wrong = f"{len(verdicts)} verdicts for {len(part)} items"
        else:
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

    async def _guarded(self, call: Awaitable[object]) -> Answer:
        """Await a handler's call; only being cancelled from outside gets through."""
        try:
            return Answer(await call, None)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return Answer(None, error)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # the handler boundary
            return Answer(None, error)

    async def _call(self, *arguments: object) -> object:
        """Call the handler within its time."""
        seconds = self.handler.options.timeout_seconds
        if self.handler.is_async:
            limit = asyncio.timeout(seconds)
            try:
                async with limit:
                    return await cast("Awaitable[object]", self.handler.function(*arguments))
            except TimeoutError as error:
                if limit.expired():
                    raise self._timeout() from error
                raise
        call = call_in_thread(self.handler.function, *arguments)
        try:
            done, _ = await asyncio.wait({call}, timeout=seconds)
        finally:
            if not call.done():
                # A thread cannot be stopped. It keeps its place in the crew until it ends.
                self.busy += 1
                call.add_done_callback(self._call_ended)
        if not done:
            raise self._timeout()
        answer = call.result()
        if answer.error is not None:
            raise answer.error
        return answer.value

    def _timeout(self) -> HandlerTimeout:
        return HandlerTimeout(f"no answer within {self.handler.options.timeout_seconds:g} s")

    async def _work_transaction(self, run: OpenRun, index: int, item: DueItem) -> None:
        answer = await self._guarded(self._transact(run, index, item))
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
                ending = ending_of(await self._call(item, connection), item, self.handler.options)
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
