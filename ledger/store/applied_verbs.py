"""Verbs applied to items that are named: by a person's decision, or by a step of an operation."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol
from uuid import UUID

from dueledger.ledger.item_verbs import OperationVerb
from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.flows import expedite_items, snooze_items
from dueledger.ledger.store.items import ItemRequestResult, withdraw_items
from dueledger.ledger.store.reviews import park_items, redrive_items, write_off_items
from dueledger.ledger.store.statements import statement


@dataclass(frozen=True, slots=True)
class ItemState:
    """The state of an item, None if it does not exist, and whether it waits for its key.

    `available_at`: from when it may be handed out; None if it waits for nothing, or for its key.
    """

    id: UUID
    state: State | None
    available_at: datetime | None
    waits_for_key: bool


async def find_keyed_items(
    connection: Connection,
    verb: OperationVerb,
    business_keys: Sequence[str],
    *,
    tenant: str,
    kind: str | None,
    lane: str | None,
    limit: int,
) -> list[UUID]:
    """Find the items of business keys that are in a state to which a verb is applied."""
    rows = await connection.fetch(
        statement("find_keyed_items"), verb, tenant, kind, lane, business_keys, limit
    )
    return [row["id"] for row in rows]


async def find_items_of_tenant(
    connection: Connection, ids: Sequence[UUID], tenant: str
) -> set[UUID]:
    """Find which of these items are a tenant's."""
    rows = await connection.fetch(statement("find_items_of_tenant"), ids, tenant)
    return {row["id"] for row in rows}


async def read_item_states(connection: Connection, ids: Sequence[UUID]) -> list[ItemState]:
    """Read the states of items, in input order."""
    return [
        ItemState(
            row["id"],
            None if row["state"] is None else State(row["state"]),
            row["available_at"],
            row["waits_for_key"],
        )
        for row in await connection.fetch(statement("read_item_states"), ids)
    ]


async def apply_verb(
    connection: Connection,
    verb: OperationVerb,
    ids: Sequence[UUID],
    *,
    reason: str,
    actor_no: int,
    until: datetime | None = None,
) -> list[ItemRequestResult]:
    """Apply a verb to items in the name of an actor; return results in input order.

    `until` is of snooze, which refuses every item without it.
    """
    if verb is OperationVerb.SNOOZE:
        return await snooze_items(connection, ids, reason=reason, actor_no=actor_no, until=until)
    return await _APPLIED[verb](connection, ids, reason=reason, actor_no=actor_no)


async def _cancel_items(
    connection: Connection, ids: Sequence[UUID], *, reason: str, actor_no: int
) -> list[ItemRequestResult]:
    return await withdraw_items(
        connection, ids, event=TransitionEvent.CANCELLED, reason=reason, actor_no=actor_no
    )


class _Apply(Protocol):
    async def __call__(
        self, connection: Connection, ids: Sequence[UUID], /, *, reason: str, actor_no: int
    ) -> list[ItemRequestResult]: ...


_APPLIED: Final[dict[OperationVerb, _Apply]] = {
    OperationVerb.TRIGGER: expedite_items,
    OperationVerb.PARK: park_items,
    OperationVerb.REDRIVE: redrive_items,
    OperationVerb.WRITE_OFF: write_off_items,
    OperationVerb.CANCEL: _cancel_items,
}
