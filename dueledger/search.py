"""Search by one text: what it names among items, claims, events and Kafka records."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple
from uuid import UUID

from dueledger.ledger.store import Connection
from dueledger.ledger.store.item_lists import ItemListFilter, list_items
from dueledger.ledger.store.items import show_item
from dueledger.ledger.store.search import (
    FoundEvent,
    find_event_number,
    find_events,
    find_record,
    list_items_of_event,
    list_items_of_fence,
    list_keys_from,
    list_own_keys_from,
)

ITEMS_MAX: Final = 100
"""Items listed of one claim or event."""
CLAIMS_MAX: Final = 1_000
"""Claims read at each step of the search for a Kafka record: no index has their offsets."""
SOURCES_MAX: Final = 200
KEYS_MAX: Final = 20
"""Business keys suggested for the beginning of one."""
KEY_ITEMS_MAX: Final = 500
"""Items that are read for that."""
_KEY_FLOWS_MAX: Final = 50
_EVENTS_MAX: Final = 10
_EXAMINED_MAX: Final = 1_000
_BIGINT_MAX: Final = 2**63 - 1
_INTEGER_MAX: Final = 2**31 - 1
_UUID: Final = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?::\d+)?", re.IGNORECASE)
_RECORD: Final = re.compile(r"(.{1,249})[/:](\d{1,10})[/:@](\d{1,19})", re.ASCII)
_NUMBER: Final = re.compile(r"(?:claim |event )?(\d{1,19})", re.ASCII)


class Named(StrEnum):
    """What a text named."""

    ITEM = "item"
    BUSINESS_KEY = "business key"
    RECORD = "Kafka record"
    CLAIM = "claim"
    EVENT = "event"


class Found(NamedTuple):
    """What a text names, and its items, at most `ITEMS_MAX`. `event` is the event, if it is one."""

    named: Named
    items: Sequence[Mapping[str, Any]]
    event: FoundEvent | None = None


async def search(connection: Connection, text: str, tenants: Sequence[str] | None) -> list[Found]:
    """Return all that a text names, of these tenants, each read by an index.

    An id of an item or of its record (`ce_id`), a business key, `topic/partition/offset`, the
    number of a claim or an event, or the id of an event.
    """
    if match := _UUID.fullmatch(text):
        found = await show_item(connection, UUID(match[1]), tenants)
        if found is not None:
            return [Found(Named.ITEM, [found])]
    results: list[Found] = []
    if match := _RECORD.fullmatch(text):
        results += await _of_record(connection, match, tenants)
    if match := _NUMBER.fullmatch(text):
        results += await _of_number(connection, int(match[1]), tenants)
    wanted = ItemListFilter(tenants=tenants, business_key=text)
    keyed = await list_items(connection, wanted, limit=ITEMS_MAX, examined_max=_EXAMINED_MAX)
    if keyed.items:
        results.append(Found(Named.BUSINESS_KEY, keyed.items))
    for event in await find_events(
        connection, text, tenants=tenants, sources_max=SOURCES_MAX, limit=_EVENTS_MAX
    ):
        if all(each.event != event for each in results):
            results.append(await _of_event(connection, event, tenants))
    return results


async def suggest_keys(
    connection: Connection, text: str, tenants: Sequence[str] | None
) -> list[str]:
    """Return business keys that begin with a text.

    The index of keys has those of all tenants: what is read of it, and so what is left out, would
    say which keys others have. For callers of some tenants, their latest items are read instead.
    """
    if not text:
        return []
    if tenants is None:
        return await list_keys_from(connection, text, read_max=KEY_ITEMS_MAX, limit=KEYS_MAX)
    return await list_own_keys_from(
        connection,
        tenants,
        text,
        flows_max=_KEY_FLOWS_MAX,
        read_max=KEY_ITEMS_MAX,
        limit=KEYS_MAX,
    )


def is_record(text: str) -> bool:
    """Return whether a text may name a Kafka record."""
    return _RECORD.fullmatch(text) is not None


async def _of_record(
    connection: Connection, match: re.Match[str], tenants: Sequence[str] | None
) -> list[Found]:
    topic, partition, offset = match[1], int(match[2]), int(match[3])
    if partition > _INTEGER_MAX or offset > _BIGINT_MAX:
        return []
    row = await find_record(
        connection, topic, partition, offset, tenants=tenants, claims_max=CLAIMS_MAX
    )
    return [] if row is None else [Found(Named.RECORD, [row])]


async def _of_number(
    connection: Connection, number: int, tenants: Sequence[str] | None
) -> list[Found]:
    if number > _BIGINT_MAX:
        return []
    results: list[Found] = []
    items = await list_items_of_fence(connection, number, tenants=tenants, limit=ITEMS_MAX)
    if items:
        results.append(Found(Named.CLAIM, items))
    event = await find_event_number(connection, number, tenants=tenants)
    if event is not None:
        results.append(await _of_event(connection, event, tenants))
    return results


async def _of_event(
    connection: Connection, event: FoundEvent, tenants: Sequence[str] | None
) -> Found:
    items = await list_items_of_event(connection, event, tenants=tenants, limit=ITEMS_MAX)
    return Found(Named.EVENT, items, event)
