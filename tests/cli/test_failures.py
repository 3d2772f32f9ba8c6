"""What a process says when it ends by what it cannot help."""

import errno

import asyncpg
import pytest

from dueledger.cli.exits import Exit
from dueledger.cli.failures import describe


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
        TimeoutError(),
        asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
        asyncpg.CannotConnectNowError("the database system is starting up"),
        asyncpg.InterfaceError("cannot perform operation: connection is closed"),
    ],
)
def test_a_connection_that_broke_is_told_as_out_of_reach(error: Exception) -> None:
    failure = describe(error)
    assert failure is not None
    assert (failure.exit, failure.code) == (Exit.UNREACHABLE, "CONNECTION_LOST")


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        asyncpg.InterfaceError("cannot perform operation: another operation is in progress"),
        ValueError("a defect"),
    ],
)
def test_what_is_no_broken_connection_is_not_told_as_one(error: Exception) -> None:
    assert describe(error) is None
