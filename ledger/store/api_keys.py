"""API keys and tokens: who may use the REST interface, for which tenants, and for what."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple

from dueledger.ledger.store.connection import Connection, Record
from dueledger.ledger.store.statements import statement

KEY_BEGIN: Final = "due_"
_KEY: Final = re.compile(KEY_BEGIN + r"([0-9a-f]{16})_[A-Za-z0-9_-]{43}")
_PREFIX_BYTES: Final = 8
_SECRET_BYTES: Final = 32
_NO_DIGEST: Final = bytes(32)
"""Compared where there is no key, so that a prefix that exists takes as long as another one."""
NAME_SHAPE: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")


class Scope(StrEnum):
    """What a key or token may do. None contains another."""

    READ = "read"
    EMIT = "emit"
    WORK = "work"
    OPERATE = "operate"
    APPROVE = "approve"
    AUDIT = "audit"
    ADMIN = "admin"


SCOPE_ROLES: Final = {
    Scope.READ: "auditor",
    Scope.EMIT: "emitter",
    Scope.WORK: "pull_worker",
    Scope.OPERATE: "operator",
    Scope.APPROVE: "approver",
    Scope.AUDIT: "auditor",
    Scope.ADMIN: "key_manager",
}
"""The role of the database under which a request of a scope runs."""

EVERY_TENANT: Final = "*"
"""Can be no tenant's name."""

SERVICE_ROLE: Final = "service"
"""That of the service itself."""


class CallRate(NamedTuple):
    """How many requests a process takes: so many a second, after a burst."""

    per_second: float
    burst: int


class NewApiKey(NamedTuple):
    """A key that was made. `text` is shown once and is kept nowhere."""

    text: str
    prefix: str


@dataclass(frozen=True, slots=True)
class ApiCaller:
    """Whose valid key or token a request has. Without `tenants`, all."""

    name: str
    actor_no: int
    tenants: Sequence[str] | None
    scopes: frozenset[Scope]
    rate: CallRate | None = None
    is_token: bool = False
    """The database knows the tenants of a key; those of a token are named to it."""
    key_no: int | None = None
    """Of a key."""


class InheritedRights(NamedTuple):
    """What a key has that the next one of its name inherits.

    It expires at `expires_at` now; without a successor it would have at `expired_at`, or never.
    """

    name: str
    scopes: Sequence[str]
    tenants: Sequence[str] | None
    rate: CallRate | None
    expires_at: datetime | None = None
    expired_at: datetime | None = None


class RevokedApiKey(NamedTuple):
    """A key that was revoked, its scopes, and the tenants for which it was; None: all."""

    prefix: str
    tenants: Sequence[str] | None
    scopes: Sequence[str]


async def create_key(
    connection: Connection,
    name: str,
    *,
    scopes: Sequence[str],
    tenants: Sequence[str] | None,
    expires_at: datetime | None,
    created_by: int,
    rate: CallRate | None = None,
) -> NewApiKey | None:
    """Make a key of the actor `key:NAME`; None if that name has keys for other tenants.

    Without a `rate`, the settings of the service have it.
    """
    prefix = secrets.token_hex(_PREFIX_BYTES)
    key = f"{KEY_BEGIN}{prefix}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    made = await connection.fetchval(
        statement("create_key"),
        name,
        prefix,
        _digest(key),
        scopes,
        tenants,
        expires_at,
        created_by,
        *(rate or (None, None)),
    )
    return None if made is None else NewApiKey(key, prefix)


async def list_keys(
    connection: Connection,
    name: str | None,
    limit: int,
    *,
    tenants: Sequence[str] | None = None,
    after_no: int | None = None,
) -> list[dict[str, Any]]:
    """List keys without their secrets, the newest first. `tenants` limits who asks."""
    rows = await connection.fetch(statement("list_keys"), tenants, name, after_no, limit)
    return [dict(row) for row in rows]


async def revoke_key(
    connection: Connection, prefix: str, *, revoked_by: int, tenants: Sequence[str] | None = None
) -> RevokedApiKey | None:
    """Revoke a key; None if there is none of this prefix, or it was revoked before."""
    values = prefix, revoked_by, tenants
    row = await connection.fetchrow(statement("revoke_key"), *values)
    return None if row is None else RevokedApiKey(**row)


async def expire_key(
    connection: Connection,
    prefix: str,
    overlap: timedelta,
    tenants: Sequence[str] | None = None,
) -> InheritedRights | None:
    """Let a key expire after `overlap`; None if there is none of this prefix that is valid."""
    values = prefix, overlap.total_seconds(), tenants
    row = await connection.fetchrow(statement("expire_key"), *values)
    if row is None:
        return None
    times = row["expires_at"], row["expired_at"]
    return InheritedRights(row["name"], row["scopes"], row["tenants"], rate_of(row), *times)


async def authenticate(connection: Connection, text: str) -> ApiCaller | None:
    """Return whose key a text is; None if it is no valid one. Compares in constant time."""
    shape = _KEY.fullmatch(text)
    if shape is None:
        return None
    row = await connection.fetchrow(statement("find_key"), shape[1])
    is_same = hmac.compare_digest(
        _digest(text), _NO_DIGEST if row is None else row["secret_digest"]
    )
    if row is None or not is_same or not row["is_valid"]:
        return None
    if row["is_use_due"]:
        await connection.execute(statement("mark_key_used"), row["key_no"])
    scopes = frozenset(Scope(each) for each in row["scopes"])
    return ApiCaller(
        row["name"], row["actor_no"], row["tenants"], scopes, rate_of(row), key_no=row["key_no"]
    )


async def find_actor(connection: Connection, name: str) -> tuple[int | None, datetime]:
    """Return the number of an actor, None if it is unknown, and the time now."""
    row = await connection.fetchrow(statement("find_actor"), name)
    assert row is not None  # noqa: S101 - it returns one
    return row["actor_no"], row["now"]


async def check_readable(connection: Connection) -> None:
    """Raise what a request would raise if keys cannot be read, as without a schema."""
    await connection.fetch(statement("find_key"), "")


async def assume_role(
    connection: Connection,
    caller: ApiCaller | None,
    role: str,
    *,
    statement_seconds: float | None = None,
) -> datetime:
    """Give the rest of the transaction the rights of a role, in the name of the caller if any.

    Return the business clock. A statement that takes longer than `statement_seconds` is cancelled;
    None: no further limit.
    """
    name = "" if caller is None else caller.name
    tenants = None
    if caller is not None and caller.is_token:
        tenants = [EVERY_TENANT] if caller.tenants is None else caller.tenants
    values = role, name, tenants, statement_seconds
    return await connection.fetchval(statement("assume_role"), *values)


def rate_of(row: Record) -> CallRate | None:
    """Return the rate of the key of a row; None if it has none of its own."""
    per_second = row["rate_per_second"]
    return None if per_second is None else CallRate(per_second, row["rate_burst"])


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


async def read_cursor_secret(connection: Connection) -> bytes:
    """Return the 32 bytes under which the cursors of this ledger's lists are sealed."""
    return await connection.fetchval(statement("read_cursor_secret"))
