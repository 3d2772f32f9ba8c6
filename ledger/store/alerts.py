"""Alerts that were found, and the channels that have them."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import orjson

from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.statements import statement


class AlertLead(NamedTuple):
    """Who sends alerts, for how long, and the term of its lead: another one has another."""

    task: str
    holder: str
    term: int
    seconds: float


class AlertRow(NamedTuple):
    """An alert by its name and labels.

    `sent_to` are the channels that have it, `end_sent_to` those that have its end.
    """

    name: str
    labels: tuple[str, ...]
    value: float
    since: datetime
    ended_at: datetime | None = None
    sent_to: frozenset[str] = frozenset()
    end_sent_to: frozenset[str] = frozenset()

    @property
    def is_over(self) -> bool:
        """Return whether it ended and each channel that had it has its end."""
        return self.ended_at is not None and self.sent_to <= self.end_sent_to


async def list_alerts(connection: Connection) -> list[AlertRow]:
    """Return the alerts that were found, and of those that ended the ones still to be sent."""
    rows = await connection.fetch(statement("list_alerts"))
    return [
        AlertRow(
            name, tuple(labels), value, since, ended_at, frozenset(sent_to), frozenset(end_sent_to)
        )
        for name, labels, value, since, ended_at, sent_to, end_sent_to in rows
    ]


async def record_alerts(
    connection: Connection, alerts: Sequence[AlertRow], lead: AlertLead
) -> bool:
    """Record alerts as they are now and renew the lead; those that are over are deleted.

    Returns False, and records nothing, if another process has led since.
    """
    return await connection.fetchval(
        statement("record_alerts"),
        *lead,
        [each.name for each in alerts],
        [orjson.dumps(each.labels).decode() for each in alerts],
        [each.value for each in alerts],
        [each.since for each in alerts],
        [each.ended_at for each in alerts],
        [orjson.dumps(sorted(each.sent_to)).decode() for each in alerts],
        [orjson.dumps(sorted(each.end_sent_to)).decode() for each in alerts],
        [each.is_over for each in alerts],
    )
