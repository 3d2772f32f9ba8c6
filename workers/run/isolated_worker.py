"""The process in which a worker isolates suspects: it runs the handlers and dies with them.

Its worker keeps the leases and settles. Only the items of transactional handlers are settled here,
under the same run. The process ends when its worker does.
"""

from __future__ import annotations

import asyncio
import ctypes
import math
import os
import pickle
import select
import signal
import socket
import sys
import threading
from time import monotonic
from typing import TYPE_CHECKING, Final, NoReturn, assert_never, cast, final

from dueledger import __version__
from dueledger.ledger.claim_id import ClaimId
from dueledger.ledger.runtime.log import configure
from dueledger.ledger.store.runs import StartResult
from dueledger.workers.claim_slices import ClaimSlice
from dueledger.workers.handler_loading import load_handlers
from dueledger.workers.open_run import OpenRun
from dueledger.workers.run.handler_pools import HandlerPools
from dueledger.workers.run.isolated_messages import (
    LENGTH,
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
    Request,
    Settled,
    Stuck,
    framed,
)
from dueledger.workers.run.own_transaction import open_transactions
from dueledger.workers.verdict_outcomes import released

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dueledger.ledger.store import Pool
    from dueledger.workers.handlers import Handlers
    from dueledger.workers.open_run import CallState

ORPHANED: Final = 0
LEFT_ALONE: Final = 1
OTHER_VERSION: Final = 2
POLL_MILLISECONDS: Final = 250
PR_SET_PDEATHSIG: Final = 1  # of Linux: prctl(2)
NO_HANDLER: Final = released(
    "the process that isolates suspects has no handler for this kind, as after an installation",
    after_seconds=START_RETRY_SECONDS,
)


@final
class IsolatedHandlers:
    """Runs the calls that the worker sends, and sends it each outcome as soon as it is known."""

    def __init__(
        self, channel: socket.socket, handlers: Handlers, worker_no: int, pool: Pool | None
    ) -> None:
        self._channel = channel
        self._pools = HandlerPools(handlers, self, worker_no=worker_no, pool=pool)
        self._runs: dict[int, OpenRun] = {}
        self._call_nos: dict[OpenRun, int] = {}
        self._cancelling: set[asyncio.Task[None]] = set()

    @property
    def is_working(self) -> bool:
        """Whether a call has not ended."""
        return bool(self._runs)

    def send(self, reply: Reply) -> None:
        """Send a reply. It has left this process when this returns."""
        self._channel.sendall(framed(reply))

    def receive(self, request: Request) -> None:
        """Do what the worker requests."""
        match request:
            case Call():
                self._start(request)
            case Cancel(call_no=call_no):
                task = asyncio.get_running_loop().create_task(self._cancel(call_no))
                self._cancelling.add(task)
                task.add_done_callback(self._cancelling.discard)
            case Ping():
                self.send(Pong())
            case _:
                assert_never(request)

    def _start(self, call: Call) -> None:
        first, size = call.items[0], len(call.items)
        handler_pool = self._pools.find(call.kind, call.topic)
        if handler_pool is self._pools.unknown_kind:  # the worker has loaded it, perhaps long ago
            self.send(Ended(call.call_no, [(at, NO_HANDLER) for at in range(size)]))
            return
        start = StartResult(first.fence, 1, size, call.run_id, size, closed=True, withdrawn=())
        claim_id = ClaimId(first.fence, call.run_id.claimed_at, "")
        claim_slice = ClaimSlice(claim_id, call.kind, 1, 0, [*call.items])
        run = OpenRun(
            start,
            claim_slice,
            lease_until=math.inf,
            topic=call.topic,
            on_call=self._on_call,
            part=call.part,
        )
        self._runs[call.call_no], self._call_nos[run] = run, call.call_no
        handler_pool.reserve(size)
        handler_pool.start_run(run)

    async def _cancel(self, call_no: int) -> None:
        run = self._runs.get(call_no)
        if run is not None:
            run.cancel_handlers()
            if run.tasks:
                await asyncio.wait(run.tasks)
            self._forget(run)
        self.send(Cancelled(call_no))

    # Called by the handler pools.

    def _on_call(self, run: OpenRun, indexes: Sequence[int], state: CallState) -> None:
        if run in self._call_nos:
            self.send(Called(self._call_nos[run], indexes, state))

    def on_items_ended(self, run: OpenRun) -> None:
        """Send the outcomes."""
        call_no = self._call_nos.get(run)
        if call_no is None:
            return  # it was cancelled, or all of its items have ended
        ended = [(index, each) for index, each in enumerate(run.take_unsent()) if each is not None]
        if not run.open_count:
            self._forget(run)
        if ended:
            self.send(Ended(call_no, ended))
        self.on_call_ended()

    def on_items_completed(self, run: OpenRun, indexes: Sequence[int]) -> None:
        """Send that items of a run are in the ledger."""
        call_no = self._call_nos[run]
        if not run.open_count and not run.unsent_count:
            self._forget(run)
        self.send(Settled(call_no, indexes))

    def on_call_ended(self) -> None:
        """Send that the process should be replaced if a call cannot be stopped."""
        if any(handler_pool.overdue_calls for handler_pool in self._pools):
            self.send(Stuck())

    def _forget(self, run: OpenRun) -> None:
        self._runs.pop(self._call_nos.pop(run, 0), None)


def _read(channel: socket.socket) -> Program | Request:
    """Wait for the next message. The process ends with its worker."""
    (length,) = LENGTH.unpack(_read_bytes(channel, LENGTH.size))
    return pickle.loads(_read_bytes(channel, length))  # noqa: S301  # from its own worker


def _read_bytes(channel: socket.socket, count: int) -> bytes:
    body = bytearray()
    while len(body) < count:
        try:
            part = channel.recv(count - len(body))
        except ConnectionError:
            part = b""
        if not part:
            os._exit(ORPHANED)
        body += part
    return bytes(body)


def _go_on(number: int, frame: object) -> None:
    """Ignore a signal to stop: the worker has it too, and lets items end."""
    del number, frame


async def _run(channel: socket.socket, program: Program, handlers: Handlers) -> NoReturn:
    loop = asyncio.get_running_loop()
    async with open_transactions(program.dsn, handlers, program.worker_name) as transactions:
        calls = IsolatedHandlers(channel, handlers, program.worker_no, transactions)

        def read_requests() -> None:
            parent, ends_at = os.getppid(), math.inf
            readable = select.poll()
            readable.register(channel, select.POLLIN)
            while True:  # on a thread: a handler may block the event loop when the worker ends
                while not readable.poll(POLL_MILLISECONDS):
                    if os.getppid() != parent:  # a fork of it may have its end of the channel
                        os._exit(ORPHANED)
                    if calls.is_working and monotonic() >= ends_at:
                        os._exit(LEFT_ALONE)
                request = cast("Request", _read(channel))
                if isinstance(request, Ping):
                    ends_at = monotonic() + request.seconds
                loop.call_soon_threadsafe(calls.receive, request)

        calls.send(Ready())
        threading.Thread(target=read_requests, name="requests", daemon=True).start()
        while True:
            await asyncio.Event().wait()


def _end_with(parent: int) -> None:
    """Have the kernel end this process with its worker, even if a handler blocks every thread."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it died before
        os._exit(ORPHANED)


def main() -> None:
    """Load the handlers that the first message names, and run what follows."""
    _end_with(int(sys.argv[2]))
    for number in (signal.SIGTERM, signal.SIGINT):
        # Not ignored: programs that handlers start would inherit that.
        signal.signal(number, _go_on)
    channel = socket.socket(fileno=int(sys.argv[1]))
    program = cast("Program", _read(channel))
    if program.version != __version__:
        os._exit(OTHER_VERSION)
    configure(json=not sys.stderr.isatty())
    sys.path[:] = program.search_path
    asyncio.run(_run(channel, program, load_handlers(program.places)))


if __name__ == "__main__":
    main()
