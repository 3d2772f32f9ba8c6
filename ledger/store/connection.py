"""Connections and pools: codecs, pinned plans, and errors of a lost connection."""

import socket
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Generator,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from enum import StrEnum
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, final

import asyncpg
import orjson

from dueledger.ledger.errors import InvalidSetting, NotPermitted, Problem, Unavailable
from dueledger.ledger.store.statements import statement

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

Record: TypeAlias = asyncpg.Record
Connection: TypeAlias = "asyncpg.Connection[Record] | PoolConnectionProxy[Record]"
Pool: TypeAlias = "asyncpg.Pool[Record]"

CONNECTION_LOST: Final = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    OSError,
)
"""The connection was lost: it is unknown whether an open COMMIT happened."""


STATEMENT_REFUSED: Final = asyncpg.PostgresError
"""Postgres refused a statement. Unless the connection was lost, the next one may be sent."""


_ENDED: Final = ("closed", "released back to the pool")
"""What asyncpg says of a call after the end of its connection, and of one of a pool."""


def is_connection_lost(error: Exception) -> bool:
    """Return whether an error from any code means a lost connection.

    Files also raise OSError, and wrong calls and addresses InterfaceError.
    """
    match error:
        case ValueError():
            return False
        case OSError():
            return isinstance(error, ConnectionError | TimeoutError)
        case asyncpg.InterfaceError():
            return any(text in str(error) for text in _ENDED)
        case _:
            return isinstance(error, CONNECTION_LOST)


@contextmanager
def mapped_lost_connection() -> Generator[None]:
    """Turn a lost connection into Unavailable: a process that is starting then waits.

    For statements without which it has not started. Afterwards a service repeats what failed.
    """
    try:
        yield
    except (*CONNECTION_LOST, asyncpg.TooManyConnectionsError) as error:
        if isinstance(error, asyncpg.InterfaceError) and not is_connection_lost(error):
            raise
        raise _unavailable(error) from error


_IDLE_TRANSACTION_SECONDS: Final = 60.0

_MALFORMED: Final = (asyncpg.InterfaceError, ValueError, OverflowError)
"""Errors for an unreadable DSN. Their messages quote parts of it, so they are not shown."""


_UNUSABLE: Final = (
    asyncpg.PostgresError,
    asyncpg.TargetServerAttributeNotMatched,
    OSError,
)

# A DSN may contain session settings.
_PARAMETER_REFUSED: Final = (
    asyncpg.UndefinedObjectError,
    asyncpg.CantChangeRuntimeParamError,
    asyncpg.InvalidParameterValueError,
)


class PlanProfile(StrEnum):
    """Planner settings of a connection.

    HOT pins nested loops over the named indexes. With hash joins allowed, the same claim falls
    from 55 k to 15 k items/s once statistics lag behind. A plan made while a table was empty would
    keep reading all of it, and so would a bitmap of every open run. ANALYTIC does not restrict
    the planner.
    """

    HOT = "hot"
    ANALYTIC = "analytic"


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


if TYPE_CHECKING:
    _AnyConnection = asyncpg.Connection[Record]
else:
    _AnyConnection = asyncpg.Connection  # has no type parameters at run time

_FIRST_CUSTOM_OID: Final = 10_000
"""Types below it have the same number in every database."""


class _TypeCachingConnection(_AnyConnection):
    """A connection that asks for built-in types once a process, not once a connection.

    asyncpg knows few array types, and asks the server for others with a query of up to 10 ms.
    It has no public setting for this. If the method overridden here is gone, connections work as
    before and a test fails.
    """

    _built_in: ClassVar[dict[int, Record]] = {}
    """Types by number, those of elements before their arrays."""

    async def _introspect_types(
        self,
        typeoids: Collection[int],
        timeout: float | None,  # noqa: ASYNC109 - asyncpg passes it
    ) -> tuple[list[Record], Any]:
        if self._built_in.keys() >= set(typeoids):
            return list(self._built_in.values()), SimpleNamespace(name="no statement was sent")
        parent: Any = super()
        types, statement = await parent._introspect_types(typeoids, timeout)  # noqa: SLF001 - its own parent
        self._built_in.update({row["oid"]: row for row in types if row["oid"] < _FIRST_CUSTOM_OID})
        return types, statement


async def _prepare(connection: Connection) -> None:
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


@asynccontextmanager
async def open_pool(
    dsn: str,
    *,
    application_name: str,
    size_max: int = 4,
    profile: PlanProfile = PlanProfile.HOT,
    idle_transaction_seconds: float = _IDLE_TRANSACTION_SECONDS,
    lent_to_handlers: bool = False,
    roles: Sequence[str] = (),
    read_only: bool = False,
    before_use: Callable[[Connection], Awaitable[None]] | None = None,
) -> AsyncGenerator[Pool]:
    """Open a pool of connections with the ledger's codecs and plan settings.

    With `lent_to_handlers`, handler code uses the connections; each is then reset on release.
    With `read_only`, Postgres refuses each statement that writes.
    Each new connection is passed to `before_use` once, before anything else uses it.

    A transaction that is idle for `idle_transaction_seconds` is rolled back: a frozen or
    disconnected process would keep its rows locked, from reapers too. Analytic transactions lock
    nothing and have no limit.

    Raises Unavailable if Postgres cannot be reached, InvalidSetting if the DSN cannot be parsed,
    NotPermitted if the login lacks one of `roles`. No message contains the DSN.
    """
    settings = _settings(application_name, profile)
    if profile is PlanProfile.HOT:
        milliseconds = int(idle_transaction_seconds * 1000)
        settings["idle_in_transaction_session_timeout"] = str(milliseconds)
    if read_only:
        settings["default_transaction_read_only"] = "on"
    is_open = False

    async def prepare(connection: Connection) -> None:
        await _prepare(connection)
        if before_use is not None and is_open:
            await before_use(connection)

    with _mapped_connecting():
        pool = await asyncpg.create_pool(
            dsn,
            min_size=1,
            max_size=size_max,
            connection_class=_TypeCachingConnection,
            init=prepare,
            reset=None if lent_to_handlers else _keep_session,
            server_settings=settings,
            max_cached_statement_lifetime=0,
            command_timeout=60,
        )
    try:
        is_open = True
        if roles or before_use is not None:
            with mapped_lost_connection():  # its other errors are not of connecting
                async with pool.acquire() as first:
                    await _require_roles(first, roles)
                    if before_use is not None:
                        await before_use(first)
        yield pool
    finally:
        pool.terminate()


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
        self._kept: PoolConnectionProxy[Record] | None = None

    @asynccontextmanager
    async def acquire(self) -> AsyncGenerator[Connection]:
        """Lend the connection for the block."""
        kept, self._kept = self._kept, None
        if kept is None or _is_lost(kept):
            kept = await self._pool.acquire()
        try:
            yield kept
        except BaseException:
            await self._pool.release(kept)
            raise
        self._kept = kept


def _is_lost(connection: "PoolConnectionProxy[Record]") -> bool:
    try:
        return connection.is_closed()
    except asyncpg.InterfaceError:  # the pool took it back after it was lost
        return True


async def connect(
    dsn: str, *, application_name: str, profile: PlanProfile = PlanProfile.HOT
) -> "asyncpg.Connection[Record]":
    """Open one connection outside a pool. The caller closes it."""
    with _mapped_connecting():
        connection = await asyncpg.connect(
            dsn,
            connection_class=_TypeCachingConnection,
            server_settings=_settings(application_name, profile),
            command_timeout=60,
        )
        await _prepare(connection)
    return connection


@contextmanager
def _mapped_connecting() -> Generator[None]:
    """Turn errors of connecting into Unavailable or InvalidSetting."""
    try:
        with mapped_lost_connection():
            yield
    except _UNUSABLE as error:
        raise _unavailable(error) from error
    except _MALFORMED:
        raise _malformed() from None


def _malformed(
    reason: str = "it is not a valid Postgres address; in a password, write / @ : ? # as"
    " %2F %40 %3A %3F %23",
) -> InvalidSetting:
    """Return the error with the setting's name, never its value: any part may be the password."""
    accepted = "postgresql://user:password@host:port/name"
    problem = Problem("DUELEDGER_DSN", "", reason, accepted)
    return InvalidSetting("Settings are missing or wrong:", [problem])


def _unavailable(error: Exception) -> Unavailable | InvalidSetting:
    if isinstance(error, _PARAMETER_REFUSED):
        return _malformed("a parameter after its ? is unknown to Postgres or refused")
    is_another = isinstance(error, asyncpg.TargetServerAttributeNotMatched)
    cause = "no server matches target_session_attrs" if is_another else _cause(error)
    return Unavailable(
        f"Postgres cannot be used: {cause}. "
        "Check DUELEDGER_DSN and that the server is up; `dueledger doctor` says more.",
        service="postgres",
    )


def _cause(error: Exception) -> str:
    match error:
        case socket.gaierror():
            return "the host is unknown"
        case ConnectionRefusedError():
            return "the connection was refused"
        case TimeoutError():
            return "the server did not answer in time"
        case asyncpg.InvalidAuthorizationSpecificationError():  # a wrong password is one of these
            return "the user or the password was refused"
        case asyncpg.InvalidCatalogNameError():
            return "the database does not exist"
        case _:
            return type(error).__name__
