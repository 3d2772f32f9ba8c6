"""A command's work: its event loop, its connection, and a person's name in the journal."""

import os
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dueledger.ledger.store import Connection

DSN_VARIABLE: Final = "DUELEDGER_DSN"

_T = TypeVar("_T")


def run(work: Coroutine[object, object, _T]) -> _T:
    """Run the work of a short command."""
    import asyncio

    return asyncio.run(work)


@asynccontextmanager
async def ledger_connection(dsn: str | None) -> "AsyncGenerator[Connection]":
    """Open a connection for a person's command; `dsn` overrides DUELEDGER_DSN.

    The variable is read here and not by the settings of a process: importing those takes longer
    than a list does.
    """
    from dueledger.ledger.store import PlanProfile, open_connection

    async with open_connection(
        dsn if dsn is not None else _dsn_of_environment(),
        application_name="dueledger-cli",
        profile=PlanProfile.ANALYTIC,
    ) as connection:
        yield connection


def _dsn_of_environment() -> str:
    # In any case, as the settings of a process.
    variables = {name.upper(): value for name, value in os.environ.items()}
    if DSN_VARIABLE in variables:
        return variables[DSN_VARIABLE]
    from dueledger.ledger.errors import InvalidSetting, Problem
    from dueledger.ledger.runtime.dsn_file import DSN_ACCEPTED, DSN_FILE_VARIABLE, read_dsn_file

    if DSN_FILE_VARIABLE in variables:
        return read_dsn_file(Path(variables[DSN_FILE_VARIABLE]))
    problem = Problem(DSN_VARIABLE, "", "Field required", DSN_ACCEPTED)
    raise InvalidSetting("Settings are missing or wrong:", [problem])


@dataclass(frozen=True, slots=True)
class PersonsChange:
    """A transaction in which the person at this terminal changes something."""

    connection: "Connection"
    actor_no: int

    async def audit(
        self,
        operation: str,
        target: str,
        tenants: "Sequence[str] | None",
        reason: str | None = None,
        **detail: object,
    ) -> None:
        """Record what is changed; the arguments are those of `AuditTarget` and `record_audit`."""
        from dueledger.ledger.store.audit import AuditTarget, record_audit

        targets = [AuditTarget(target, tenants, detail or None)]
        await record_audit(self.connection, self.actor_no, operation, targets, reason=reason)


@asynccontextmanager
async def persons_change(dsn: str | None) -> AsyncGenerator[PersonsChange]:
    """Open a transaction for a command that changes something, in the person's name."""
    async with ledger_connection(dsn) as connection, connection.transaction():
        yield PersonsChange(connection, await register_person(connection))


async def register_person(connection: "Connection") -> int:
    """Return the number of the person at this terminal, whom the journal names."""
    from dueledger.ledger.store import actors

    return await actors.register_person(connection, person_name())


def person_name() -> str:
    """Return the name of the person at this terminal, as actors are named."""
    return f"person:{os.environ.get('DUELEDGER_ACTOR') or _system_user()}"


def _system_user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # as in a container that runs under a bare number
        from dueledger.ledger.errors import InvalidSetting, Problem

        problem = Problem("DUELEDGER_ACTOR", "", "the system's user has no name", "jane.doe")
        raise InvalidSetting("The journal records who decides:", [problem]) from None
