"""Sessions of the console: rows, so that the end of a key or a sign-out holds at once."""

import hashlib
import re
import secrets
from typing import Final

from dueledger.ledger.store.api_keys import ApiCaller, Scope, rate_of
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement

_ID_BYTES: Final = 32
_ID: Final = re.compile(r"[A-Za-z0-9_-]{43}")


async def open_session(connection: Connection, caller: ApiCaller, *, seconds: float) -> str:
    """Open a session of a caller; return its id, which nothing keeps but the cookie."""
    session_id = secrets.token_urlsafe(_ID_BYTES)
    rights = (sorted(caller.scopes), caller.tenants) if caller.key_no is None else (None, None)
    values = _digest(session_id), caller.actor_no, caller.key_no, *rights, seconds
    await connection.execute(statement("open_session"), *values)
    return session_id


async def find_session(connection: Connection, session_id: str) -> ApiCaller | None:
    """Return whose session it is, with the rights of now; None if it ended, or there is none."""
    if not _ID.fullmatch(session_id):
        return None
    row = await connection.fetchrow(statement("find_session"), _digest(session_id))
    if row is None:
        return None
    if row["is_use_due"]:
        await connection.execute(statement("mark_key_used"), row["key_no"])
    return ApiCaller(
        row["name"],
        row["actor_no"],
        row["tenants"],
        frozenset(Scope(each) for each in row["scopes"]),
        rate_of(row),
        is_token=row["key_no"] is None,
        key_no=row["key_no"],
    )


async def end_session(connection: Connection, session_id: str) -> None:
    """End a session. Repeating it changes nothing."""
    await connection.execute(statement("end_session"), _digest(session_id))


async def end_sessions_of_actor(connection: Connection, name: str) -> int:
    """End the open sessions of an actor; return how many."""
    return await connection.fetchval(statement("end_sessions_of_actor"), name)


async def forget_sessions(connection: Connection, limit: int) -> int:
    """Delete sessions that ended a day ago; return how many."""
    return await connection.fetchval(statement("forget_sessions"), limit)


def _digest(session_id: str) -> bytes:
    return hashlib.sha256(session_id.encode()).digest()
