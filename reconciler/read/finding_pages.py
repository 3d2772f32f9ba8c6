"""Findings and repairs that the ledger has, by page, oldest first."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

from dueledger.ledger.store import Connection, Record, findings
from dueledger.ledger.store.findings import PageAfter
from dueledger.ledger.store.repairs import list_repairs
from dueledger.reconciler.report_period import ReportPeriod

PAGE_ROWS: Final = 1_000


def open_findings(connection: Connection) -> AsyncIterator[Sequence[Record]]:
    """Yield the findings that are open."""
    return _pages(
        lambda after: findings.list_open_findings(connection, after=after, page_size=PAGE_ROWS),
        "first_seen_at",
    )


def findings_of_period(
    connection: Connection, period: ReportPeriod, reconciliation_no: int | None = None
) -> AsyncIterator[Sequence[Record]]:
    """Yield the findings of a period, and those that a pass from this number on found."""
    return _pages(
        lambda after: findings.list_findings_of_period(
            connection,
            period.from_at,
            period.to_at,
            after=after,
            page_size=PAGE_ROWS,
            reconciliation_no=reconciliation_no,
        ),
        "first_seen_at",
    )


def repairs_of_period(
    connection: Connection, period: ReportPeriod
) -> AsyncIterator[Sequence[Record]]:
    """Yield the repairs of a period."""
    return _pages(
        lambda after: list_repairs(
            connection,
            from_at=period.from_at,
            to_at=period.to_at,
            after=after,
            page_size=PAGE_ROWS,
        ),
        "proposed_at",
    )


async def _pages(
    read: Callable[[PageAfter | None], Awaitable[list[Record]]], order: str
) -> AsyncIterator[Sequence[Record]]:
    after: PageAfter | None = None
    while True:
        page = await read(after)
        yield page
        if len(page) < PAGE_ROWS:
            break
        after = PageAfter(page[-1][order], page[-1]["id"])
