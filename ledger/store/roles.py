"""Roles of the ledger, and who has them."""

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

import asyncpg

from dueledger.ledger.errors import NotFound
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement

ROLES: Final = (
    *(
        "alerter",
        "allocator",
        "approver",
        "auditor",
        "emitter",
        "intake",
        "key_manager",
        "materialiser",
        "monitor",
    ),
    *(
        "operator",
        "outcome_intake",
        "pull_worker",
        "reconciler",
        "relay",
        "service",
        "simulator",
        "upkeep",
        "worker",
    ),
)
"""Each is `ledger_…` in Postgres; docs/security.md says what each may do."""

_HEADER: Final = re.compile(r"^-- roles: (.+)$", re.MULTILINE)


async def grant_role(
    connection: Connection, role: str, login: str, tenants: Sequence[str] | None = None
) -> None:
    """Grant a role to a login. An emitter or relay may then emit for `tenants` only, unless None.

    Raises NotFound if there is no such login.
    """
    with _found(login):
        await connection.execute(statement("grant_role"), role, login, tenants)


async def revoke_role(connection: Connection, role: str, login: str) -> None:
    """Revoke a role from a login, and what it was bound to. Raises NotFound as above."""
    with _found(login):
        await connection.execute(statement("revoke_role"), role, login)


async def list_login_roles(connection: Connection, login: str) -> list[str]:
    """List the roles that a login was granted."""
    return [row["role"] for row in await connection.fetch(statement("list_login_roles"), login)]


@contextmanager
def _found(login: str) -> Generator[None]:
    try:
        yield
    except (asyncpg.UndefinedObjectError, asyncpg.ReservedNameError):  # `none` is reserved
        message = f"there is no login {login}; make it first: create role … login"
        raise NotFound(message, login=login) from None


def roles_of_query(query: str) -> list[str]:
    """Return the roles that may run a statement, from its text; none for other queries."""
    found = _HEADER.search(query)
    return found[1].split(", ") if found else []
