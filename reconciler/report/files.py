"""The files of a report, which its owner alone may read: page, JSON, and lists of all rows."""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from dueledger.ledger.store import Connection
from dueledger.reconciler.pass_record import PassRecord
from dueledger.reconciler.pass_result import PassResult
from dueledger.reconciler.repair.planned_repairs import PlannedRepair
from dueledger.reconciler.report.build_report import build_report
from dueledger.reconciler.report.csv_list import CsvList, ReportLists
from dueledger.reconciler.report.html_page import render_page
from dueledger.reconciler.report.model import FindingDetail, ReconciliationReport, RepairDetail
from dueledger.reconciler.report.report_rows import ReportRecorder
from dueledger.reconciler.report_period import ReportPeriod

_OWNER_ONLY: Final = 0o600


class ReportFiles(NamedTuple):
    """The paths of a report's files. Those of an earlier report of the same pass are replaced."""

    html: Path
    json: Path
    findings: Path
    repairs: Path

    @classmethod
    def of(cls, directory: Path, of: PassResult | ReconciliationReport) -> "ReportFiles":
        """Return the paths of the report of a pass; one without a number is named by its time."""
        number = of.reconciliation_no
        name = f"read-only-{of.started_at:%Y%m%dT%H%M%SZ}" if number is None else str(number)
        stem = directory / f"reconciliation-{name}"
        return cls(
            stem.with_suffix(".html"),
            stem.with_suffix(".json"),
            stem.with_name(f"{stem.name}-findings.csv"),
            stem.with_name(f"{stem.name}-repairs.csv"),
        )


async def make_report(
    connection: Connection,
    record: PassRecord,
    result: PassResult,
    period: ReportPeriod,
    planned: Sequence[PlannedRepair],
    *,
    directory: Path | None,
    recorder: ReportRecorder | None = None,
) -> ReconciliationReport:
    """Return the report of a pass, written to a directory if one is given."""
    build = partial(
        build_report, connection, record, result, period, planned=planned, recorder=recorder
    )
    if directory is None:
        return await build()
    files = ReportFiles.of(directory, result)
    with _open_lists(files) as lists:
        report = await build(lists=lists)
    with _open_private(files.json) as file:
        file.write(report.as_json().decode())
    with _open_private(files.html) as file:
        file.write(render_page(report))
    return report


@contextmanager
def _open_lists(files: ReportFiles) -> Generator[ReportLists]:
    """Open the lists of a report; its directory is made."""
    files.html.parent.mkdir(parents=True, exist_ok=True)
    with _open_private(files.findings) as findings, _open_private(files.repairs) as repairs:
        yield ReportLists(
            CsvList(findings, FindingDetail),
            CsvList(repairs, RepairDetail),
            files.findings.name,
            files.repairs.name,
        )


def _open_private(path: Path) -> TextIO:
    """Open a file that its owner alone may read: it has business keys, and what went wrong."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, _OWNER_ONLY)
    os.fchmod(descriptor, _OWNER_ONLY)  # a file that was there before has a mode of its own
    return os.fdopen(descriptor, "w", encoding="utf-8", newline="")
