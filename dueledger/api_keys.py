"""Keys of the REST interface, for commands and for REST: made, rotated, revoked."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from dueledger.ledger.errors import Conflict, InvalidInput, NotFound, Problem
from dueledger.ledger.identity import TENANT_SHAPE
from dueledger.ledger.store import Connection
from dueledger.ledger.store.api_keys import (
    NAME_SHAPE,
    NewApiKey,
    Scope,
    create_key,
    expire_key,
    revoke_key,
)

PREFIX: str = "key:"
"""Of an actor that is a key."""
_SHAPE = "1 to 100 of A-Z a-z 0-9 . _ -"


async def make_key(
    connection: Connection,
    name: str,
    *,
    scopes: Sequence[str],
    tenants: Sequence[str] | None,
    expires_at: datetime | None,
    actor_no: int,
) -> NewApiKey:
    """Make a key of a name. Without `tenants` it is for all.

    Raises InvalidInput with what can be no name, scope or tenant; Conflict if the name's keys are
    for other tenants.
    """
    _check(name, scopes, tenants)
    made = await create_key(
        connection,
        f"{PREFIX}{name}",
        scopes=sorted(set(scopes)),
        tenants=None if tenants is None else sorted(set(tenants)),
        expires_at=expires_at,
        created_by=actor_no,
    )
    if made is None:
        message = f"Keys named {name} are for other tenants. Choose another name."
        raise Conflict(message, name=name)
    return made


async def rotate_key(
    connection: Connection,
    prefix: str,
    *,
    overlap: timedelta,
    expires_at: datetime | None,
    actor_no: int,
    tenants: Sequence[str] | None = None,
) -> tuple[NewApiKey, Sequence[str] | None]:
    """Make a key with the rights of another one, which expires after `overlap`.

    `tenants` are those of who asks. Returns the key and its tenants. Raises NotFound if there is no
    such valid key for these.
    """
    rights = await expire_key(connection, prefix, overlap, tenants)
    if rights is None:
        raise _no_such_key(prefix)
    made = await create_key(
        connection,
        rights.name,
        scopes=rights.scopes,
        tenants=rights.tenants,
        expires_at=expires_at,
        created_by=actor_no,
    )
    if made is None:
        raise _no_such_key(prefix)  # its actor's tenants are its own
    return made, rights.tenants


async def end_key(
    connection: Connection, prefix: str, *, actor_no: int, tenants: Sequence[str] | None = None
) -> Sequence[str] | None:
    """Revoke a key at once, and return its tenants.

    Raises NotFound if there is no such valid key for these `tenants`.
    """
    revoked = await revoke_key(connection, prefix, revoked_by=actor_no, tenants=tenants)
    if revoked is None:
        raise _no_such_key(prefix)
    return revoked.tenants


def _check(name: str, scopes: Sequence[str], tenants: Sequence[str] | None) -> None:
    known = [each.value for each in Scope]
    problems: list[Problem] = []
    if not NAME_SHAPE.fullmatch(name):
        problems.append(Problem("name", repr(name), "can be no name", _SHAPE))
    problems += [
        Problem("scope", repr(each), "there is no such scope", " | ".join(known))
        for each in scopes
        if each not in known
    ]
    problems += [
        Problem("tenant", repr(each), "can be no tenant", _SHAPE)
        for each in tenants or ()
        if not TENANT_SHAPE.fullmatch(each)
    ]
    if tenants is not None and not tenants:
        problems.append(Problem("tenant", "", "there is none", "the tenants of the key, or all"))
    if problems:
        raise InvalidInput("The key cannot be made:", problems)


def _no_such_key(prefix: str) -> NotFound:
    message = f"There is no valid key {prefix}. `dueledger key list` shows all."
    return NotFound(message, prefix=prefix)
