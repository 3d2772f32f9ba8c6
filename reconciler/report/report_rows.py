"""The findings and repairs of a report as they are read: of the whole ledger, and by tenant."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from dueledger.ledger.finding_types import WHOLE_LEDGER
from dueledger.ledger.store.reports import ReportList
from dueledger.reconciler.report.csv_list import ReportLists
from dueledger.reconciler.report.model import FindingDetail, ReconciliationReport, RepairDetail
from dueledger.reconciler.report.row_samples import FindingSamples, RepairSamples

Row = TypeVar("Row", FindingDetail, RepairDetail)


class RowSamples:
    """Findings and repairs, counted, with samples of them."""

    def __init__(self, as_of: datetime, lists: ReportLists | None = None) -> None:
        self.findings = FindingSamples(as_of, lists and lists.findings)
        self.repairs = RepairSamples(lists and lists.repairs)


class ReportRecorder(Protocol):
    """Records a report of a reconciliation: its rows, then what is made of them."""

    async def add(self, list_: ReportList, rows: Sequence[FindingDetail | RepairDetail]) -> None:
        """Record rows of a list, after those that were recorded before."""
        ...

    async def finish(self, reports: Mapping[str, ReconciliationReport]) -> None:
        """Record the reports by tenant. Until then the rows count for nothing."""
        ...


class ReportRows:
    """Takes findings and repairs by page, oldest first; with a recorder, also by tenant."""

    def __init__(
        self, as_of: datetime, lists: ReportLists | None, recorder: ReportRecorder | None
    ) -> None:
        self.whole = RowSamples(as_of, lists)
        self._by_tenant = defaultdict[str, RowSamples](lambda: RowSamples(as_of))
        self._recorder = recorder

    @property
    def tenants(self) -> set[str]:
        """Return the tenants that rows were of."""
        return self._by_tenant.keys() - {WHOLE_LEDGER}

    @property
    def open_of_ledger(self) -> FindingSamples:
        """Return the findings that are of no tenant."""
        return self._by_tenant[WHOLE_LEDGER].findings

    def of_tenant(self, tenant: str) -> RowSamples:
        """Return what there is of a tenant."""
        return self._by_tenant[tenant]

    async def add_findings(self, found: Sequence[FindingDetail]) -> None:
        """Add findings, none older than those that were added before."""
        self.whole.findings.add(found)
        if self._recorder:
            for tenant, rows in _by_tenant(found).items():
                self._by_tenant[tenant].findings.add(rows)
            await self._recorder.add(ReportList.FINDINGS, found)

    async def add_repairs(self, repairs: Sequence[RepairDetail]) -> None:
        """Add repairs, none older than those that were added before; planned ones are the last."""
        self.whole.repairs.add(repairs)
        if self._recorder:
            for tenant, rows in _by_tenant(repairs).items():
                self._by_tenant[tenant].repairs.add(rows)
            await self._recorder.add(ReportList.REPAIRS, repairs)


def _by_tenant(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row.tenant].append(row)
    return found
