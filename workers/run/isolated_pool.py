"""Isolated pools: suspects run in a process of their own, which dies instead of the worker.

When that process dies, at most an eighth as many of the items that it worked run together next, in
a new one. An item is blamed only when a process that was given nothing else dies of it. So the
others complete, no lease has to lapse, and the worker goes on with everything else.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from contextlib import aclosing
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Final, assert_never, cast, final

from dueledger.ledger.errors import InvalidHeader
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.waiting import wait_for_event
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store.runs import RunIsolation
from dueledger.workers.run.handler_pool import (
    CANCEL_GRACE_SECONDS,
    SHRINK_FACTOR,
    HandlerTimeout,
)
from dueledger.workers.run.isolated_messages import (
    Call,
    Cancel,
    Cancelled,
    Ended,
    Ping,
    Pong,
    Program,
    Ready,
    Reply,
    Settled,
    Stuck,
)
from dueledger.workers.run.isolated_process import IsolatedProcess
from dueledger.workers.verdict_outcomes import outcome_of_error, parked, released

if TYPE_CHECKING:
    from dueledger.workers.item import DueItem
    from dueledger.workers.open_run import OpenRun
    from dueledger.workers.run.handler_pool import HandlerPool
    from dueledger.workers.run.listener import PoolListener

IDLE_SECONDS: Final = 0.25
CHECK_SECONDS: Final = 1.0
START_SECONDS: Final = 60.0  # the handlers' modules may be large
KEEP_SECONDS: Final = 60.0  # an idle process is kept for the next suspects for this long
START_RETRY_SECONDS: Final = 5.0
NEAR_END_SECONDS: Final = 0.5  # nothing begins so shortly before its run must end
NOT_STARTED: Final = released(
    "the process that isolates suspects did not start", after_seconds=START_RETRY_SECONDS
)
NOT_BEGUN: Final = released("other suspects ran until its run had to end")

log = get_logger("worker")


class HandlerProcessDied(Exception):  # its name is what the journal shows
    """The process of a handler died while it worked one item, and nothing else before."""


@dataclass(slots=True, eq=False)
class _IsolatedRun:
    """A run of suspects, and how many of its items wait or are in the process."""

    run: OpenRun
    pool: IsolatedPool
    left: int
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def end_items(self, count: int) -> None:
        """Release the capacity of items that neither wait nor run any more."""
        self.pool.release(self.left)
        self.left -= count
        self.pool.reserve(self.left)
        if not self.left:
            self.ended.set()


@dataclass(slots=True, eq=False)
class _Part:
    """Items of a run, by index, that wait together or were sent together."""

    of: _IsolatedRun
    indexes: list[int]
    suspects_max: int
    has_begun: bool = False

    def split(self, count: int) -> _Part:
        """Cut off the first `count` items."""
        head, self.indexes = self.indexes[:count], self.indexes[count:]
        return _Part(self.of, head, self.suspects_max, self.has_begun)


@dataclass(slots=True, eq=False)
class _SentCall:
    """A part in the process: the index in the run by that in the call, until the item ends."""

    of: _IsolatedRun
    left: dict[int, int]
    suspects_max: int


@final
class IsolatedCalls:
    """The items that wait for a worker's isolated process, and those in it."""

    def __init__(self, program: Program, listener: PoolListener) -> None:
        self._program = program
        self._listener = listener
        self._waiting: deque[_Part] = deque()
        self._calls: dict[int, _SentCall] = {}
        self._call_no = 0
        self._process: IsolatedProcess | None = None
        self._is_ready = self._is_stuck = self._is_silent = self._is_closed = False
        self._checks_without_reply = 0
        self._ends_at = math.inf  # the process may end itself from then on
        self._is_late = False
        self._wake = asyncio.Event()

    async def tick(self) -> dict[str, int]:
        """Run one process, from its start to its end, if items wait for one."""
        await wait_for_event(self._wake, IDLE_SECONDS)
        self._wake.clear()
        if not self._waiting or self._is_closed:
            return {}
        try:
            process = await IsolatedProcess.start(self._program)
        except OSError as error:
            self._release_all(str(error))
            return {}
        if self._is_closed:
            process.kill()
        self._process = process
        self._is_ready = self._is_stuck = self._is_silent = self._is_late = False
        self._checks_without_reply = 0
        self._ends_at = math.inf
        checking = asyncio.create_task(self._check(process))
        try:
            async with aclosing(process.replies()) as replies:
                async for reply in replies:
                    self._receive(reply)
        finally:
            checking.cancel()
            self._process = None
            self._end_calls(process)
        return {"processes": 1}

    def close(self) -> None:
        """End the process: the worker stops."""
        self._is_closed = True
        self._wake.set()
        if self._process is not None:
            self._process.kill()

    def add(self, run: OpenRun, pool: IsolatedPool, indexes: list[int]) -> None:
        """Run items of a run when their turn comes."""
        isolated = _IsolatedRun(run, pool, len(indexes))
        run.tasks.add(task := asyncio.get_running_loop().create_task(self._hold(isolated)))

        def held(task: asyncio.Task[None]) -> None:
            run.tasks.discard(task)
            if not isolated.ended.is_set():  # it was cancelled, perhaps before it ran at all
                self._withdraw(isolated)

        task.add_done_callback(held)
        self._waiting.append(_Part(isolated, indexes, run.suspects_max or 1))
        self._send_next()

    def release_unbegun(self, run: OpenRun) -> None:
        """Release the items of a run that no process had yet: its lease is nearly over."""
        for part in [each for each in self._waiting if each.of.run is run and not each.has_begun]:
            self._waiting.remove(part)
            run.end_many((index, NOT_BEGUN) for index in part.indexes)
            part.of.end_items(len(part.indexes))
            self._listener.on_items_ended(run)

    async def _hold(self, isolated: _IsolatedRun) -> None:
        """Wait for the end of a run's items; a cancellation ends them in the process, too."""
        try:
            await isolated.ended.wait()
        except asyncio.CancelledError:
            await self._cancel(isolated)
            raise

    def _withdraw(self, isolated: _IsolatedRun) -> None:
        for part in [each for each in self._waiting if each.of is isolated]:
            self._waiting.remove(part)
            isolated.end_items(len(part.indexes))
        if self._process is None:
            return
        for call_no, call in self._calls.items():
            if call.of is isolated:
                self._process.send(Cancel(call_no))

    async def _cancel(self, isolated: _IsolatedRun) -> None:
        self._withdraw(isolated)
        process = self._process
        if isolated.ended.is_set() or process is None:
            return
        try:
            async with asyncio.timeout(CANCEL_GRACE_SECONDS):
                await isolated.ended.wait()
        except BaseException as error:
            process.kill()
            if not isinstance(error, TimeoutError):
                raise

    # To the process.

    def _send_next(self) -> None:
        """Send waiting items, in order, as many as may run together."""
        while self._waiting:
            process = self._process
            if process is None:
                self._wake.set()
                return
            if self._is_stuck and not self._calls:
                process.kill()
            if not self._is_ready or self._is_stuck:
                return
            first = self._waiting[0]
            if not first.has_begun and first.of.run.stop_at - monotonic() < NEAR_END_SECONDS:
                self.release_unbegun(first.of.run)
                continue
            limit = min([first.suspects_max, *(each.suspects_max for each in self._calls.values())])
            count = limit - sum(len(each.left) for each in self._calls.values())
            if count <= 0:
                return
            part = first.split(count)
            if not first.indexes:
                self._waiting.popleft()
            self._send(process, part)

    def _send(self, process: IsolatedProcess, part: _Part) -> None:
        self._call_no += 1
        call = _SentCall(part.of, dict(enumerate(part.indexes)), part.suspects_max)
        self._calls[self._call_no] = call
        run = part.of.run
        items = [cast("DueItem", run.items[index]) for index in part.indexes]
        process.items_begun += len(items)
        self._ping(process)  # first, or the process might end by an older one
        process.send(Call(self._call_no, run.kind, run.topic, run.id, items))

    def _ping(self, process: IsolatedProcess) -> None:
        now = monotonic()
        self._is_late |= now >= self._ends_at
        runs = [call.of.run for call in self._calls.values() if not call.of.run.is_cancelled]
        stop_at = min((run.stop_at for run in runs), default=math.inf)
        self._ends_at = stop_at + CANCEL_GRACE_SECONDS
        process.send(Ping(self._ends_at - now))

    # From the process.

    def _receive(self, reply: Reply) -> None:
        self._checks_without_reply = 0
        match reply:
            case Ready():
                self._is_ready = True
            case Ended(call_no=call_no, outcomes=outcomes):
                call = self._calls[call_no]
                call.of.run.end_many((call.left.pop(at), each) for at, each in outcomes)
                self._end_items(call_no, len(outcomes))
            case Settled(call_no=call_no, at=at):
                call = self._calls[call_no]
                call.of.run.mark_ended_in_ledger(call.left.pop(at))
                self._listener.on_item_settled(call.of.run, TransitionEvent.COMPLETED)
                self._end_items(call_no, 1)
            case Cancelled(call_no=call_no):
                if call_no in self._calls:
                    count = len(self._calls[call_no].left)
                    self._calls[call_no].left.clear()
                    self._end_items(call_no, count)
            case Stuck():
                self._is_stuck = True
            case Pong():
                pass
            case _:
                assert_never(reply)
        self._send_next()

    def _end_items(self, call_no: int, count: int) -> None:
        call = self._calls[call_no]
        if not call.left:
            del self._calls[call_no]
        if not self._calls:
            self._ends_at = math.inf
        call.of.end_items(count)
        self._listener.on_items_ended(call.of.run)
        self._listener.on_call_ended()

    # The end of the process.

    async def _check(self, process: IsolatedProcess) -> None:
        """End a process that does not reply, and one that has had no items for a time.

        Checks are counted, not time: while this worker is stopped, no time passes for the process.
        """
        idle_checks = 0
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            self._checks_without_reply += 1
            if self._is_ready and not self._calls:
                self._checks_without_reply = 0
            idle_checks = 0 if self._calls or self._waiting else idle_checks + 1
            longest = max(
                (each.of.pool.handler.options.timeout_seconds for each in self._calls.values()),
                default=0.0,
            )
            allowed = longest + CANCEL_GRACE_SECONDS if self._is_ready else START_SECONDS
            if self._calls:
                self._ping(process)
            if self._checks_without_reply * CHECK_SECONDS > allowed and not idle_checks:
                self._is_silent = True
                process.kill()
            elif idle_checks * CHECK_SECONDS > KEEP_SECONDS:
                process.kill()

    def _end_calls(self, process: IsolatedProcess) -> None:
        """Blame the item that ran alone, or run those of a dead process again, fewer at once."""
        calls = list(self._calls.values())
        self._calls.clear()
        is_late = self._is_late or monotonic() >= self._ends_at  # it may have ended for that
        for call in calls:
            if call.of.run.is_cancelled:
                call.of.end_items(len(call.left))
        calls = [call for call in calls if not call.of.run.is_cancelled]
        count = sum(len(call.left) for call in calls)
        if count:
            log.warning(
                LogEvent.ISOLATED_PROCESS_DIED,
                end=process.describe_end(),
                kinds=sorted({call.of.run.kind for call in calls}),
                items=count,
            )
        if not self._is_ready:
            self._release_all(process.describe_end())
        elif count == process.items_begun == 1 and not is_late:
            self._blame(calls[0], process)
        else:
            suspects_max = max(1, count // SHRINK_FACTOR)
            self._waiting.extendleft(
                _Part(call.of, list(call.left.values()), suspects_max, has_begun=True)
                for call in reversed(calls)
            )
        if self._waiting:
            self._wake.set()

    def _blame(self, call: _SentCall, process: IsolatedProcess) -> None:
        run, options = call.of.run, call.of.pool.handler.options
        (index,) = call.left.values()
        if self._is_silent:
            error: Exception = HandlerTimeout(
                f"no verdict within {options.timeout_seconds:g} s; its process was blocked"
            )
        else:
            error = HandlerProcessDied(f"its process {process.describe_end()} while it ran alone")
        run.end(index, outcome_of_error(error, cast("DueItem", run.items[index]), options))
        call.of.end_items(1)
        self._listener.on_items_ended(run)
        self._listener.on_call_ended()

    def _release_all(self, reason: str) -> None:
        """Release what waits: others may be able to start such a process."""
        if not self._waiting:
            return
        log.error(
            LogEvent.ISOLATED_PROCESS_NOT_STARTED,
            reason=reason,
            retry_seconds=START_RETRY_SECONDS,
        )
        while self._waiting:
            part = self._waiting.popleft()
            part.of.run.end_many((index, NOT_STARTED) for index in part.indexes)
            part.of.end_items(len(part.indexes))
            self._listener.on_items_ended(part.of.run)
        self._listener.on_call_ended()


@final
class IsolatedPool:
    """The suspects of one handler. They may take as many calls again as the other items."""

    isolation = RunIsolation.PROCESS

    def __init__(self, handler_pool: HandlerPool, calls: IsolatedCalls) -> None:
        self.handler = handler_pool.handler
        self.run_items_max = handler_pool.run_items_max
        options = self.handler.options
        self._batch_max = options.batch_max
        self._free_calls = options.concurrency
        self._calls = calls

    @property
    def free_items(self) -> int:
        """How many more items may be started."""
        return max(0, self._free_calls) * self._batch_max

    def reserve(self, count: int) -> None:
        """Reserve the capacity for items of one slice: they may be called together, or not."""
        self._free_calls -= -(-count // self._batch_max)

    def release(self, count: int) -> None:
        """Release the capacity of a slice that ended or was not started."""
        self._free_calls += -(-count // self._batch_max)

    def start_run(self, run: OpenRun) -> None:
        """Run the items in the process. Capacity for all of them must be reserved."""
        readable = [index for index, item in run.items_to_run() if _is_readable(run, index, item)]
        self.release(len(run.items))
        self.reserve(len(readable))
        if readable:
            self._calls.add(run, self, readable)


def _is_readable(run: OpenRun, index: int, item: DueItem) -> bool:
    """Return whether the item can be sent; otherwise park it, as its handler would see it."""
    try:
        return bool(item.kind)
    except InvalidHeader as error:
        run.end(index, parked(f"malformed record: {error}"))
        return False
