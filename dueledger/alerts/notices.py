"""What is sent of an alert: that it stands, once to each channel, and that it ended. Pure."""

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from dueledger.alerts.rules import (
    ENDED_SECONDS,
    RULES,
    AlertKey,
    AlertRule,
    Alerts,
    without_inhibited,
)
from dueledger.ledger.metrics import Metric
from dueledger.ledger.store.alerts import AlertRow

SENDS_MAX: Final = 50
"""Notices of one pass to one channel; the others are sent in the next ones."""
TEST: Final = "Test"
_RULES: Final = {rule.name: rule for rule in RULES}
_TEST_RULE: Final = AlertRule(
    TEST, Metric.PROCESS_INFO, "nothing", "this is a test, sent by `dueledger alert --test`"
)

AlertRows = dict[AlertKey, AlertRow]


class Notice(NamedTuple):
    """One message to one channel; its id is the same each time it is sent."""

    row: AlertRow
    channel: str

    @property
    def rule(self) -> AlertRule:
        """The rule of its alert."""
        return _TEST_RULE if self.row.name == TEST else _RULES[self.row.name]

    @property
    def status(self) -> str:
        """Whether the alert stands or has ended, by Alertmanager's words; or `test`."""
        if self.row.name == TEST:
            return "test"
        return "resolved" if self.row.ended_at else "firing"

    @property
    def id(self) -> str:
        """Hash of the alert, its begin, and whether it ended."""
        row = self.row
        parts = (row.name, *row.labels, row.since.isoformat(), str(row.ended_at is not None))
        return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()

    @property
    def title(self) -> str:
        """One line that says what it is about."""
        states = {"resolved": "Ended", "test": "TEST"}
        state = states.get(self.status, self.rule.severity.upper())
        labels = dict(zip(self.rule.labels, self.row.labels, strict=True))
        return f"{state}: {self.rule.summary.format(**labels)}"

    def document(self) -> dict[str, Any]:
        """Return the message as it is posted and published."""
        rule, row = self.rule, self.row
        return {
            "id": self.id,
            "alert": row.name,
            "status": self.status,
            "severity": str(rule.severity),
            "labels": dict(zip(rule.labels, row.labels, strict=True)),
            "summary": self.title.partition(": ")[2],
            "value": row.value,
            "since": row.since.isoformat(),
            "ended_at": row.ended_at.isoformat() if row.ended_at else None,
            "runbook": "docs/alerts.md" if row.name == TEST else f"docs/{rule.anchor}",
        }


def describe_alert(row: AlertRow) -> dict[str, Any]:
    """Return an alert as people are shown it; `since` is a time."""
    return {**Notice(row, "").document(), "since": row.since, "ended_at": row.ended_at}


def is_known(row: AlertRow) -> bool:
    """Return whether there is still a rule for an alert, with these labels."""
    rule = _RULES.get(row.name)
    return rule is not None and len(rule.labels) == len(row.labels)


def update_rows(rows: Mapping[AlertKey, AlertRow], alerts: Alerts, now: datetime) -> AlertRows:
    """Return the rows as they are now, those that ended included.

    An alert that is found again goes on if nobody has its end yet; otherwise it begins anew, and a
    channel that did not take the end gets it no more.
    """
    updated = {
        key: row if row.ended_at else row._replace(ended_at=now)
        for key, row in rows.items()
        if key not in alerts
    }
    for key, value in alerts.items():
        before = rows.get(key)
        if before is None or before.end_sent_to:
            updated[key] = AlertRow(key.name, key.labels, value, now)
        else:
            updated[key] = before._replace(value=value, ended_at=None)
    return updated


def due_notices(
    rows: AlertRows,
    channels: Collection[str],
    now: datetime,
    *,
    beside: AlertRows | None = None,
    per_channel_max: int = SENDS_MAX,
) -> list[Notice]:
    """Return what is to be sent now: alerts that nothing inhibits, and ends of those sent.

    The oldest first, and of each channel `per_channel_max` at most. Alerts of `beside` inhibit as
    those of `rows` do. One that was sent inhibits others until it has ended: what follows from it
    may end a moment later.
    """
    sendable = without_inhibited(
        {
            key: row.value
            for key, row in {**(beside or {}), **rows}.items()
            if is_known(row)
            and (row.ended_at is None or (row.sent_to and not _has_ended(row, now)))
        }
    )
    notices: list[Notice] = []
    counts: Counter[str] = Counter()
    for key, row in sorted(rows.items(), key=lambda each: (each[1].since, each[0])):
        waiting: Collection[str] = ()
        if row.ended_at is not None:
            if _has_ended(row, now):
                waiting = sorted(row.sent_to - row.end_sent_to)
        elif key in sendable and (now - row.since).total_seconds() >= _RULES[row.name].for_seconds:
            waiting = [channel for channel in channels if channel not in row.sent_to]
        for channel in waiting:
            if counts[channel] < per_channel_max:
                counts[channel] += 1
                notices.append(Notice(row, channel))
    return notices


def _has_ended(row: AlertRow, now: datetime) -> bool:
    return row.ended_at is not None and (now - row.ended_at).total_seconds() >= ENDED_SECONDS


def after_sending(row: AlertRow, channel: str) -> AlertRow:
    """Return the row after a channel has taken a notice of it."""
    if row.ended_at is not None:
        return row._replace(end_sent_to=row.end_sent_to | {channel})
    return row._replace(sent_to=row.sent_to | {channel})
