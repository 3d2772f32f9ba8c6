"""Connections: codecs, pinned plans, and what it means to lose one."""

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

import asyncpg
import orjson

from dueledger.ledger.errors import InvalidSetting, Problem, Unavailable

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
"""The connection broke: whether an open COMMIT happened is unknown."""


STATEMENT_REFUSED: Final = asyncpg.PostgresError
"""Postgres refused a statement; where it tells of no lost connection, the next one may be sent."""


def is_connection_lost(error: Exception) -> bool:
    """Return whether an error that came from anywhere is one of a broken connection.

    A file may raise an OSError too, and a wrong call an InterfaceError.
    """
    match error:
        case OSError():
            return isinstance(error, ConnectionError | TimeoutError)
        case asyncpg.InterfaceError():
            return "closed" in str(error)
        case _:
            return isinstance(error, CONNECTION_LOST)


_IDLE_TRANSACTION_SECONDS: Final = 60.0

_MALFORMED: Final = (asyncpg.InterfaceError, ValueError, OverflowError)
"""What an address that cannot be read ends in; the messages quote parts of it."""


_UNUSABLE: Final = (
    asyncpg.PostgresError,
    asyncpg.TargetServerAttributeNotMatched,
    OSError,
)

# The address may carry settings for the session.
_PARAMETER_REFUSED: Final = (
    asyncpg.UndefinedObjectError,
    asyncpg.CantChangeRuntimeParamError,
    asyncpg.InvalidParameterValueError,
)


class PlanProfile(StrEnum):
    """How the planner is steered.

    HOT pins nested loops over the named indexes: with hash joins allowed the same claim falls
    from 55 k to 15 k items/s once statistics lag behind, and a plan made while a table was empty
    would go on reading all of it, as a bitmap of every open run would. ANALYTIC leaves the planner
    its choice.
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
        # Statements lock first and look again; a snapshot from before the lock would miss what
        # they waited for. What is acknowledged is durable, whatever a database's default says.
        "default_transaction_isolation": "read committed",
        "synchronous_commit": "on",
        **_PLANS[profile],
    }


async def _prepare(connection: Connection) -> None:
    for name in ("json", "jsonb"):
        await connection.set_type_codec(
            name,
            schema="pg_catalog",
            encoder=_encode_json,
            decoder=orjson.loads,
            format="text",
        )


def _encode_json(value: Any) -> str:  # noqa: ANN401 - whatever a jsonb parameter may hold
    return value if isinstance(value, str) else orjson.dumps(value).decode()


async def _keep_session(_: Connection) -> None:
    """Leave a session as it is: no statement of ours changes it, and each reset is a round trip."""


@asynccontextmanager
async def open_pool(
    dsn: str,
    *,
    application_name: str,
    size_max: int = 4,
    profile: PlanProfile = PlanProfile.HOT,
    idle_transaction_seconds: float = _IDLE_TRANSACTION_SECONDS,
    lent_to_handlers: bool = False,
) -> AsyncGenerator[Pool]:
    """Open a pool whose connections carry our codecs and plan settings.

    Connections that are `lent` to the code of others are reset before the next one has them.

    A transaction whose process says nothing for `idle_transaction_seconds` is rolled back: one
    that was frozen or cut off in the middle would keep its rows locked, from reapers too. Those
    that analyse lock nothing and may take their time.

    Raises Unavailable when Postgres cannot be reached, InvalidSetting when the address cannot be
    read; neither message holds the DSN.
    """
    settings = _settings(application_name, profile)
    if profile is PlanProfile.HOT:
        milliseconds = int(idle_transaction_seconds * 1000)
        settings["idle_in_transaction_session_timeout"] = str(milliseconds)
    try:
        pool = await asyncpg.create_pool(
            dsn,
            min_size=1,
            max_size=size_max,
            init=_prepare,
            reset=None if lent_to_handlers else _keep_session,
            server_settings=settings,
            max_cached_statement_lifetime=0,
            command_timeout=60,
        )
    except _UNUSABLE as error:
        raise _unavailable(error) from error
    except _MALFORMED:
        raise _malformed() from None
    try:
        yield pool
    finally:
        pool.terminate()


@final
class ReconnectingConnection:
    """A connection of a pool that one user keeps, until anything goes wrong with it.

    What it has planned stays planned. Not for use from several tasks at once.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._kept: PoolConnectionProxy[Record] | None = None

    @asynccontextmanager
    async def acquire(self) -> AsyncGenerator[Connection]:
        """Have the connection for the length of the block."""
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
    except asyncpg.InterfaceError:  # its pool has taken it back, as it does with what was cut off
        return True


async def connect(
    dsn: str, *, application_name: str, profile: PlanProfile = PlanProfile.HOT
) -> "asyncpg.Connection[Record]":
    """Open one connection outside any pool; the caller closes it."""
    try:
        connection = await asyncpg.connect(
            dsn, server_settings=_settings(application_name, profile), command_timeout=60
        )
    except _UNUSABLE as error:
        raise _unavailable(error) from error
    except _MALFORMED:
        raise _malformed() from None
    await _prepare(connection)
    return connection


def _malformed(
    reason: str = "it cannot be read as the address of Postgres; in a password, write / @ : ? # as"
    " %2F %40 %3A %3F %23",
) -> InvalidSetting:
    """Name the setting and never its value, of which any part may be the password."""
    accepted = "postgresql://user:password@host:port/name"
    problem = Problem("DUELEDGER_DSN", "", reason, accepted)
    return InvalidSetting("Settings are missing or wrong:", [problem])


def _unavailable(error: Exception) -> Unavailable | InvalidSetting:
    if isinstance(error, _PARAMETER_REFUSED):
        return _malformed("behind its ? stands a parameter that Postgres does not know or refuses")
    is_another = isinstance(error, asyncpg.TargetServerAttributeNotMatched)
    cause = "no server is as target_session_attrs asks" if is_another else _cause(error)
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
