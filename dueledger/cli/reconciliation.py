"""Commands of the reconciler: reconcile, findings, repair."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dueledger.cli import options
from dueledger.cli.exit_codes import ExitCode
from dueledger.cli.options import (
    DsnOption,
    JsonOption,
    KafkaOption,
    LimitOption,
    OnceOption,
    TenantOption,
)
from dueledger.cli.output import print_document, print_lines, print_rows, say
from dueledger.cli.session import ledger_connection, run

if TYPE_CHECKING:
    from dueledger.reconciler import ReconcilerSettings, ReconciliationResult

app = typer.Typer(rich_markup_mode=None)

SourcesOption = Annotated[
    Path | None,
    typer.Option("--sources", help="YAML of populations and evidence outside the ledger."),
]
ReportOption = Annotated[
    Path | None, typer.Option("--report", help="Folder for the report, as HTML and JSON.")
]


class RepairOption(StrEnum):
    """Treatment of findings that have a default repair."""

    NONE = "none"
    DRY_RUN = "dry_run"
    EXECUTE = "execute"


@app.command()
def reconcile(
    once: OnceOption = False,
    sources: SourcesOption = None,
    repairs: Annotated[
        RepairOption | None,
        typer.Option("--repairs", help="Treatment of findings that have a default repair."),
    ] = None,
    report: ReportOption = None,
    json_: JsonOption = False,
    dsn: DsnOption = None,
    bootstrap_servers: KafkaOption = None,
) -> None:
    """Compare what was expected with what happened. With --once, exit code 4 means findings."""
    from dueledger.cli.service_session import read_settings
    from dueledger.reconciler import ReconcilerSettings

    settings = read_settings(
        ReconcilerSettings, dsn=dsn, bootstrap_servers=bootstrap_servers, reconcile_repair=repairs
    )
    if not once:
        run(_loop(settings, sources))
        return
    _print_result(run(_once(settings, sources, report)), as_json=json_)


async def _loop(settings: "ReconcilerSettings", sources: Path | None) -> None:
    from dueledger.cli.service_session import process_stop
    from dueledger.reconciler import load_sources, run_reconciler

    async with process_stop() as stop:
        await run_reconciler(settings, load_sources(sources), stop)


async def _once(
    settings: "ReconcilerSettings", sources: Path | None, report: Path | None
) -> "ReconciliationResult":
    from dueledger.reconciler import load_sources, reconcile_once

    return await reconcile_once(
        settings,
        load_sources(sources),
        mode=settings.reconcile_repair,
        report_directory=report,
    )


def _print_result(result: "ReconciliationResult", *, as_json: bool) -> None:
    report = result.report
    if as_json:
        print_document(
            {
                "statement": report.statement.sentence,
                "complete_before": report.statement.complete_before,
                **report.totals.model_dump(exclude={"tenant", "kind"}),
                "findings_found": result.findings_found,
                "findings_open": result.findings_open,
                "planned": len(result.planned),
                "repairs": result.repairs_executed,
                "stale_writes": report.stale_writes,
                "report": [str(path) for path in (result.html_path, result.json_path) if path],
            }
        )
    else:
        rows = [row.model_dump() for row in report.summary]
        print_rows(rows, ("type", "severity", "found", "open", "repaired", "explained"), empty="")
        for repair in result.planned:
            say(f"would {repair.action}: {repair.would}")
        if result.repairs_executed:
            say(f"{result.repairs_executed} repairs were executed")
        say(report.statement.sentence)
        if result.html_path:
            say(f"report: {result.html_path}")
    options.exit_with(ExitCode.FINDINGS if result.findings_open else ExitCode.DONE)


@app.command()
def findings(
    all_: Annotated[bool, typer.Option("--all", help="Include closed findings.")] = False,
    tenant: TenantOption = None,
    kind: Annotated[str | None, typer.Option("--type", help="Only this type, as MISSING.")] = None,
    limit: LimitOption = 100,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """List what the last reconciliations found, oldest first."""
    rows = run(_findings(dsn, (tenant, kind), limit, open_only=not all_))
    if json_:
        print_lines(rows)
        return
    print_rows(
        rows,
        ("type", "severity", "kind", "business_key", "due_at", "resolution", "sentence"),
        empty="There is no finding.",
    )


async def _findings(
    dsn: str | None, wanted: tuple[str | None, str | None], limit: int, *, open_only: bool
) -> Sequence[dict[str, object]]:
    from dueledger.ledger.errors import InvalidInput, Problem
    from dueledger.ledger.finding_types import FindingType
    from dueledger.ledger.store.findings import list_findings

    if wanted[1] is not None and wanted[1] not in FindingType.__members__:
        types = " | ".join(FindingType)
        problem = Problem("--type", wanted[1], "there is no such type of finding", types)
        raise InvalidInput("The filter cannot be used:", [problem])
    async with ledger_connection(dsn) as connection:
        rows = await list_findings(
            connection, open_only=open_only, tenant=wanted[0], type_=wanted[1], page_size=limit
        )
    return [dict(row) for row in rows]


@app.command()
def repair(
    execute: Annotated[
        bool, typer.Option("--execute", help="Execute the repairs; default is a dry run.")
    ] = False,
    sources: SourcesOption = None,
    report: ReportOption = None,
    json_: JsonOption = False,
    dsn: DsnOption = None,
    bootstrap_servers: KafkaOption = None,
) -> None:
    """Reconcile and show the repairs, or execute them with --execute and reconcile again."""
    from dueledger.cli.service_session import read_settings
    from dueledger.reconciler import ReconcilerSettings

    settings = read_settings(
        ReconcilerSettings,
        dsn=dsn,
        bootstrap_servers=bootstrap_servers,
        reconcile_repair=RepairOption.EXECUTE if execute else RepairOption.DRY_RUN,
    )
    _print_result(run(_once(settings, sources, report)), as_json=json_)
