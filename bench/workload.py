"""The items that benchmarks emit: ten tenants, a month of effective dates, a small payload."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Final

from dueledger.ledger.rules.drafts import ItemDraft

KINDS_VARIABLE: Final = "DUELEDGER_BENCH_KINDS"
BATCH: Final = 4000
WARM_ITEMS: Final = 500_000
"""A broker that has just started compiles its code for so long, which a rate should not contain."""
TENANTS: Final = 10
DUE_AT: Final = datetime(2026, 1, 1, tzinfo=UTC)
FIRST_DATE: Final = date(2027, 3, 1)
DATES: Final = 28
PAYLOAD: Final = (
    '{"policy":"P-123456","region":"EU-West","product":"motor","premium":"123.45","currency":"EUR"}'
)


def make_batches(kind: str, items: int, *, prefix: str) -> Iterator[list[ItemDraft]]:
    """Make `items` drafts that are all due, in batches."""
    for start in range(0, items, BATCH):
        yield [
            ItemDraft(
                tenant=f"tenant-{number % TENANTS}",
                kind=kind,
                business_key=f"{prefix}{number:09}",
                cycle="2027",
                effective_date=FIRST_DATE + timedelta(days=number % DATES),
                due_at=DUE_AT,
                payload=PAYLOAD,
            )
            for number in range(start, min(items, start + BATCH))
        ]


def tenant_flows(kind: str, count: int = TENANTS) -> list[tuple[str, str, str]]:
    """Return flows that differ only in their tenant."""
    return [(f"tenant-{number}", kind, "") for number in range(count)]
