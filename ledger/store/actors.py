"""Actors: processes by their incarnation, people by name."""

import os
import secrets
import socket
from enum import StrEnum

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement


class ActorKind(StrEnum):
    """The kinds of actors that write to the ledger."""

    ALLOCATOR = "allocator"
    WORKER = "worker"
    MATERIALISER = "materialiser"
    INTAKE = "intake"
    RECONCILER = "reconciler"
    PERSON = "person"
    SERVICE = "service"


def incarnation(kind: ActorKind) -> str:
    """Return a unique name for this process."""
    return f"{kind}:{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


async def register_actor(connection: Connection, name: str, kind: ActorKind) -> int:
    """Return the actor's number; create the actor if it is unknown."""
    return await connection.fetchval(statement("register_actor"), name, kind)
