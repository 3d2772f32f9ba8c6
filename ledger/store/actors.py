"""Who acts: processes by their incarnation, people by name."""

import os
import secrets
import socket
from enum import StrEnum

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement


class ActorKind(StrEnum):
    """What sort of actor writes to the ledger."""

    ALLOCATOR = "allocator"
    WORKER = "worker"
    MATERIALISER = "materialiser"
    INTAKE = "intake"
    RECONCILER = "reconciler"
    PERSON = "person"
    SERVICE = "service"


def incarnation(kind: ActorKind) -> str:
    """Return a name for this process that no other one, before or after, will have."""
    return f"{kind}:{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


async def register_actor(connection: Connection, name: str, kind: ActorKind) -> int:
    """Find or make the actor's number."""
    return await connection.fetchval(statement("register_actor"), name, kind)
