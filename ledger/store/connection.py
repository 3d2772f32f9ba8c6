"""Connections and pools: codecs, pinned plans, time limits."""

import socket
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Sequence,
)
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast, final

import asyncpg
import orjson

from dueledger.ledger.errors import ConnectionLost, NotPermitted
from dueledger.ledger.metrics import METRICS, Metric, Sample
from dueledger.ledger.metrics.readings import STATEMENTS_MAX
from dueledger.ledger.store.connection_classes import HandlerConnection, TypeCachingConnection
from dueledger.ledger.store.lost_connections import (
    CONNECTION_ERRORS,
    connection_lost,
    is_lost,
    mapped_connecting,
    mapped_loss,
    was_lost,
)
from dueledger.ledger.store.schema_version import require_usable_schema
from dueledger.ledger.store.statements import name_of, statement

if TYPE_CHECKING:
    import asyncio

    from asyncpg.pool import PoolConnectionProxy

Record: TypeAlias = asyncpg.Record
OwnConnection: TypeAlias = "asyncpg.Connection[Record]"
"""One outside a pool."""
Connection: TypeAlias = "OwnConnection | PoolConnectionProxy[Record]"

CONNECT_SECONDS: Final = 15.0
RELEASE_SECONDS: Final = 2.0
"""Time for a connection to end its statement when it is released; then it is closed."""

_DEAD_SERVER_OPTIONS: Final = {
    "TCP_KEEPIDLE": 10,
    "TCP_KEEPINTVL": 5,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 25_000,  # milliseconds
}
"""The kernel closes a connection whose server has not acknowledged for 25 s: half a lease."""

_IDLE_TRANSACTION_SECONDS: Final = 60.0
_COMMANDS_A_TRANSACTION: Final = 2
"""A transaction may take as long as so many of its slowest statements."""
_QUERIES_MAX: Final = 1_000_000
"""After so many queries a pool replaces a connection, and the new one plans each statement again,
up to 15 ms each. asyncpg's 50,000 are over within minutes. It bounds what a backend may cache."""


class PlanProfile(StrEnum):
    """Planner settings of a connection.

    HOT pins nested loops over the named indexes. With hash joins allowed, the same claim falls
    from 55 k to 15 k items/s once statistics lag behind. A plan made while a table was empty would
    keep reading all of it, and so would a bitmap of every open run. ANALYTIC does not restrict
    the planner; SERIAL only lets no statement take more than one backend.
    """

    HOT = "hot"
    ANALYTIC = "analytic"
    SERIAL = "serial"


_COMMAND_SECONDS: Final = {
    PlanProfile.HOT: 30.0,
    PlanProfile.ANALYTIC: 60.0,
    PlanProfile.SERIAL: 60.0,
}
"""Time for the answer to a statement: of the hot ones half a lease. Some set a longer one."""

_PLANS: Final[dict[PlanProfile, dict[str, str]]] = {
    PlanProfile.HOT: {
        "jit": "off",
        "enable_hashjoin": "off",
        "enable_mergejoin": "off",
        "enable_seqscan": "off",
        "enable_bitmapscan": "off",
        "plan_cache_mode": "force_generic_plan",
    },
    PlanProfile.ANALYTIC: {"jit": "off"},
    PlanProfile.SERIAL: {"jit": "off", "max_parallel_workers_per_gather": "0"},
}


def _settings(application_name: str, profile: PlanProfile) -> dict[str, str]:
    return {
        "application_name": application_name,
        "timezone": "UTC",
        # Statements lock first and then read; a snapshot from before the lock would miss what they
        # waited for. Acknowledged writes are durable, whatever the database's default.
        "default_transaction_isolation": "read committed",
        "synchronous_commit": "on",
        **_PLANS[profile],
    }


def _close_on_dead_server(connection: Connection) -> None:
    """Let the kernel close the connection of a server that vanished without a reset (RFC 5482).

    asyncpg has no public setting for this. If the attribute is gone, connections work as before and
    a test fails.
    """
    transport: asyncio.Transport | None = getattr(connection, "_transport", None)
    sock = transport and transport.get_extra_info("socket")
    if sock is None or sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _DEAD_SERVER_OPTIONS.items():
        if hasattr(socket, name):  # as on Linux
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


async def _prepare(connection: Connection) -> None:
    _close_on_dead_server(connection)
    for name in ("json", "jsonb"):
        await connection.set_type_codec(
            name,
            schema="pg_catalog",
            encoder=_encode_json,
            decoder=orjson.loads,
            format="text",
        )


def _encode_json(value: Any) -> str:  # noqa: ANN401 - any value of a jsonb parameter
    return value if isinstance(value, str) else orjson.dumps(value).decode()


async def _keep_session(_: Connection) -> None:
    """Skip the reset: no statement here changes a session, and each reset is a round trip."""


@final
class LentConnection:
    """A connection of a pool, for one block. It is released at the end.

    Raises Unavailable if Postgres cannot be reached, ConnectionLost for an error of the block after
    which the connection is closed. `is_lost` says afterwards whether either happened.
    """

    __slots__ = ("_lent_to_handlers", "_pool", "connection", "is_lost", "was_acquired")

    connection: "PoolConnectionProxy[Record]"

    def __init__(self, pool: "asyncpg.Pool[Record]", *, lent_to_handlers: bool) -> None:
        self._pool = pool
        self._lent_to_handlers = lent_to_handlers
        self.was_acquired, self.is_lost = False, True

    async def __aenter__(self) -> Connection:
        with mapped_connecting():
            self.connection = await self._pool.acquire()
        self.was_acquired, self.is_lost = True, False
        return self.connection

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        del kind, traceback
        self.is_lost = was_lost(error, self.connection, by_timeout=not self._lent_to_handlers)
        with suppress(*CONNECTION_ERRORS):  # if it cannot be released, it is closed
            await self._pool.release(self.connection, timeout=RELEASE_SECONDS)
        if self.is_lost and not isinstance(error, ConnectionLost):
            raise connection_lost(error) from error


@final
class Pool:
    """Connections with the ledger's codecs and plan settings; `open_pool` opens one."""

    def __init__(self, connections: "asyncpg.Pool[Record]", *, lent_to_handlers: bool) -> None:
        self.connections = connections
        self._lent_to_handlers = lent_to_handlers

    def acquire(self) -> LentConnection:
        """Return a connection for an ``async with`` block."""
        return LentConnection(self.connections, lent_to_handlers=self._lent_to_handlers)

    def samples(self) -> list[Sample]:
        """Return how many connections it has."""
        size, idle = self.connections.get_size(), self.connections.get_idle_size()
        numbers = {"in_use": size - idle, "idle": idle, "max": self.connections.get_max_size()}
        return [
            Sample(Metric.POOL_CONNECTIONS, count, (state,)) for state, count in numbers.items()
        ]


@asynccontextmanager
async def open_pool(
    dsn: str,
    *,
    application_name: str,
    size_max: int = 4,
    profile: PlanProfile = PlanProfile.HOT,
    idle_transaction_seconds: float = _IDLE_TRANSACTION_SECONDS,
    command_seconds: float | None = None,
    lent_to_handlers: bool = False,
    roles: Sequence[str] = (),
    read_only: bool = False,
    before_use: Callable[[Connection], Awaitable[None]] | None = None,
) -> AsyncGenerator[Pool]:
    """Open a pool of connections with the ledger's codecs and plan settings.

    With `lent_to_handlers`, handler code uses the connections: each is then reset on release, and a
    TimeoutError says nothing about it.
    With `read_only`, Postgres refuses each statement that writes.
    Each new connection is passed to `before_use` once, before anything else uses it.

    A transaction that is idle for `idle_transaction_seconds` is rolled back: a frozen or
    disconnected process would keep its rows locked, from reapers too. A statement without an answer
    within `command_seconds` is cancelled: 30 s by default, 60 s of analytic ones. A transaction
    that takes twice `command_seconds` is rolled back too, from Postgres 17 on: a process that is
    frozen between the preparation of a statement and its call is not idle. `long_transaction`
    lifts that for one. Analytic transactions have neither limit.

    Raises Unavailable if Postgres cannot be reached, InvalidSetting if the DSN cannot be parsed,
    NotPermitted if the login lacks one of `roles`, SchemaTooOld or SchemaTooNew if a process with
    roles cannot use the schema. No message contains the DSN.
    """
    settings = _settings(application_name, profile)
    if profile is PlanProfile.HOT:
        milliseconds = int(idle_transaction_seconds * 1000)
        settings["idle_in_transaction_session_timeout"] = str(milliseconds)
    if read_only:
        settings["default_transaction_read_only"] = "on"
    answer_seconds = command_seconds or _COMMAND_SECONDS[profile]
    is_open = False

    async def prepare(connection: Connection) -> None:
        with mapped_loss(connection):
            await _prepare(connection)
            if profile is PlanProfile.HOT:
                ours = cast("TypeCachingConnection", connection)
                await ours.limit_transactions(_COMMANDS_A_TRANSACTION * answer_seconds)
            if not lent_to_handlers:
                connection.add_query_logger(_count_statement)
            if before_use is not None and is_open:
                await before_use(connection)

    with mapped_connecting():
        connections = await asyncpg.create_pool(
            dsn,
            min_size=1,
            max_size=size_max,
            connection_class=HandlerConnection if lent_to_handlers else TypeCachingConnection,
            init=prepare,
            reset=None if lent_to_handlers else _keep_session,
            server_settings=settings,
            max_cached_statement_lifetime=0,
            max_queries=_QUERIES_MAX,
            timeout=CONNECT_SECONDS,
            command_timeout=answer_seconds,
        )
    try:
        is_open = True
        pool = Pool(connections, lent_to_handlers=lent_to_handlers)
        if roles or before_use is not None:
            async with pool.acquire() as first:
                await _require_roles(first, roles)
                if roles:
                    await require_usable_schema(first)
                if before_use is not None:
                    await before_use(first)
        with METRICS.source(pool.samples):
            yield pool
    finally:
        connections.terminate()


@asynccontextmanager
async def long_transaction(connection: Connection) -> AsyncGenerator[None]:
    """Open a transaction that may take longer than others of its pool."""
    async with connection.transaction():
        await cast("TypeCachingConnection", connection).allow_long_transaction()
        yield


def _count_statement(query: "asyncpg.connection.LoggedQuery") -> None:
    name = name_of(query.query)
    METRICS.add(Metric.STATEMENTS, 1, name, series_max=STATEMENTS_MAX)
    METRICS.add(Metric.STATEMENT_SECONDS, query.elapsed, name, series_max=STATEMENTS_MAX)


async def has_role(connection: Connection, role: str) -> bool:
    """Return whether the connection's login has a role of the ledger."""
    return not await connection.fetch(statement("list_missing_roles"), [role])


async def _require_roles(connection: Connection, roles: Sequence[str]) -> None:
    """Raise NotPermitted if the connection's login lacks one of the roles of its process."""
    rows = await connection.fetch(statement("list_missing_roles"), roles)
    if rows:
        login, missing = rows[0]["login"], [row["role"] for row in rows]
        names = " and ".join(f"ledger_{role}" for role in missing)
        message = f"{login} lacks {names}: `dueledger grant {' '.join(missing)} TO {login}`"
        raise NotPermitted(message, login=login, roles=missing)


@final
class ReconnectingConnection:
    """A pool connection that one task keeps until an error; then it takes another one.

    Its prepared plans are kept. Not for several tasks at once.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._kept: LentConnection | None = None

    @asynccontextmanager
    async def acquire(self) -> AsyncGenerator[Connection]:
        """Lend the connection for the block. Raises as a block of `Pool.acquire` does."""
        kept, self._kept = self._kept, None
        if kept is not None and is_lost(kept.connection):
            with suppress(ConnectionLost):
                await kept.__aexit__(None, None, None)
            kept = None
        if kept is None:
            kept = self._pool.acquire()
            await kept.__aenter__()
        try:
            yield kept.connection
        except BaseException as error:
            await kept.__aexit__(type(error), error, error.__traceback__)
            raise
        self._kept = kept


async def connect(
    dsn: str,
    *,
    application_name: str,
    profile: PlanProfile = PlanProfile.HOT,
    is_durable: bool = True,
    connect_seconds: float = CONNECT_SECONDS,
) -> OwnConnection:
    """Open one connection outside a pool. The caller closes it.

    Without `is_durable`, a crash of the server may lose the writes of the last second.
    """
    settings = _settings(application_name, profile)
    if not is_durable:
        settings["synchronous_commit"] = "off"
    with mapped_connecting():
        connection = await asyncpg.connect(
            dsn,
            connection_class=TypeCachingConnection,
            server_settings=settings,
            timeout=connect_seconds,
            command_timeout=_COMMAND_SECONDS[PlanProfile.ANALYTIC],
        )
    with mapped_loss(connection):
        await _prepare(connection)
    return connection


@asynccontextmanager
async def open_connection(
    dsn: str, *, application_name: str, profile: PlanProfile = PlanProfile.HOT
) -> "AsyncGenerator[asyncpg.Connection[Record]]":
    """Open one connection for a block.

    Raises Unavailable or InvalidSetting as `open_pool` does, ConnectionLost if it is lost in the
    block.
    """
    connection = await connect(dsn, application_name=application_name, profile=profile)
    try:
        with mapped_loss(connection):
            yield connection
    finally:
        with suppress(*CONNECTION_ERRORS):
            await connection.close(timeout=RELEASE_SECONDS)
