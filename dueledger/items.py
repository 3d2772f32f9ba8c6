"""Questions about one item, for commands and for REST."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from dueledger.ledger.errors import NotFound
from dueledger.ledger.store import Connection
from dueledger.ledger.store.items import show_item
from dueledger.why import explain


async def read_item(
    connection: Connection, item: UUID, tenants: Sequence[str] | None = None
) -> dict[str, Any]:
    """Read an item and its state. Raises NotFound, also for items of other tenants."""
    found = await show_item(connection, item, tenants)
    if found is None:
        raise NotFound(f"There is no item {item}. `dueledger items` lists some.", item=str(item))
    return found


async def explain_item(connection: Connection, found: Mapping[str, Any]) -> dict[str, object]:
    """Return why an item that was read has not been done yet, and what to do."""
    explanation = await explain(connection, found)
    return {
        "item": found["id"],
        "state": found["state"],
        "code": explanation.code,
        "sentence": explanation.sentence,
        "remedy": explanation.remedy,
    }
