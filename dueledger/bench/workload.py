"""The items that benchmarks emit: ten tenants, a year of effective dates, a payload of 86 bytes."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Final

from ledger.drafts import ItemDraft

KIND: Final = "BenchRenewalDue"
BATCH: Final = 4000
TENANTS: Final = 10
DUE_AT: Final = datetime(2026, 1, 1, tzinfo=UTC)
FIRST_DATE: Final = date(2027, 3, 1)
DATES: Final = 28
PAYLOAD: Final = (
    '{"policy":"P-123456","region":"EU-West","product":"motor","premium":"123.45","currency":"EUR"}'
)


def make_batches(items: int, *, prefix: str) -> Iterator[list[ItemDraft]]:
    """Make `items` drafts that are all due, in batches."""
    for start in range(0, items, BATCH):
        yield [
            ItemDraft(
                tenant=f"tenant-{number % TENANTS}",
                kind=KIND,
                business_key=f"{prefix}-{number:09}",
                cycle="2027",
                effective_date=FIRST_DATE + timedelta(days=number % DATES),
                due_at=DUE_AT,
                payload=PAYLOAD,
            )
            for number in range(start, min(items, start + BATCH))
        ]
