"""Keys of the REST interface, for commands and for REST: made, rotated, revoked."""

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from math import ceil

from dueledger.ledger.errors import Conflict, InvalidInput, NotFound, Problem
from dueledger.ledger.identity import TENANT_SHAPE
from dueledger.ledger.store import Connection
from dueledger.ledger.store.api_keys import (
    NAME_SHAPE,
    CallRate,
    InheritedRights,
    NewApiKey,
    RevokedApiKey,
    Scope,
    create_key,
    expire_key,
    revoke_key,
)

PREFIX: str = "key:"
"""Of an actor that is a key."""
RATE_MAX = 100_000
BURST_MAX = 1_000_000
_BURST_SECONDS = 5
_TENANTS_CHARS_MAX = 200
_SHAPE = "1 to 100 of A-Z a-z 0-9 . _ -"


async def make_key(
    connection: Connection,
    name: str,
    *,
    scopes: Sequence[str],
    tenants: Sequence[str] | None,
    expires_at: datetime | None,
    actor_no: int,
    rate: CallRate | None = None,
    maker_tenants: Sequence[str] | None = None,
) -> NewApiKey:
    """Make a key of a name. Without `tenants` it is for all; without a `rate` settings have it.

    A maker for some tenants alone, `maker_tenants`, gives names that begin with those of the key:
    it neither learns names of others nor takes them.
    Raises InvalidInput with what can be no name, scope, tenant or rate; Conflict if the name's keys
    are for other tenants.
    """
    _check(name, scopes, tenants, rate)
    if maker_tenants is not None:
        name = f"{_named(tenants or maker_tenants)}/{name}"
    made = await create_key(
        connection,
        f"{PREFIX}{name}",
        scopes=sorted(set(scopes)),
        tenants=None if tenants is None else sorted(set(tenants)),
        expires_at=expires_at,
        created_by=actor_no,
        rate=rate,
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
) -> tuple[NewApiKey, InheritedRights]:
    """Make a key with the rights of another one, which expires after `overlap`.

    `tenants` are those of who asks. Returns the key and its rights. Raises NotFound if there is no
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
        rate=rights.rate,
    )
    if made is None:
        raise _no_such_key(prefix)  # its actor's tenants are its own
    return made, rights


async def end_key(
    connection: Connection, prefix: str, *, actor_no: int, tenants: Sequence[str] | None = None
) -> RevokedApiKey:
    """Revoke a key at once, and return what it was.

    Raises NotFound if there is no such valid key for these `tenants`.
    """
    revoked = await revoke_key(connection, prefix, revoked_by=actor_no, tenants=tenants)
    if revoked is None:
        raise _no_such_key(prefix)
    return revoked


def read_rate(per_second: float | None, burst: int | None) -> CallRate | None:
    """Return a rate of two options; without a burst, that of five seconds. None without both.

    Raises InvalidInput for a burst alone.
    """
    if per_second is None:
        if burst is None:
            return None
        problem = Problem("rate_burst", str(burst), "it needs a rate", "also rate_per_second")
        raise InvalidInput("The key cannot be made:", [problem])
    if burst is None:
        burst = ceil(min(max(0.0, per_second), RATE_MAX) * _BURST_SECONDS)
    return CallRate(per_second, max(1, burst))


def _named(tenants: Sequence[str]) -> str:
    names = "+".join(sorted(set(tenants)))
    return names if len(names) <= _TENANTS_CHARS_MAX else hashlib.sha256(names.encode()).hexdigest()


def _check(
    name: str, scopes: Sequence[str], tenants: Sequence[str] | None, rate: CallRate | None
) -> None:
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
    if rate is not None and not 0 < rate.per_second <= RATE_MAX:
        bounds = f"more than 0, at most {RATE_MAX:,}"
        problems.append(Problem("rate_per_second", f"{rate.per_second:g}", "out of range", bounds))
    if rate is not None and not 1 <= rate.burst <= BURST_MAX:
        problems.append(
            Problem("rate_burst", str(rate.burst), "out of range", f"1 to {BURST_MAX:,}")
        )
    if problems:
        raise InvalidInput("The key cannot be made:", problems)


def _no_such_key(prefix: str) -> NotFound:
    message = f"There is no valid key {prefix}. `dueledger key list` shows all."
    return NotFound(message, prefix=prefix)
