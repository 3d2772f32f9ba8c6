"""The suspects that wait for one isolated process, and those in it: it dies instead of the worker.

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
from itertools import accumulate
from time import monotonic
from typing import TYPE_CHECKING, Final, assert_never, cast, final

from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.waiting import wait_for_event
from dueledger.workers.open_run import NOT_BEGUN, CallState, RunPart
from dueledger.workers.run.handler_pool import (
    CANCEL_GRACE_SECONDS,
    SHRINK_FACTOR,
    HandlerTimeout,
)
from dueledger.workers.run.isolated_messages import (
    START_RETRY_SECONDS,
    Call,
    Called,
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
from dueledger.workers.verdict_outcomes import outcome_of_error, released

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dueledger.workers.item import DueItem
    from dueledger.workers.open_run import OpenRun
    from dueledger.workers.run.isolated_pool import IsolatedPool
    from dueledger.workers.run.listener import PoolListener

CHECK_SECONDS: Final = 1.0
START_SECONDS: Final = 60.0  # the handlers' modules may be large
KEEP_SECONDS: Final = 60.0  # an idle process is kept for the next suspects for this long
WAIT_SECONDS_MAX: Final = 5.0  # behind another handler's items: a new process may take seconds
BYTES_MAX: Final = 16 * 1024 * 1024  # of payloads in the process, or one item
NEAR_END_SECONDS: Final = 0.5  # nothing begins so shortly before its run must end
NOT_STARTED: Final = released(
    "the process that isolates suspects did not start", after_seconds=START_RETRY_SECONDS
)

log = get_logger("worker")


class HandlerProcessDied(Exception):  # its name is what the journal shows
    """The process of a handler died while it worked one item, and nothing else before."""


@dataclass(slots=True, eq=False)
class IsolatedRun:
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
class Part:
    """Items of a run, by index, that wait together or were sent together."""

    of: IsolatedRun
    indexes: list[int]
    suspects_max: int
    since: float
    has_begun: bool = False

    @property
    def items(self) -> list[DueItem]:
        """The items."""
        return [cast("DueItem", self.of.run.items[index]) for index in self.indexes]

    def split(self, count: int) -> Part:
        """Cut off the first `count` items."""
        head, self.indexes = self.indexes[:count], self.indexes[count:]
        return Part(self.of, head, self.suspects_max, self.since, self.has_begun)


@dataclass(slots=True, eq=False)
class _SentCall:
    """A part in the process: the index in the run by that in the call, until the item ends."""

    of: IsolatedRun
    left: dict[int, int]
    suspects_max: int
    size_bytes: int


@final
class ProcessCalls:
    """The items that wait for one isolated process, and those in it."""

    def __init__(
        self,
        program: Program,
        listener: PoolListener,
        relieve: Callable[[ProcessCalls], None],
    ) -> None:
        """`relieve` is called from time to time while it has no items; it may give it some."""
        self._program = program
        self._relieve = relieve
        self._listener = listener
        self._waiting: deque[Part] = deque()
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
        await wait_for_event(self._wake, CHECK_SECONDS)
        self._wake.clear()
        if not self._waiting:
            self._relieve(self)
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

    @property
    def is_idle(self) -> bool:
        """Whether the process runs, and has no items."""
        return self._is_ready and self._process is not None and not self._has_items

    @property
    def _has_items(self) -> bool:
        return bool(self._waiting or self._calls)

    def has_items_of(self, pool: IsolatedPool) -> bool:
        """Return whether items of the pool wait or are in the process."""
        return any(run.pool is pool for run in self._runs())

    def _runs(self) -> Iterable[IsolatedRun]:
        yield from (part.of for part in self._waiting)
        yield from (call.of for call in self._calls.values())

    def add(self, isolated: IsolatedRun, indexes: list[int]) -> None:
        """Run items of a run when their turn comes."""
        self.take([Part(isolated, indexes, isolated.run.suspects_max or 1, monotonic())])

    def take(self, parts: Iterable[Part]) -> None:
        """Let parts wait for this process."""
        self._waiting.extend(parts)
        self._send_next()

    def take_overdue(self) -> list[Part]:
        """Cut off the items of one pool that wait for too long behind those of other pools.

        Items of a process that died are not among them: the next one there is given them first.
        """
        kept = {part.of.pool for part in self._waiting if part.has_begun}
        kept |= {call.of.pool for call in self._calls.values()}
        overdue_since = monotonic() - WAIT_SECONDS_MAX
        overdue = next(
            (
                part.of.pool
                for part in self._waiting
                if part.since <= overdue_since and part.of.pool not in kept
            ),
            None,
        )
        if overdue is None or not kept:  # they wait for the process itself
            return []
        taken = [part for part in self._waiting if part.of.pool is overdue]
        self._waiting = deque(part for part in self._waiting if part.of.pool is not overdue)
        return taken

    def _release_unbegun(self, run: OpenRun) -> None:
        """Release the items of a run that no process had yet: it must end soon."""
        for part in [each for each in self._waiting if each.of.run is run and not each.has_begun]:
            self._waiting.remove(part)
            run.end_many((index, NOT_BEGUN) for index in part.indexes)
            part.of.end_items(len(part.indexes))
            self._listener.on_items_ended(run)

    def withdraw(self, isolated: IsolatedRun) -> None:
        """Drop the waiting items of a run, and cancel those in the process."""
        for part in [each for each in self._waiting if each.of is isolated]:
            self._waiting.remove(part)
            isolated.end_items(len(part.indexes))
        if self._process is None:
            return
        for call_no, call in self._calls.items():
            if call.of is isolated:
                self._process.send(Cancel(call_no))

    def kill_if_in(self, isolated: IsolatedRun) -> None:
        """End the process if items of a run are in it: they cannot be cancelled."""
        if self._process is not None and any(c.of is isolated for c in self._calls.values()):
            self._process.kill()

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
                self._release_unbegun(first.of.run)
                continue
            limit = min([first.suspects_max, *(each.suspects_max for each in self._calls.values())])
            count = limit - sum(len(each.left) for each in self._calls.values())
            if count <= 0:
                return
            bytes_free = BYTES_MAX - sum(each.size_bytes for each in self._calls.values())
            sizes = list(accumulate(len(item.payload) for item in first.items[:count]))
            fitting = sum(size <= bytes_free for size in sizes)
            if not fitting and self._calls:
                return
            part = first.split(max(1, fitting))
            if not first.indexes:
                self._waiting.popleft()
            self._send(process, part, sizes[len(part.indexes) - 1])

    def _send(self, process: IsolatedProcess, part: Part, size_bytes: int) -> None:
        self._call_no += 1
        left = dict(enumerate(part.indexes))
        self._calls[self._call_no] = _SentCall(part.of, left, part.suspects_max, size_bytes)
        run, items = part.of.run, part.items
        process.items_begun += len(items)
        self._ping(process)  # first, or the process might end by an older one
        of_run = RunPart(len(run.items), part.indexes)
        process.send(Call(self._call_no, run.kind, run.topic, run.id, of_run, items))

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
            case Called(call_no=call_no, at=at, state=state):
                if call_no in self._calls:
                    call = self._calls[call_no]
                    call.of.run.mark_calls(
                        [call.left[each] for each in at if each in call.left], state
                    )
            case Ended(call_no=call_no, outcomes=outcomes):
                call = self._calls[call_no]
                call.of.run.end_many((call.left.pop(at), each) for at, each in outcomes)
                self._end_items(call_no, len(outcomes))
            case Settled(call_no=call_no, at=at):
                self._complete(call_no, at)
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

    def _complete(self, call_no: int, at: Sequence[int]) -> None:
        call = self._calls[call_no]
        indexes = [call.left.pop(each) for each in at]
        for index in indexes:
            call.of.run.mark_ended_in_ledger(index)
        self._listener.on_items_completed(call.of.run, indexes)
        self._end_items(call_no, len(indexes))

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
            if not self._has_items:
                self._relieve(self)
            idle_checks = 0 if self._has_items else idle_checks + 1
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
        elif count == process.items_begun == 1 and not is_late and not self._is_closed:
            self._blame(calls[0], process)
        else:
            for call in calls:
                call.of.run.mark_calls(list(call.left.values()), CallState.WAITS)
            suspects_max, now = max(1, count // SHRINK_FACTOR), monotonic()
            self._waiting.extendleft(
                Part(call.of, list(call.left.values()), suspects_max, now, has_begun=True)
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
