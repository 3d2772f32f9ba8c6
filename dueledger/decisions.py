"""Decisions about items that are named, by id or by business key, and why some are refused.

They are made at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from dueledger.ledger.errors import InvalidInput, NotFound, Problem
from dueledger.ledger.item_verbs import MOVED, UNKNOWN, OperationVerb, refusal
from dueledger.ledger.store import Connection
from dueledger.ledger.store.items import RequestResult
from dueledger.ledger.store.operations import (
    ItemState,
    apply_verb,
    find_items_of_tenant,
    find_keyed_items,
    read_item_states,
)

KEYED_ITEMS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class KeyedItems:
    """The items of business keys of a tenant, or of one of its kinds or lanes. `field` named them.

    Meant are those in a state to which the verb is applied.
    """

    business_keys: Sequence[str]
    tenant: str
    kind: str | None = None
    lane: str | None = None
    field: str = "business_keys"


@dataclass(frozen=True, slots=True)
class DecidedItem:
    """What came of a decision about an item; if it was refused, why."""

    id: UUID
    result: RequestResult
    reason: str | None

    @property
    def is_accepted(self) -> bool:
        """Return whether the item is changed, or will be."""
        return self.reason is None


async def find_named(
    connection: Connection, verb: OperationVerb, named: KeyedItems
) -> Sequence[UUID]:
    """Find the items of business keys. Raises NotFound for none, InvalidInput for too many."""
    keys = ", ".join(named.business_keys)
    ids = await find_keyed_items(
        connection,
        verb,
        named.business_keys,
        tenant=named.tenant,
        kind=named.kind,
        lane=named.lane,
        limit=KEYED_ITEMS_MAX + 1,
    )
    if not ids:
        message = (
            f"{verb.replace('_', '-')} applies to no item of {keys}; "
            "`dueledger items --key KEY` shows their states"
        )
        raise NotFound(message, tenant=named.tenant)
    if len(ids) > KEYED_ITEMS_MAX:
        problem = Problem(
            named.field,
            keys,
            f"more than {KEYED_ITEMS_MAX:,} items match",
            "fewer keys, a kind, or a lane",
        )
        raise InvalidInput("Too many items are named:", [problem])
    return ids


async def decide_items(
    connection: Connection,
    verb: OperationVerb,
    ids: Sequence[UUID],
    *,
    reason: str,
    actor_no: int,
) -> list[DecidedItem]:
    """Apply a verb to items; return what came of it in input order, with what the refused are."""
    results = await apply_verb(connection, verb, ids, reason=reason, actor_no=actor_no)
    refused = [each.id for each in results if not each.is_accepted]
    states = await read_item_states(connection, refused) if refused else []
    refusals = {each.id: _refusal(verb, each) for each in states}
    return [DecidedItem(each.id, each.result, refusals.get(each.id)) for each in results]


async def decide_for_tenant(
    connection: Connection,
    verb: OperationVerb,
    ids: Sequence[UUID],
    *,
    tenant: str,
    reason: str,
    actor_no: int,
) -> list[DecidedItem]:
    """Apply a verb to items of one tenant; those of others are unknown. Keeps the order."""
    own = await find_items_of_tenant(connection, ids, tenant)
    meant = [each for each in dict.fromkeys(ids) if each in own]
    decided = await decide_items(connection, verb, meant, reason=reason, actor_no=actor_no)
    found = {each.id: each for each in decided}
    return [found.get(each, DecidedItem(each, RequestResult.UNKNOWN, UNKNOWN)) for each in ids]


def _refusal(verb: OperationVerb, item: ItemState) -> str:
    if item.state is None:
        return UNKNOWN
    return refusal(verb, item.state, waits_for_key=item.waits_for_key) or MOVED
