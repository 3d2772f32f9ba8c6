"""Roles that are granted, and the error that names the role that is missing."""

import secrets
from collections.abc import AsyncGenerator, Callable
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from dueledger.ledger.errors import UnsupportedServer
from dueledger.ledger.store import Connection, connect, server_version
from dueledger.ledger.store.migrations import migrate

Command = Callable[..., Any]


@pytest.fixture
async def login(connection: Connection) -> AsyncGenerator[str]:
    """A login without roles."""
    name = f"role_{secrets.token_hex(6)}"
    await connection.execute(f"create role {name} login password '{name}'")
    yield name
    await connection.execute(f"drop owned by {name}; drop role {name}")


@pytest.fixture
def as_login(dueledger_on: Command, login: str, database: str) -> Command:
    """Run a command under the login."""
    parts = urlsplit(database)
    where = parts.netloc.rpartition("@")[2]
    dsn = urlunsplit(parts._replace(netloc=f"{login}:{login}@{where}"))
    return lambda *arguments: dueledger_on(*arguments, "--dsn", dsn)


def test_the_doctor_serves_an_auditor_and_names_what_others_lack(
    dueledger_on: Command, as_login: Command, login: str
) -> None:
    refused = as_login("doctor", "--json")
    health = {check["name"]: check["health"] for check in refused.document["checks"]}
    assert (refused.code, health["schema"], health["clock"]) == (4, "fail", "ok")
    listed = as_login("items", "--json")
    assert (listed.code, listed.document["error"]["code"]) == (1, "NOT_PERMITTED")
    assert listed.document["error"]["details"]["roles"] == ["auditor", "operator"]

    assert dueledger_on("grant", "auditor", "TO", login).code == 0
    assert as_login("doctor").code == 0
    assert as_login("items").code == 0
    assert dueledger_on("revoke", "ledger_auditor", "FROM", login).code == 0
    assert as_login("items").code == 1


def test_a_process_says_at_its_start_which_role_its_login_lacks(
    dueledger_on: Command, as_login: Command, login: str
) -> None:
    dueledger_on("grant", "allocator", "to", login)
    refused = as_login("allocate", "--once")
    assert refused.code == 1
    assert f"{login} lacks ledger_upkeep: `dueledger grant upkeep TO {login}`" in refused.err
    refused = as_login("materialise", "--once")
    assert f"{login} lacks ledger_materialiser: " in refused.err
    dueledger_on("grant", "materialiser", "to", login)
    assert as_login("materialise", "--once").code == 0


def test_a_person_is_named_by_an_operator_only(
    dueledger_on: Command, as_login: Command, login: str
) -> None:
    for roles in (["emitter"], ["worker", "auditor"]):
        dueledger_on("grant", *roles, "TO", login)
        refused = as_login("pause", "acme", "--reason", "month end")
        assert refused.code == 1
        assert "only a member of ledger_operator or ledger_approver may" in refused.err
    dueledger_on("grant", "operator", "TO", login)
    assert as_login("pause", "acme", "--reason", "month end").code == 0


def test_an_emitter_is_bound_to_the_tenants_that_its_grant_names(
    dueledger_on: Command, login: str
) -> None:
    assert dueledger_on("grant", "worker", "TO", login, "--tenant", "acme").code == 2
    assert dueledger_on("grant", "emitter", "TO", login, "--tenant", "acme").code == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("boss", "TO", "{login}"), "there is no role boss"),
        (("worker", "{login}"), "write: ROLE… TO LOGIN"),
        (("worker", "TO", ""), "write: ROLE… TO LOGIN"),
        (("worker", "TO", "none"), "there is no login none"),
        (("emitter", "TO", "{login}", "--tenant", "[/x]"), "'[/x]' can be no tenant"),
        (("worker", "TO", "nobody_of_this_name"), "there is no login nobody_of_this_name"),
    ],
)
def test_a_grant_that_cannot_be_understood_is_refused(
    dueledger_on: Command, login: str, words: tuple[str, ...], says: str
) -> None:
    refused = dueledger_on("grant", *(word.format(login=login) for word in words))
    assert (refused.code, says in refused.err) == (2, True)


def test_a_login_that_may_not_grant_is_refused(as_login: Command, login: str) -> None:
    refused = as_login("grant", "worker", "TO", login)
    assert (refused.code, "NOT_PERMITTED" in refused.err) == (1, True)


async def test_a_server_that_is_too_old_is_refused_by_migrate_and_doctor_alike(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_version, "OLDEST", 990_000)
    assert not (await server_version.read_server_version(connection)).is_supported
    with pytest.raises(UnsupportedServer, match=r"use PostgreSQL 16, 17 or 18"):
        await migrate(connection)


async def test_a_login_that_may_not_make_roles_lacks_createrole(
    connection: Connection, login: str
) -> None:
    role = f"ledger_{secrets.token_hex(4)}"
    await connection.execute(f"grant usage on schema ledger to {login}; set role {login}")
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match=f"{login} lacks createrole"):
        await connection.execute(f"select ledger.make_role('{role}')")
    await connection.execute("reset role")


async def test_migrations_at_once_wait_for_each_other(database: str) -> None:
    first = await connect(database, application_name="first")
    second = await connect(database, application_name="second")
    stranger = await connect(database, application_name="stranger")
    await stranger.execute("select pg_advisory_lock(110415218402407)")  # the key of earlier days
    assert await migrate(first) == await migrate(second) == []
    for each in (first, second, stranger):
        await each.close()
