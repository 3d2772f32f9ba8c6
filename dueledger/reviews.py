"""Parked items and findings that people take and return, and what they write about them."""

from collections.abc import Sequence
from typing import Final, assert_never
from uuid import UUID

from dueledger.ledger.errors import Conflict, NotFound
from dueledger.ledger.states import State
from dueledger.ledger.store import Connection
from dueledger.ledger.store.applied_verbs import find_items_of_tenant
from dueledger.ledger.store.findings import find_finding
from dueledger.ledger.store.flows import FlowScope
from dueledger.ledger.store.items import show_item
from dueledger.ledger.store.reviews import (
    ParkedFilter,
    TakenReview,
    TakeResult,
    find_parked_items,
    return_reviews,
    take_reviews,
)

PARKED_MAX: Final = 1_000
"""Items of a group that are taken or returned at once: the first by number."""


async def find_group(connection: Connection, wanted: ParkedFilter) -> tuple[list[UUID], bool]:
    """Return parked items of a group, and whether there may be more. Raises NotFound for none."""
    ids, is_capped = await find_parked_items(connection, wanted, PARKED_MAX)
    if not ids:
        message = "No parked item matches. `dueledger reviews` lists them."
        raise NotFound(message, tenant=wanted.tenant)
    return ids, is_capped


async def take_for_tenant(
    connection: Connection,
    ids: Sequence[UUID],
    *,
    tenant: str,
    actor_no: int,
    instead_of: str | None = None,
) -> list[TakenReview]:
    """Take items of one tenant, as `take_reviews`; those of others are unknown."""
    own = await find_items_of_tenant(connection, ids, tenant)
    taken = await take_reviews(connection, list(own), actor_no=actor_no, instead_of=instead_of)
    return _in_order(ids, taken)


async def return_for_tenant(
    connection: Connection, ids: Sequence[UUID], *, tenant: str, actor_no: int
) -> list[TakenReview]:
    """Return items of one tenant, as `return_reviews`; those of others are unknown."""
    own = await find_items_of_tenant(connection, ids, tenant)
    return _in_order(ids, await return_reviews(connection, list(own), actor_no=actor_no))


async def find_commented(connection: Connection, wanted: ParkedFilter, item: UUID | None) -> str:
    """Return what a comment is about, as the audit names it: a parked item, or those of a flow.

    Raises NotFound if there is none, Conflict for an item that is not parked.
    """
    if item is None:
        await find_group(connection, wanted)
        return _of_flow(FlowScope(wanted.tenant, wanted.kind, wanted.lane))
    found = await show_item(connection, item, [wanted.tenant])
    if found is None:
        raise NotFound(f"The tenant has no item {item}.", item=str(item))
    if found["state"] != State.MANUAL_REVIEW.label:
        message = f"The item is not parked, but {found['state']}; nobody reads a comment on it."
        raise Conflict(message, item=str(item))
    return of_item(item)


async def find_commented_finding(
    connection: Connection, finding: UUID, tenants: Sequence[str] | None = None
) -> tuple[str, str]:
    """Return what a comment on a finding is about, as the audit names it, and its tenant.

    Raises NotFound if there is none, Conflict for one that is closed.
    """
    found = await find_finding(connection, finding, tenants)
    if found is None:
        raise unknown_finding(finding)
    if not found["is_open"]:
        message = "The finding is not open; nobody reads a comment on it."
        raise Conflict(message, finding=str(finding))
    return of_finding(finding), found["tenant"]


def taken_refusal(taken: TakenReview) -> str | None:
    """Return why a finding is not taken or returned, by its result; None if it is."""
    match taken.result:
        case TakeResult.DONE:
            return None
        case TakeResult.TAKEN:
            return f"{taken.taken_by} has taken it"
        case TakeResult.ILLEGAL:
            return "it is not open any more"
        case TakeResult.UNKNOWN:
            return "there is no such finding"
        case _:
            assert_never(taken.result)


def unknown_finding(finding: UUID) -> NotFound:
    """Return the error for a finding that there is not, or that is of others."""
    message = f"There is no finding {finding}. `dueledger findings --all` lists them."
    return NotFound(message, finding=str(finding))


def of_finding(finding: UUID) -> str:
    """Return what comments on a finding are about, as the audit names it."""
    return f"findings/{finding}/review"


def of_item(item: UUID) -> str:
    """Return what comments on a parked item are about, as the audit names it."""
    return f"items/{item}/review"


def of_flow(tenant: str, kind: str, lane: str | None) -> list[str]:
    """Return what comments on parked items of a flow are about; those of its kind are, too."""
    wider = [FlowScope(tenant, kind)]
    scopes = wider if lane is None else [*wider, FlowScope(tenant, kind, lane)]
    return [_of_flow(each) for each in scopes]


def _of_flow(scope: FlowScope) -> str:
    return f"{scope.path}/reviews"


def _in_order(ids: Sequence[UUID], found: Sequence[TakenReview]) -> list[TakenReview]:
    by_id = {each.id: each for each in found}
    return [by_id.get(each, TakenReview(each, TakeResult.UNKNOWN)) for each in dict.fromkeys(ids)]
