"""Logins of the tests' servers: each has exactly the roles of a process or a person."""

from typing import Final
from urllib.parse import urlsplit, urlunsplit

from dueledger.ledger.store import Connection

LOGINS: Final = {
    "alerter": ("alerter",),
    "allocator": ("allocator", "upkeep"),
    "approver": ("approver",),
    "auditor": ("auditor",),
    "direct_worker": ("allocator", "upkeep", "worker"),
    "emitter": ("emitter",),
    "intake": ("intake",),
    "materialiser": ("materialiser",),
    "monitor": ("monitor",),
    "operator": ("operator",),
    "outcome_intake": ("outcome_intake",),
    "reconciler": ("reconciler",),
    "relay": ("relay",),
    "service": (
        *("approver", "auditor", "emitter", "intake", "key_manager", "operator"),
        *("pull_worker", "service"),
    ),
    "service_alone": ("auditor", "emitter", "pull_worker", "service", "upkeep"),
    "worker": ("worker",),
}
"""The roles of each login, as docs/security.md gives them."""

_MAKE: Final = """
do $$ begin
  if to_regrole('{login}') is null then
    create role {login} login password '{login}' in role {roles};
  end if;
end $$
"""


async def make_logins(connection: Connection) -> None:
    """Make the logins of a server whose first ledger was migrated. They may simulate a clock."""
    for name, roles in LOGINS.items():
        members = ", ".join(f"ledger_{role}" for role in (*roles, "simulator"))
        await connection.execute(_MAKE.format(login=f"test_{name}", roles=members))


def with_login(dsn: str, name: str) -> str:
    """Return `dsn` with one of the logins in it."""
    parts = urlsplit(dsn)
    where = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"test_{name}:test_{name}@{where}"))
