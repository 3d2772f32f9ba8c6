"""Alerts that were found, and the channels that have them."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import orjson

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement


class AlertRow(NamedTuple):
    """An alert by its name and labels; `sent_to` are the channels that have it, not its end."""

    name: str
    labels: tuple[str, ...]
    value: float
    since: datetime
    ended_at: datetime | None
    sent_to: frozenset[str]


async def list_alerts(connection: Connection) -> list[AlertRow]:
    """Return the alerts that were found, and of those that ended the ones still to be sent."""
    rows = await connection.fetch(statement("list_alerts"))
    return [
        AlertRow(name, tuple(labels), value, since, ended_at, frozenset(sent_to))
        for name, labels, value, since, ended_at, sent_to in rows
    ]


async def record_alerts(connection: Connection, alerts: Sequence[AlertRow]) -> None:
    """Record alerts as they are now; those that ended everywhere are deleted."""
    await connection.fetch(
        statement("record_alerts"),
        [each.name for each in alerts],
        [orjson.dumps(each.labels).decode() for each in alerts],
        [each.value for each in alerts],
        [each.since for each in alerts],
        [each.ended_at for each in alerts],
        [orjson.dumps(sorted(each.sent_to)).decode() for each in alerts],
    )
