"""Alerts that stand, as people are shown them."""

from collections.abc import Sequence
from typing import Any

from dueledger.alerts.notices import describe_alert, is_known
from dueledger.ledger.store import Connection
from dueledger.ledger.store.alerts import list_alerts


async def list_open_alerts(
    connection: Connection, tenants: Sequence[str] | None
) -> list[dict[str, Any]]:
    """Return the alerts that stand, by name; for some tenants only those that name one of them."""
    found = [
        describe_alert(row)
        for row in await list_alerts(connection)
        if row.ended_at is None and is_known(row)
    ]
    return [each for each in found if tenants is None or each["labels"].get("tenant") in tenants]
