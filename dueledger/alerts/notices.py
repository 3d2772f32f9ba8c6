"""What is sent of an alert: that it stands, once to each channel, and that it ended. Pure."""

import hashlib
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from dueledger.alerts.rules import RULES, AlertKey, AlertRule, Alerts, without_inhibited
from dueledger.ledger.store.alerts import AlertRow

ENDED_SECONDS: Final = 30.0
"""An alert ended if it was not found for so long."""
_RULES: Final = {rule.name: rule for rule in RULES}

AlertRows = dict[AlertKey, AlertRow]


class Notice(NamedTuple):
    """One message to one channel; its id is the same each time it is sent."""

    row: AlertRow
    channel: str

    @property
    def rule(self) -> AlertRule:
        """The rule of its alert."""
        return _RULES[self.row.name]

    @property
    def id(self) -> str:
        """Hash of the alert, its begin, and whether it ended."""
        row = self.row
        parts = (row.name, *row.labels, row.since.isoformat(), str(row.ended_at is not None))
        return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()

    @property
    def title(self) -> str:
        """One line that says what it is about."""
        state = "Ended" if self.row.ended_at else self.rule.severity.upper()
        labels = dict(zip(self.rule.labels, self.row.labels, strict=True))
        return f"{state}: {self.rule.summary.format(**labels)}"

    def document(self) -> dict[str, Any]:
        """Return the message as it is posted and published."""
        rule, row = self.rule, self.row
        return {
            "id": self.id,
            "alert": row.name,
            "status": "resolved" if row.ended_at else "firing",
            "severity": str(rule.severity),
            "labels": dict(zip(rule.labels, row.labels, strict=True)),
            "summary": self.title.partition(": ")[2],
            "value": row.value,
            "since": row.since.isoformat(),
            "ended_at": row.ended_at.isoformat() if row.ended_at else None,
            "runbook": f"docs/{rule.anchor}",
        }


def update_rows(rows: Mapping[AlertKey, AlertRow], alerts: Alerts, now: datetime) -> AlertRows:
    """Return the rows as they are now, those that ended included."""
    updated = {
        key: row if row.ended_at else row._replace(ended_at=now)
        for key, row in rows.items()
        if key not in alerts
    }
    for key, value in alerts.items():
        before = rows.get(key)
        since = before.since if before is not None else now
        sent_to = before.sent_to if before is not None else frozenset[str]()
        updated[key] = AlertRow(key.name, key.labels, value, since, None, sent_to)
    return updated


def due_notices(rows: AlertRows, channels: Collection[str], now: datetime) -> list[Notice]:
    """Return what is to be sent now: alerts that nothing inhibits, and ends of those sent."""
    open_ = {key: row.value for key, row in rows.items() if row.ended_at is None}
    sendable = without_inhibited(open_)
    notices: list[Notice] = []
    for key, row in rows.items():
        if row.ended_at is not None:
            if (now - row.ended_at).total_seconds() >= ENDED_SECONDS:
                notices += [Notice(row, channel) for channel in sorted(row.sent_to)]
        elif key in sendable and (now - row.since).total_seconds() >= _RULES[row.name].for_seconds:
            notices += [Notice(row, channel) for channel in channels if channel not in row.sent_to]
    return notices


def after_sending(row: AlertRow, channel: str) -> AlertRow:
    """Return the row after a channel has taken a notice of it."""
    sent_to = row.sent_to - {channel} if row.ended_at else row.sent_to | {channel}
    return row._replace(sent_to=sent_to)
