"""Isolated pools: suspects run in processes of their own, which die instead of the worker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, final

from dueledger.ledger.errors import InvalidHeader
from dueledger.ledger.store.runs import RunIsolation
from dueledger.workers.run.handler_pool import CANCEL_GRACE_SECONDS
from dueledger.workers.run.isolated_calls import IsolatedRun, ProcessCalls
from dueledger.workers.verdict_outcomes import parked

if TYPE_CHECKING:
    from dueledger.workers.item import DueItem
    from dueledger.workers.open_run import OpenRun
    from dueledger.workers.run.handler_pool import HandlerPool
    from dueledger.workers.run.isolated_messages import Program
    from dueledger.workers.run.listener import PoolListener

PROCESSES_MAX: Final = 4


@final
class IsolatedCalls:
    """The suspects of a worker: in one process, and in further ones beside slow handlers.

    Suspects of one handler are in one process at a time. Those that wait too long behind another
    handler's move to a process without items. So up to PROCESSES_MAX slow handlers delay no other.
    """

    def __init__(self, program: Program, listener: PoolListener) -> None:
        self.processes = tuple(
            ProcessCalls(program, listener, self._relieve) for _ in range(PROCESSES_MAX)
        )

    def close(self) -> None:
        """End the processes: the worker stops."""
        for each in self.processes:
            each.close()

    def add(self, run: OpenRun, pool: IsolatedPool, indexes: list[int]) -> None:
        """Run items of a run when their turn comes."""
        isolated = IsolatedRun(run, pool, len(indexes))
        run.tasks.add(task := asyncio.get_running_loop().create_task(self._hold(isolated)))

        def held(task: asyncio.Task[None]) -> None:
            run.tasks.discard(task)
            if not isolated.ended.is_set():  # it was cancelled, perhaps before it ran at all
                self._withdraw(isolated)

        task.add_done_callback(held)
        self._process_for(pool).add(isolated, indexes)

    def _process_for(self, pool: IsolatedPool) -> ProcessCalls:
        """Return the process that has items of the pool, else one that only waits for items."""
        return (
            next((each for each in self.processes if each.has_items_of(pool)), None)
            or next((each for each in self.processes if each.is_idle), None)
            or self.processes[0]
        )

    def _relieve(self, idle: ProcessCalls) -> None:
        """Move items to a process without any that wait for too long behind another handler's."""
        for each in self.processes:
            if parts := each.take_overdue():
                idle.take(parts)
                return

    async def _hold(self, isolated: IsolatedRun) -> None:
        """Wait for the end of a run's items; a cancellation ends them in the process, too."""
        try:
            await isolated.ended.wait()
        except asyncio.CancelledError:
            await self._cancel(isolated)
            raise

    def _withdraw(self, isolated: IsolatedRun) -> None:
        for each in self.processes:
            each.withdraw(isolated)

    async def _cancel(self, isolated: IsolatedRun) -> None:
        self._withdraw(isolated)
        try:
            async with asyncio.timeout(CANCEL_GRACE_SECONDS):
                await isolated.ended.wait()
        except BaseException as error:
            for each in self.processes:
                each.kill_if_in(isolated)
            if not isinstance(error, TimeoutError):
                raise


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
