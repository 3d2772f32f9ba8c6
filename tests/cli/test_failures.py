"""The message of a process that ends because of an error from outside."""

import errno
import getpass
from typing import Any, cast

import asyncpg
import pytest

from dueledger.cli.errors import describe
from dueledger.cli.exit_codes import ExitCode
from dueledger.cli.session import ledger_connection, register_person
from dueledger.ledger.errors import ConnectionLost, InvalidSetting
from dueledger.ledger.store import Connection
from dueledger.ledger.store.statements import statement


def _refused(name: str) -> asyncpg.PostgresError:
    fields = {"C": "42501", "M": "permission denied for table due_item"}
    return asyncpg.PostgresError.new(fields, query=statement(name))


async def test_a_command_that_loses_its_connection_says_that_its_change_may_be_committed(
    database: str, connection: Connection
) -> None:
    async def change() -> None:
        async with ledger_connection(database) as own:
            await connection.execute("select pg_terminate_backend($1)", own.get_server_pid())
            await own.execute("select pg_sleep(60)")

    with pytest.raises(ConnectionLost) as lost:
        await change()
    failure = describe(lost.value)
    assert failure is not None
    assert (failure.exit_code, failure.code) == (ExitCode.UNREACHABLE, "CONNECTION_LOST")
    assert "may have been committed" in failure.message


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        asyncpg.InterfaceError("cannot perform operation: another operation is in progress"),
        ValueError("a defect"),
    ],
)
def test_other_errors_are_not_reported_as_a_broken_connection(error: Exception) -> None:
    assert describe(error) is None


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (_refused("show_item"), "NOT_PERMITTED", "needs ledger_auditor or ledger_operator"),
        (_refused("settle_runs"), "NOT_PERMITTED", "ledger_pull_worker or ledger_worker"),
        (asyncpg.InsufficientPrivilegeError("permission denied"), "NOT_PERMITTED", "permission"),
        (asyncpg.ReadOnlySQLTransactionError("cannot execute INSERT"), "READ_ONLY", "primary"),
        (asyncpg.DeadlockDetectedError("deadlock detected"), "DEADLOCK", "Repeat the command"),
    ],
)
def test_an_error_of_postgres_is_reported_in_words(
    error: asyncpg.PostgresError, code: str, said: str
) -> None:
    failure = describe(error)
    assert failure is not None
    assert (failure.code, said in failure.message) == (code, True)


async def test_a_person_without_a_name_is_asked_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 54321")

    monkeypatch.delenv("DUELEDGER_ACTOR", raising=False)
    monkeypatch.setattr(getpass, "getuser", nameless)
    with pytest.raises(InvalidSetting, match="DUELEDGER_ACTOR"):
        await register_person(cast("Any", None))
