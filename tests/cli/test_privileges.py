"""What a role may do, and the error if it may not."""

import secrets
from collections.abc import AsyncGenerator, Callable
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from dueledger.ledger.store import Connection

Command = Callable[..., Any]


@pytest.fixture
async def role(connection: Connection) -> AsyncGenerator[str]:
    """A role that may connect, and nothing else."""
    name = f"role_{secrets.token_hex(6)}"
    await connection.execute(f"create role {name} login password '{name}'")
    yield name
    await connection.execute(f"drop role {name}")


async def test_the_doctor_serves_a_member_and_names_what_others_lack(
    dueledger_on: Command, role: str, database: str, connection: Connection
) -> None:
    parts = urlsplit(database)
    where = parts.netloc.rpartition("@")[2]
    dsn = urlunsplit(parts._replace(netloc=f"{role}:{role}@{where}"))
    refused = dueledger_on("doctor", "--json", "--dsn", dsn)
    health = {check["name"]: check["health"] for check in refused.document["checks"]}
    assert (refused.code, health["schema"], health["clock"]) == (4, "fail", "ok")
    listed = dueledger_on("items", "--json", "--dsn", dsn)
    assert (listed.code, listed.document["error"]["code"]) == (1, "NOT_PERMITTED")

    await connection.execute(f"grant ledger_worker to {role}")
    assert dueledger_on("doctor", "--dsn", dsn).code == 0
