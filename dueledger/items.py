"""Questions about items, for commands and for REST."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson

from dueledger.hindrance_facts import TimeText, in_utc
from dueledger.ledger.errors import InvalidInput, NotFound, Problem
from dueledger.ledger.states import TERMINAL_STATES, State
from dueledger.ledger.store import Connection
from dueledger.ledger.store.definitions import read_execution_versions
from dueledger.ledger.store.item_lists import (
    READ_MAX,
    READ_TOTAL_MAX,
    DuePlace,
    ItemListFilter,
    ItemPlace,
    find_items,
    list_items,
    list_open_items,
    read_executions,
)
from dueledger.ledger.store.items import show_item

EXECUTIONS_AT_ONCE: Final = 50
VERSIONS_MAX: Final = 10_000
"""The newest versions of a definition whose items are its executions."""
_OPEN: Final = [state.label for state in State if state not in TERMINAL_STATES]
_IN_FLIGHT: Final = [State.CLAIMED.label, State.RUNNING.label]


class ListedItems(NamedTuple):
    """Items of a list, the place after which the next ones are, and whether some may be missing.

    Without a place the list has ended.
    """

    items: list[dict[str, Any]]
    next_place: ItemPlace | DuePlace | None
    is_cut: bool = False


def lists_open_items(wanted: ItemListFilter, *, late: bool, is_open: bool = False) -> bool:
    """Return whether only open items are listed, which are in order of their due time.

    Raises InvalidInput for a state that no item of the list has.
    """
    has_attempts = wanted.attempt_min is not None and not wanted.is_ended
    is_serial = wanted.serial or wanted.blocked
    is_open, in_flight = late or is_open or has_attempts or is_serial, wanted.is_in_flight
    states, why = [state.label for state in State], "there is no such state"
    if in_flight:
        states, why = _IN_FLIGHT, "no item in flight has it"
    elif is_open:
        states, why = _OPEN, "no open item has it"
    if wanted.state is not None and wanted.state not in states:
        problem = Problem("state", wanted.state, why, " | ".join(states))
        raise InvalidInput("The filter cannot be used:", [problem])
    return is_open or in_flight or wanted.state in _OPEN


async def of_definition(
    connection: Connection, wanted: ItemListFilter, name: str | None, version: int | None
) -> ItemListFilter:
    """Return the filter for the items of a definition of its tenant, or of one version of it.

    Raises InvalidInput for a definition without its tenant, or a version without its definition.
    """
    if name is None and version is None:
        return wanted
    if name is None or wanted.tenant is None:
        field = "definition" if name is None else "tenant"
        problem = Problem(field, "", "a version needs its definition, and a definition its tenant")
        raise InvalidInput("The filter cannot be used:", [problem])
    if wanted.tenants is not None and wanted.tenant not in wanted.tenants:
        return replace(wanted, definition_nos=[])
    versions = await read_execution_versions(
        connection, wanted.tenant, name, limit=VERSIONS_MAX, version=version
    )
    return replace(
        wanted,
        definition_nos=versions.definition_nos,
        business_key=wanted.business_key or versions.business_key,
        kind=wanted.kind or versions.kind,
    )


async def page_items(
    connection: Connection,
    wanted: ItemListFilter,
    *,
    limit: int,
    after: ItemPlace | None = None,
    examined_max: int = READ_MAX,
    oldest_first: bool = False,
) -> ListedItems:
    """List a page of items, the latest or the earliest effective date first.

    It may have fewer than `limit` although the list goes on, since `examined_max` are examined.
    """
    if wanted.definition_nos == []:
        return ListedItems([], None)
    found = await list_items(
        connection,
        wanted,
        after=after,
        limit=limit + 1,
        examined_max=examined_max,
        oldest_first=oldest_first,
    )
    items = found.items[:limit]
    if len(found.items) > limit:
        return ListedItems(items, ItemPlace(items[-1]["effective_date"], items[-1]["item_no"]))
    return ListedItems(items, found.reached)


async def page_open_items(
    connection: Connection,
    wanted: ItemListFilter,
    *,
    limit: int,
    after: DuePlace | None = None,
    late: bool = False,
    read_max: int = READ_MAX,
    read_total_max: int = READ_TOTAL_MAX,
) -> ListedItems:
    """List a page of open items, the first due first; `late`: those past their SLA alone."""
    if wanted.definition_nos == []:
        return ListedItems([], None)
    found = await list_open_items(
        connection,
        wanted,
        past_sla=late,
        after=after,
        limit=limit + 1,
        read_max=read_max,
        read_total_max=read_total_max,
    )
    items = found.items[:limit]
    if len(found.items) > limit:
        return ListedItems(items, DuePlace(items[-1]["due_at"], items[-1]["item_no"]))
    return ListedItems(items, None, found.is_cut)


async def page_executions(
    connection: Connection,
    tenant: str,
    name: str,
    *,
    limit: int,
    after: ItemPlace | None = None,
    due_before: datetime | None = None,
    examined_max: int = READ_MAX,
    bytes_max: int,
    oldest_first: bool = False,
) -> ListedItems:
    """List a page of a definition's items as executions, as `page_items` does.

    With `due_before`, of those due before then. The page ends after `bytes_max` bytes of evidence.
    """
    versions = await read_execution_versions(connection, tenant, name, limit=VERSIONS_MAX)
    if not versions.definition_nos:
        return ListedItems([], None)
    wanted = ItemListFilter(tenants=[tenant], due_before=due_before, **versions._asdict())
    places, reached = await find_items(
        connection,
        wanted,
        after=after,
        limit=limit + 1,
        examined_max=examined_max,
        oldest_first=oldest_first,
    )
    items: list[dict[str, Any]] = []
    size = 0
    for first in range(0, min(limit, len(places)), EXECUTIONS_AT_ONCE):
        some = places[first : min(first + EXECUTIONS_AT_ONCE, limit)]
        found = await read_executions(connection, some, [tenant])
        items += found
        size += sum(len(orjson.dumps(each["evidence"])) for each in found if each["evidence"])
        if size > bytes_max and len(places) > first + len(some):
            return ListedItems(items, some[-1])
    return ListedItems(items, places[limit - 1] if len(places) > limit else reached)


async def read_item(
    connection: Connection, item: UUID, tenants: Sequence[str] | None = None
) -> dict[str, Any]:
    """Read an item and its state. Raises NotFound, also for items of other tenants."""
    found = await show_item(connection, item, tenants)
    if found is None:
        raise NotFound(f"There is no item {item}. `dueledger items` lists some.", item=str(item))
    return found


async def explain_item(
    connection: Connection,
    found: Mapping[str, Any],
    tenants: Sequence[str] | None = None,
    *,
    at: TimeText = in_utc,
) -> dict[str, object]:
    """Return why an item that was read has not been done yet, and what to do.

    `tenants` are those of who asks; times are as `at` has them.
    """
    from dueledger.why import explain  # noqa: PLC0415 - lists do not load what it needs

    explanation = await explain(connection, found, for_tenants=tenants is not None, at=at)
    return {
        "item": found["id"],
        "state": found["state"],
        "code": explanation.code,
        "sentence": explanation.sentence,
        "remedy": explanation.remedy,
        "behind": explanation.behind,
    }
