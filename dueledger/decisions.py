"""Decisions about items that are named, by id or by business key, and why some are refused.

They are made at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from dueledger.ledger.errors import InvalidInput, NotFound, Problem
from dueledger.ledger.item_verbs import MOVED, UNKNOWN, OperationVerb, refusal
from dueledger.ledger.schedule.when import DUE_END
from dueledger.ledger.store import Connection
from dueledger.ledger.store.applied_verbs import (
    ItemState,
    apply_verb,
    find_items_of_tenant,
    find_keyed_items,
    read_item_states,
)
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.items import ItemRequestResult, RequestResult

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
    """What came of a decision about an item; if it was refused, why. `was`: what the item was."""

    id: UUID
    result: RequestResult
    reason: str | None
    was: ItemRequestResult | None = field(default=None, compare=False)

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


async def check_until(
    connection: Connection, verb: OperationVerb, until: datetime | None, field: str = "/until"
) -> None:
    """Raise InvalidInput unless snooze, and it alone, has a time to come by the ledger's clock."""
    if verb is not OperationVerb.SNOOZE:
        if until is not None:
            problem = Problem(field, f"{until}", "it belongs to snooze alone", "no such time")
            raise InvalidInput(f"{verb.replace('_', '-')} has no time.", [problem])
        return
    if until is None:
        problem = Problem(field, "", "it is missing", "when the items may be handed out")
        raise InvalidInput("Until when are the items snoozed?", [problem])
    if until >= DUE_END:
        problem = Problem(field, f"{until}", "it is too late", f"a time before {DUE_END.year}")
        raise InvalidInput("The items would never be handed out.", [problem])
    if until <= await read_now(connection):
        problem = Problem(field, f"{until}", "it is past by the ledger's clock", "a later time")
        raise InvalidInput("The snooze would end before it begins.", [problem])


def detail_of(until: datetime | None) -> dict[str, Any]:
    """Return what the audit has of the time of a snooze."""
    return {} if until is None else {"until": until.isoformat()}


async def decide_items(
    connection: Connection,
    verb: OperationVerb,
    ids: Sequence[UUID],
    *,
    reason: str,
    actor_no: int,
    until: datetime | None = None,
) -> list[DecidedItem]:
    """Apply a verb to items; return what came of it in input order, with what the refused are.

    `until` as `check_until` accepts it.
    """
    results = await apply_verb(connection, verb, ids, reason=reason, actor_no=actor_no, until=until)
    refused = [each.id for each in results if not each.is_accepted]
    states = await read_item_states(connection, refused) if refused else []
    refusals = {each.id: _refusal(verb, each, until) for each in states}
    return [DecidedItem(each.id, each.result, refusals.get(each.id), each) for each in results]


async def decide_for_tenant(
    connection: Connection,
    verb: OperationVerb,
    ids: Sequence[UUID],
    *,
    tenant: str,
    reason: str,
    actor_no: int,
    until: datetime | None = None,
) -> list[DecidedItem]:
    """Apply a verb to items of one tenant; those of others are unknown. Keeps the order.

    Raises InvalidInput as `check_until` does.
    """
    await check_until(connection, verb, until)
    own = await find_items_of_tenant(connection, ids, tenant)
    meant = [each for each in dict.fromkeys(ids) if each in own]
    decided = await decide_items(
        connection, verb, meant, reason=reason, actor_no=actor_no, until=until
    )
    found = {each.id: each for each in decided}
    return [found.get(each, DecidedItem(each, RequestResult.UNKNOWN, UNKNOWN)) for each in ids]


def _refusal(verb: OperationVerb, item: ItemState, until: datetime | None) -> str:
    if item.state is None:
        return UNKNOWN
    at = item.available_at
    waits_as_long = at is not None and until is not None and at >= until
    why = refusal(verb, item.state, waits_for_key=item.waits_for_key, waits_as_long=waits_as_long)
    return why or MOVED
