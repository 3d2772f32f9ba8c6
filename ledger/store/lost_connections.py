"""What a lost connection to Postgres is. No other module decides it.

A connection was lost if it is closed after an error in its use. asyncpg's errors do not say so: for
the same loss it raises ConnectionDoesNotExistError, InterfaceError or InternalClientError, and code
in between may raise an error of its own instead.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final

import asyncpg

from dueledger.ledger.errors import ConnectionLost, InvalidSetting, Problem, Unavailable
from dueledger.ledger.runtime.dsn_file import DSN_ACCEPTED

if TYPE_CHECKING:
    from dueledger.ledger.store.connection import Connection, OwnConnection

POSTGRES: Final = "postgres"
"""The service that an `Unavailable` of a connection names."""

ANSWER_SECONDS: Final = 1.5
"""Time for the server's answer where a silent connection is replaced by another one."""

STATEMENT_REFUSED: Final = asyncpg.PostgresError
"""Postgres refused a statement. Unless the connection was lost, the next one may be sent."""

CONNECTION_ERRORS: Final = (
    OSError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
"""What asyncpg raises of a connection, whether it is closed or not."""

# A DSN may contain session settings.
_PARAMETER_REFUSED: Final = (
    asyncpg.UndefinedObjectError,
    asyncpg.CantChangeRuntimeParamError,
    asyncpg.InvalidParameterValueError,
)


def is_lost(connection: "Connection") -> bool:
    """Return whether a connection is closed: after an error in its use, it was lost."""
    try:
        return connection.is_closed()
    except asyncpg.InterfaceError:  # its pool took it back after it was lost
        return True


def was_lost(
    error: BaseException | None, connection: "Connection", *, by_timeout: bool = True
) -> bool:
    """Return whether a block that ended by `error` lost its connection.

    So did a statement without an answer in time: whether it took effect is as unknown. Not with
    `by_timeout` false, where code of handlers runs: their TimeoutError may be of something else.
    """
    return isinstance(error, Exception) and (
        is_lost(connection) or (by_timeout and isinstance(error, TimeoutError))
    )


def connection_lost(error: BaseException | None) -> ConnectionLost:
    """Return what to raise in place of the error by which a connection was lost."""
    return ConnectionLost(
        f"The connection to Postgres was lost: {type(error).__name__}. The change may have been "
        "committed: check before you repeat it.",
        service=POSTGRES,
    )


@contextmanager
def mapped_loss(connection: "Connection") -> Generator[None]:
    """Raise ConnectionLost if the connection is lost in the block."""
    try:
        yield
    except BaseException as error:
        if was_lost(error, connection) and not isinstance(error, ConnectionLost):
            raise connection_lost(error) from error
        raise


@asynccontextmanager
async def answered_in_time(connection: "OwnConnection") -> AsyncGenerator[None]:
    """Close the connection after an error, or if the server does not answer in ANSWER_SECONDS.

    For a connection by which a process shows that it lives or is notified: a silent one is no use.
    """
    try:
        with mapped_loss(connection):
            async with asyncio.timeout(ANSWER_SECONDS):
                yield
    except BaseException:
        connection.terminate()
        raise


@contextmanager
def mapped_connecting() -> Generator[None]:
    """Turn errors of connecting into Unavailable or InvalidSetting. No message has the DSN."""
    try:
        yield
    except (OSError, asyncpg.PostgresError, asyncpg.InternalClientError) as error:
        raise _unavailable(error) from error
    except (ValueError, OverflowError):  # an unreadable DSN, of which their messages quote parts
        raise _malformed() from None
    except asyncpg.InterfaceError as error:  # it was closed meanwhile
        raise _unavailable(error) from error


def _malformed(
    reason: str = "it is not a valid Postgres address; in a password, write / @ : ? # as"
    " %2F %40 %3A %3F %23",
) -> InvalidSetting:
    """Return the error with the setting's name, never its value: any part may be the password."""
    problem = Problem("DUELEDGER_DSN", "", reason, DSN_ACCEPTED)
    return InvalidSetting("Settings are missing or wrong:", [problem])


def _unavailable(error: Exception) -> Unavailable | InvalidSetting:
    if isinstance(error, _PARAMETER_REFUSED):
        return _malformed("a parameter after its ? is unknown to Postgres or refused")
    is_another = isinstance(error, asyncpg.TargetServerAttributeNotMatched)
    cause = "no server matches target_session_attrs" if is_another else _cause(error)
    return Unavailable(
        f"Postgres cannot be used: {cause}. "
        "Check DUELEDGER_DSN and that the server is up; `dueledger doctor` says more.",
        service=POSTGRES,
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
