"""Actors: processes by their incarnation, people by name."""

import os
import secrets
import socket
from enum import StrEnum

import asyncpg

from dueledger.ledger.errors import NotPermitted
from dueledger.ledger.store.connection import Connection, Pool
from dueledger.ledger.store.statements import statement


class ActorKind(StrEnum):
    """The kinds of actors that write to the ledger."""

    ALLOCATOR = "allocator"
    WORKER = "worker"
    MATERIALISER = "materialiser"
    INTAKE = "intake"
    RECONCILER = "reconciler"
    RELAY = "relay"
    ALERTER = "alerter"
    PERSON = "person"
    SERVICE = "service"
    API = "api"
    KEY = "key"
    OIDC = "oidc"


def incarnation(kind: ActorKind) -> str:
    """Return a unique name for this process."""
    return f"{kind}:{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


async def register_actor(connection: Connection, name: str, kind: ActorKind) -> int:
    """Return the actor's number; create the actor if it is unknown."""
    return await connection.fetchval(statement("register_actor"), name, kind)


async def register_person(connection: Connection, name: str) -> int:
    """Return the number of a person. Raises NotPermitted if the login may not name one."""
    try:
        return await register_actor(connection, name, ActorKind.PERSON)
    except asyncpg.InsufficientPrivilegeError as error:
        roles = ["operator", "approver"]
        message = (
            f"The login may not write as {name}: only a member of ledger_operator or"
            " ledger_approver may: `dueledger grant operator TO LOGIN`."
        )
        raise NotPermitted(message, roles=roles) from error


async def find_person(pool: Pool, name: str) -> int | None:
    """Return the number of a person; None if the login may not name one."""
    async with pool.acquire() as connection:
        try:
            return await register_person(connection, name)
        except NotPermitted:
            return None
