"""Reports of reconciliations, as they were made: of the whole ledger, and of each tenant."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from dueledger.ledger.finding_types import WHOLE_LEDGER
from dueledger.ledger.store.connection import Connection, Record
from dueledger.ledger.store.statements import statement


class ReportList(StrEnum):
    """The lists of a report."""

    FINDINGS = "findings"
    REPAIRS = "repairs"


@dataclass(frozen=True, slots=True)
class ReportRecord:
    """A report to record, of a tenant or of the WHOLE_LEDGER.

    `document` is JSON text, which is kept to the letter.
    """

    tenant: str
    verdict: str
    sentence: str
    findings_open: int
    document: str


async def record_reports(
    connection: Connection, reconciliation_no: int, as_of: datetime, reports: Sequence[ReportRecord]
) -> None:
    """Record the reports of a reconciliation, once."""
    await connection.execute(
        statement("record_reports"),
        reconciliation_no,
        as_of,
        [each.tenant for each in reports],
        [each.verdict for each in reports],
        [each.sentence for each in reports],
        [each.findings_open for each in reports],
        [each.document for each in reports],
    )


async def record_report_rows(
    connection: Connection,
    reconciliation_no: int,
    list_: ReportList,
    first_row_no: int,
    rows: Sequence[tuple[str, str]],
) -> None:
    """Record rows of a list, numbered from `first_row_no`: the tenant and the JSON text of each."""
    tenants, contents = [tenant for tenant, _ in rows], [content for _, content in rows]
    await connection.execute(
        statement("record_report_rows"), reconciliation_no, list_, first_row_no, tenants, contents
    )


async def list_reports(
    connection: Connection,
    tenants: Sequence[str],
    *,
    last: tuple[int, str] | tuple[None, None] = (None, None),
    limit: int,
    oldest_first: bool = False,
) -> list[dict[str, Any]]:
    """List the reports of tenants, newest or oldest first. `last`: that of the page before."""
    text = statement("list_oldest_reports") if oldest_first else statement("list_reports")
    rows = await connection.fetch(text, tenants, *last, limit)
    return [dict(row) for row in rows]


async def read_report(connection: Connection, reconciliation_no: int, tenant: str) -> str | None:
    """Read the document of a report; None if there is none."""
    return await connection.fetchval(statement("read_report"), reconciliation_no, [tenant])


async def list_report_rows(
    connection: Connection,
    reconciliation_no: int,
    list_: ReportList,
    tenant: str,
    *,
    after: tuple[str, int] | tuple[None, None] = (None, None),
    limit: int,
) -> list[Record]:
    """List rows of a report by tenant and number. `after` is tenant and number of the last one."""
    tenants = None if tenant == WHOLE_LEDGER else [tenant]
    return await connection.fetch(
        statement("list_report_rows"), reconciliation_no, list_, tenants, *after, limit
    )


async def prune_reconciliations(connection: Connection, keep_days: int, limit: int) -> int:
    """Delete the oldest passes that are that old, with what they read; return how many rows.

    Those of which there is a report stay, and those that the next pass starts from.
    """
    return await connection.fetchval(statement("prune_reconciliations"), keep_days, limit)


async def prune_reports(connection: Connection, keep_days: int, limit: int) -> int:
    """Delete the oldest reports that are that old, with their rows; return how many rows."""
    return await connection.fetchval(statement("prune_reports"), keep_days, limit)
