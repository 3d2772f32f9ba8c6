"""The presence of a process in the ledger: its row, renewed while it lives, and its lock.

Both are on a connection of the process's own, so that the lock ends when the process does.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from importlib.metadata import version
from time import monotonic
from typing import Final, NamedTuple, TypeVar, final

from dueledger.ledger.errors import Unavailable
from dueledger.ledger.metrics import METRICS, Metric, Sample
from dueledger.ledger.runtime.ledger_clock import LedgerClock
from dueledger.ledger.runtime.service import Stop, run_service
from dueledger.ledger.runtime.waiting import wait_for_event
from dueledger.ledger.store import (
    ANSWER_SECONDS,
    CONNECTION_ERRORS,
    Connection,
    OwnConnection,
    answered_in_time,
    connect,
    is_lost,
)
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.processes import (
    KindTenants,
    ProcessFailure,
    ProcessLock,
    ProcessRole,
    ProcessTick,
    WokenFlow,
    end_process,
    end_sleep,
    is_seen_by_all,
    parse_woken_flow,
    record_drain,
    record_process_failure,
    record_process_kinds,
    register_process,
    register_sleep,
    renew_process,
)
from dueledger.ledger.visible_text import visible

CHECK_SECONDS: Final = 1.0
END_SECONDS: Final = 1.0
CONFIRMED_SECONDS: Final = 2.25
"""After the lock was confirmed for the last time, its process is asked once more, for
`CONFIRM_SECONDS`; a worker then stops its handlers, within three seconds in all."""
CONFIRM_SECONDS: Final = 0.5

FAILURE_CHARS_MAX: Final = 200

T = TypeVar("T")

_ACTOR_KINDS: Final = {
    ProcessRole.ALLOCATOR: ActorKind.ALLOCATOR,
    ProcessRole.WORKER: ActorKind.WORKER,
    ProcessRole.DIRECT_WORKER: ActorKind.WORKER,
    ProcessRole.OUTCOME_INTAKE: ActorKind.WORKER,
    ProcessRole.INTAKE: ActorKind.INTAKE,
    ProcessRole.MATERIALISER: ActorKind.MATERIALISER,
    ProcessRole.RECONCILER: ActorKind.RECONCILER,
    ProcessRole.RELAY: ActorKind.RELAY,
    ProcessRole.SERVICE: ActorKind.API,
    ProcessRole.ALERTER: ActorKind.ALERTER,
}


class _Tick(NamedTuple):
    ended_at: float
    seconds: float
    outbox_items: int | None


class _Served(NamedTuple):
    kinds: Sequence[str] | None
    tenants: KindTenants | None = None


@final
class Presence:
    """Keeps the row and the lock of a process. `process_no` is its actor number.

    `losses` counts how often its leases may have been ended, because its lock was missing.

    After a lost connection it opens another one at once, and takes the lock again, if Postgres can
    be reached.
    """

    def __init__(
        self,
        dsn: str,
        name: str,
        role: ProcessRole,
        *,
        yields: bool = False,
        kinds: Sequence[str] | None = None,
        does_upkeep: bool | None = None,
        stop: Stop | None = None,
    ) -> None:
        """With `yields`, the process stops its handlers while `is_confirmed` is false.

        `kinds` are those that a worker has handlers for. `does_upkeep` is None where its role says.
        Somebody may ask for a process's `stop` in the ledger.
        """
        self.process_no = 0
        self.losses = 0
        self._yields = yields
        self._served = self._recorded = _Served(kinds)
        self._does_upkeep = does_upkeep
        self._stop = stop
        self._is_drain_recorded = False
        self._failure = self._recorded_failure = ProcessFailure()
        self._tick: _Tick | None = None
        self._confirmed_at = float("-inf")
        self._dsn = dsn
        self._name = name
        self._role = role
        self._clock = LedgerClock()
        self._connection: OwnConnection | None = None
        self._lock = ProcessLock(is_direct=True, is_locked=False, has_lapsed=False)
        self._session_no = 0
        self._in_use = asyncio.Lock()
        self._renewed = asyncio.Event()
        self._is_awaited = asyncio.Event()
        self._on_woken: Callable[[WokenFlow | None], None] | None = None
        self._on_forgotten: Callable[[], None] | None = None

    async def open(self) -> None:
        """Register the process. Raises Unavailable without Postgres."""
        connection = await self._connect()
        async with answered_in_time(connection):
            self.process_no = await self._register_actor(connection)
            await self._register(connection)

    async def tick(self) -> dict[str, int]:
        """Renew the row, and take the lock if the process lacks it."""
        async with self._in_use:
            is_new = (connection := self._usable()) is None
            connection = connection or await self._connect()
            async with answered_in_time(connection):
                if is_new:
                    await self._require_number(connection)
                if is_new or (self._lock.is_direct and not self._lock.is_locked):
                    await self._register(connection)
                else:
                    asked_at = monotonic()
                    beat = await renew_process(connection, self.process_no, self._last_tick())
                    self._clock.read(beat.now, asked_at)
                    self._confirmed_at = asked_at
                    await self._drain(connection, is_asked=beat.is_drain_asked)
                if (failure := self._failure) != self._recorded_failure:
                    await record_process_failure(connection, self.process_no, failure)
                    self._recorded_failure = failure
                if (served := self._served) != self._recorded:
                    await record_process_kinds(connection, self.process_no, *served)
                    self._recorded = served
        self._renewed.set()
        return {}

    async def pause_seconds(self) -> float:
        """Wait for a second, or until the connection is lost; return no further pause."""
        await wait_for_event(self._is_awaited, CHECK_SECONDS)
        self._is_awaited.clear()
        return 0.0

    def tick_soon(self) -> None:
        """End the pause before the next tick."""
        self._is_awaited.set()

    def ledger_now(self) -> datetime | None:
        """Return the business clock for a metric; no decision may use it."""
        return self._clock.now()

    def serve_kinds(self, kinds: Sequence[str], tenants: KindTenants | None = None) -> None:
        """Let the ledger know soon for which kinds the process has workers.

        Of kinds in `tenants`, it takes the items of these tenants alone.
        """
        self._served = _Served(kinds, tenants)

    def report_tick(self, began_at: float, *, outbox_items: int | None = None) -> None:
        """Let the ledger know soon that a pass of the process's loop ended, which began then.

        A relay gives the rows of its outbox that wait.
        """
        ended_at = monotonic()
        self._tick = _Tick(ended_at, ended_at - began_at, outbox_items)

    def _last_tick(self) -> ProcessTick:
        if (last := self._tick) is None:
            return ProcessTick()
        return ProcessTick(monotonic() - last.ended_at, last.seconds, last.outbox_items)

    # Failures.

    def report_success(self, unavailable_topics: Mapping[str, str] | None = None) -> None:
        """Let the ledger know soon that the process takes work, but for these topics' items."""
        self._failure = ProcessFailure(unavailable_topics=dict(unavailable_topics or {}))

    def report_failure(self, error: BaseException) -> None:
        """Let the ledger know soon that the process cannot take work, and why."""
        if not isinstance(error, Exception):  # it was cancelled
            return
        text = str(error).partition("\n")[0]
        service = error.fields.get("service") if isinstance(error, Unavailable) else None
        self._failure = ProcessFailure(
            visible(f"{type(error).__name__}: {text}")[:FAILURE_CHARS_MAX],
            None if service is None else str(service),
            self._failure.unavailable_topics,
        )

    def reporting(self, attempt: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
        """Return an attempt to take work that reports its failure or success."""

        async def reported() -> T:
            try:
                result = await attempt()
            except BaseException as error:
                self.report_failure(error)
                raise
            self.report_success()
            return result

        return reported

    async def _drain(self, connection: Connection, *, is_asked: bool) -> None:
        """Request the stop if somebody asked for it, and record that the process drains."""
        if self._stop is None:
            return
        if is_asked:
            self._stop.request()
        if self._stop.is_requested and not self._is_drain_recorded:
            await record_drain(connection, self.process_no)
            self._is_drain_recorded = True

    # The number.

    def on_forgotten(self, call: Callable[[], None]) -> None:
        """Set what is called when the ledger does not know the process under its number."""
        self._on_forgotten = call

    async def _register_actor(self, connection: Connection) -> int:
        return await register_actor(connection, self._name, _ACTOR_KINDS[self._role])

    async def _require_number(self, connection: Connection) -> None:
        """Raise Unavailable if the ledger gave the process another number, or none.

        It went back to a state from before: others may get the number, and the journal names them.
        """
        if await self._register_actor(connection) == self.process_no:
            return
        call, self._on_forgotten = self._on_forgotten, None
        if call is not None:
            call()
        raise _forgotten()

    # The lock.

    @property
    def is_confirmed(self) -> bool:
        """Return whether runs are this process's: by its lock, or because leases alone decide."""
        decides = self._yields and self._lock.is_locked
        return not decides or monotonic() < self._confirmed_at + CONFIRMED_SECONDS

    async def confirm(self) -> bool:
        """Return whether runs are this process's, after asking the server once more.

        It may be that only the event loop was blocked.
        """
        if not self.is_confirmed:
            with suppress(TimeoutError, Unavailable, *CONNECTION_ERRORS):
                async with asyncio.timeout(CONFIRM_SECONDS):
                    await self.tick()
        return self.is_confirmed

    async def until_confirmed(self) -> None:
        """Wait until runs are this process's: it starts none that others may start, too."""
        while not self.is_confirmed:
            self._renewed.clear()
            await self._renewed.wait()

    # Sleeping.

    @property
    def session_no(self) -> int | None:
        """Number of the session in which the process has its lock; None without one."""
        return self._session_no if self._usable() and self._lock.is_locked else None

    def on_woken(self, call: Callable[[WokenFlow | None], None]) -> None:
        """Set what is called when an item may be claimed before the registered sleep ends.

        It is passed the only flow of which items were written, if one is due, or None. It is also
        called when the connection is lost, because then nobody notifies.
        """
        self._on_woken = call

    async def register_sleep(self, seconds: float, kinds: Sequence[str] | None) -> int | None:
        """Register a sleep as `ledger.store.processes.register_sleep` does."""
        async with self._in_use:
            if (connection := self._usable()) is None or not self._lock.is_locked:
                return None
            async with answered_in_time(connection):
                return await register_sleep(connection, self.process_no, seconds, kinds)

    async def is_seen_by_all(self, transaction_no: int) -> bool:
        """Return whether all who write see what that transaction did; False if unknown."""
        async with self._in_use:
            if (connection := self._usable()) is None:
                return False
            async with answered_in_time(connection):
                return await is_seen_by_all(connection, transaction_no)

    async def end_sleep(self) -> None:
        """Register that the process is awake."""
        async with self._in_use:
            if (connection := self._usable()) is not None:
                async with answered_in_time(connection):
                    await end_sleep(connection, self.process_no)

    async def close(self) -> None:
        """Record the end of the process and release its lock."""
        connection, self._connection = self._connection, None
        if connection is None or is_lost(connection):
            return
        with suppress(TimeoutError, *CONNECTION_ERRORS):
            async with asyncio.timeout(END_SECONDS):
                await end_process(connection, self.process_no)
                await connection.close()
        connection.terminate()

    def _usable(self) -> "OwnConnection | None":
        connection = self._connection
        return None if connection is None or is_lost(connection) else connection

    async def _register(self, connection: Connection) -> None:
        asked_at = monotonic()
        # If the response is lost, the ledger may know the process by its lock.
        self._lock = self._lock._replace(is_locked=True)
        self._lock = await register_process(
            connection,
            self.process_no,
            self._role,
            host=socket.gethostname(),
            version=version("dueledger"),
            yields=self._yields,
            kinds=(served := self._served).kinds,
            kind_tenants=served.tenants,
            does_upkeep=self._does_upkeep,
            drains=self._stop is not None,
        )
        self._recorded = served
        self._confirmed_at = asked_at
        self.losses += self._lock.has_lapsed
        if self._lock.is_locked:
            await connection.add_listener(f"ledger_process_{self.process_no}", self._wake)

    async def _connect(self) -> OwnConnection:
        self._connection = connection = await connect(
            self._dsn,
            application_name=self._name,
            is_durable=False,
            connect_seconds=ANSWER_SECONDS,
        )
        self._session_no += 1
        connection.add_termination_listener(self._on_lost)
        return connection

    def _on_lost(self, *_: object) -> None:
        self.tick_soon()
        self._wake(None, 0, "", "")

    def _wake(self, _connection: object, _pid: int, _channel: str, payload: str) -> None:
        if self._on_woken is not None:
            self._on_woken(parse_woken_flow(payload))


def _forgotten() -> Unavailable:
    return Unavailable(
        "The ledger does not know this process: it went back to an earlier state, as after a"
        " restore or the promotion of a standby. The process begins anew.",
        service="postgres",
    )


@asynccontextmanager
async def open_presence(
    dsn: str,
    name: str,
    role: ProcessRole,
    *,
    yields: bool = False,
    kinds: Sequence[str] | None = None,
    does_upkeep: bool | None = None,
    stop: Stop | None = None,
) -> AsyncGenerator[Presence]:
    """Register a process under its actor name, and keep its row and its lock for the block.

    The options are those of `Presence`. Raises Unavailable if Postgres cannot be reached.
    Cancels the block and raises it, too, once the ledger does not know the process: a caller that
    opens everything again goes on.
    """
    presence = Presence(
        dsn, name, role, yields=yields, kinds=kinds, does_upkeep=does_upkeep, stop=stop
    )
    ended = Stop()
    try:
        await presence.open()
        keeping = asyncio.create_task(
            run_service("presence", presence.tick, stop=ended, idle_seconds=presence.pause_seconds)
        )
        try:
            async with asyncio.timeout(None) as known:
                presence.on_forgotten(partial(known.reschedule, 0.0))
                info = Sample(Metric.PROCESS_INFO, 1, (role, version("dueledger")))
                with METRICS.source(lambda: [info]):
                    yield presence
        except TimeoutError as error:
            if known.expired():
                raise _forgotten() from error
            raise
        finally:
            ended.request()
            presence.tick_soon()
            await asyncio.wait({keeping}, timeout=END_SECONDS)
            keeping.cancel()
            with suppress(asyncio.CancelledError):
                await keeping
    finally:
        await presence.close()
