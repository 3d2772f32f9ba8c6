"""Reports in the ledger, from where the service shows them."""

from collections.abc import Mapping, Sequence
from typing import Final, final

from dueledger.ledger.finding_types import WHOLE_LEDGER
from dueledger.ledger.store import Connection
from dueledger.ledger.store.reports import (
    ReportList,
    ReportRecord,
    record_report_rows,
    record_reports,
)
from dueledger.reconciler.report.model import FindingDetail, ReconciliationReport, RepairDetail
from dueledger.reconciler.report.report_rows import ReportRecorder

_REPORTS_A_STATEMENT: Final = 100


@final
class LedgerReportRecorder(ReportRecorder):
    """Records the report of a pass."""

    def __init__(self, connection: Connection, reconciliation_no: int) -> None:
        self._connection = connection
        self._reconciliation_no = reconciliation_no
        self._next_row_no = dict.fromkeys(ReportList, 1)

    async def add(self, list_: ReportList, rows: Sequence[FindingDetail | RepairDetail]) -> None:
        """Record rows of a list, after those that were recorded before."""
        await record_report_rows(
            self._connection,
            self._reconciliation_no,
            list_,
            self._next_row_no[list_],
            [(row.tenant, row.model_dump_json()) for row in rows],
        )
        self._next_row_no[list_] += len(rows)

    async def finish(self, reports: Mapping[str, ReconciliationReport]) -> None:
        """Record the reports by tenant. Until then the rows count for nothing."""
        records = [
            ReportRecord(
                tenant,
                report.statement.verdict,
                report.statement.sentence,
                report.findings_open,
                report.as_json().decode(),
            )
            for tenant, report in reports.items()
        ]
        as_of = reports[WHOLE_LEDGER].as_of
        async with self._connection.transaction():
            for begin in range(0, len(records), _REPORTS_A_STATEMENT):
                some = records[begin : begin + _REPORTS_A_STATEMENT]
                await record_reports(self._connection, self._reconciliation_no, as_of, some)
