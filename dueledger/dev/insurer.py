"""A small insurer for `dueledger dev`, whose renewals are due within the first minute."""

from datetime import timedelta
from typing import Final

from dueledger.dev.child_processes import process_environment
from dueledger.dev.examples import insurer
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.items import emit_items, read_accounting
from dueledger.stack import Endpoints

HANDLERS: Final = ("dueledger.examples.insurer.handlers:handlers",)

_POLICIES: Final = 200
_NOTICE: Final = timedelta(days=30)
_WITHIN: Final = timedelta(minutes=1)


async def seed(connection: Connection, endpoints: Endpoints, *, rate: float) -> int:
    """Emit a few hundred items due within a real minute; return how many, 0 if there are items."""
    if await read_accounting(connection):
        return 0
    now = await read_now(connection)
    await insurer(
        process_environment(endpoints),
        *("prepare", "--policies", str(_POLICIES), "--day", now.date().isoformat()),
    )
    expires_on = now.date() + _NOTICE
    drafts = [
        ItemDraft(
            tenant="insurer",
            kind="PolicyRenewalDue",
            business_key=f"POL-{number:07d}",
            cycle=str(expires_on.year),
            effective_date=expires_on,
            due_at=now + _WITHIN * rate * number / _POLICIES,
            payload="{}",
        )
        for number in range(1, _POLICIES + 1)
    ]
    actor_no = await register_actor(connection, "dueledger dev", ActorKind.SERVICE)
    return len(await emit_items(connection, drafts, actor_no=actor_no))
