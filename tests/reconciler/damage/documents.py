"""The definitions of the clean ledger."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

START: Final = datetime(2027, 3, 25, tzinfo=UTC)
"""When everything comes into force: before the gap in London and the fold in Sydney."""
NOW: Final = datetime(2027, 4, 6, 12, tzinfo=UTC)
"""Business time after the clean run."""
HORIZON: Final = timedelta(days=14)
"""How far schedules are materialised from the start."""

ACME: Final = "acme"
UMBRELLA: Final = "umbrella"

SLA: Final = {"complete_within": "P30D"}


def cron_of(cron: str, timezone: str, **fields: str) -> dict[str, str]:
    return {"cron": cron, "timezone": timezone, **fields}


def schedule_of(name: str, kind: str, when: dict[str, str], **terms: object) -> dict[str, Any]:
    return {
        "definition": name,
        "tenant": ACME,
        "kind": kind,
        "business_key": name,
        "when": when,
        "sla": SLA,
    } | terms


def renewal_of(tenant: str) -> dict[str, Any]:
    return {
        "definition": "renewal",
        "tenant": tenant,
        "kind": "Renewal",
        "event": "PolicyActivated",
        "business_key": "data.policy",
        "cycle": "data.term",
        "effective_date": "data.expires_on",
        "payload": {"premium": "data.premium"},
        "labels": {"region": "data.region"},
        "dispatch": {"kafka": {"topic": "due.Renewal", "partition_key": "data.customer"}},
        "sla": SLA,
        "when": {"relative": "P0D", "to": "effective_date", "at": "09:00", "timezone": "UTC"},
        "cancel_on": [{"event": "PolicyCancelled", "business_key": "data.policy"}],
    }


FIRST: Final = (
    schedule_of(
        "statements", "Statement", cron_of("*/5 * * * *", "UTC"), payload={"text": "monthly"}
    ),
    schedule_of(
        "reminders",
        "Reminder",
        cron_of("30 * * * *", "Europe/London"),
        labels={"channel": "mail"},
    ),
    schedule_of(
        "rebates", "Rebate", cron_of("15 * * * *", "Australia/Sydney", fold="both", gap="skip")
    ),
    schedule_of("sweep", "Sweep", cron_of("*/20 * * * *", "UTC"), overlap="skip"),
    renewal_of(ACME),
    renewal_of(UMBRELLA),
)
"""Materialised from the start on, before anything is due."""

LATER: Final = (
    schedule_of(
        "valuations",
        "Valuation",
        cron_of("0 * * * *", "America/New_York"),
        catch_up={"policy": "all", "window": "P2D"},
    ),
)
"""Materialised when most of it is over: what is older than the window is recorded as skipped."""


def letter_declaration(kind: str) -> dict[str, Any]:
    """Return the declaration of a kind without a schedule; a service emits its items."""
    return {
        "definition": "letters",
        "tenant": ACME,
        "kind": kind,
        "dispatch": {"kafka": {"topic": f"due.{kind}"}},
        "retry": {"attempt_max": 3, "base": "PT1S", "cap": "PT1S"},
    }


PAYMENTS: Final[dict[str, Any]] = {
    "definition": "payments",
    "tenant": ACME,
    "kind": "Payment",
    "dispatch": {"direct": {}},
    "order": {"by": "partition_key"},
}
"""A serial kind without a schedule: one payment of a customer after another."""
