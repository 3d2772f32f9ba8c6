"""The command of the reconciler: a loop of passes, or one."""

import os
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
    OnceOption,
)
from dueledger.cli.output import print_document, print_rows, say
from dueledger.cli.session import run
from dueledger.ledger.finding_types import RepairStatus

if TYPE_CHECKING:
    from dueledger.reconciler import (
        PlannedRepair,
        ReconcilerSettings,
        ReconciliationResult,
        ReportDates,
    )

app = typer.Typer(rich_markup_mode=None)

NICENESS = 10
"""Of the loop: on a full machine what works items goes before what checks them."""

SourcesOption = Annotated[
    Path | None,
    typer.Option("--sources", help="YAML of populations and evidence outside the ledger."),
]
ReportOption = Annotated[
    Path | None, typer.Option("--report", help="Folder for the report, as HTML, JSON and CSV.")
]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        help="First day of the report's period, in UTC; default is 35 days before its end.",
        metavar="DATE",
    ),
]
ToOption = Annotated[
    str | None,
    typer.Option(
        "--to", help="End of the report's period, not included; default is now.", metavar="DATE"
    ),
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
    read_only: Annotated[
        bool,
        typer.Option("--read-only", help="Record nothing; the login needs the role auditor alone."),
    ] = False,
    report: ReportOption = None,
    from_: FromOption = None,
    to: ToOption = None,
    effective_from: Annotated[
        str | None,
        typer.Option(help="Compare only items with effective dates from this on.", metavar="DATE"),
    ] = None,
    effective_to: Annotated[
        str | None,
        typer.Option(help="Compare only items with effective dates before this.", metavar="DATE"),
    ] = None,
    json_: JsonOption = False,
    dsn: DsnOption = None,
    bootstrap_servers: KafkaOption = None,
) -> None:
    """Compare what was expected with what happened. With --once, exit code 4 means findings.

    A pass compares all items, and moves no watermark where effective dates are given.
    """
    from dueledger.ledger.runtime.setting_problems import read_settings
    from dueledger.reconciler import ReconcilerSettings

    settings = read_settings(
        ReconcilerSettings, dsn=dsn, bootstrap_servers=bootstrap_servers, reconcile_repair=repairs
    )
    dates = read_dates(from_, to)
    if read_only and settings.reconcile_repair == "execute":
        raise typer.BadParameter("it executes no repairs", param_hint="--read-only")
    compared = read_dates(effective_from, effective_to, "--effective-")
    if not once:
        given_once = {
            "--report": report,
            "--from": from_,
            "--to": to,
            "--effective-from": effective_from,
            "--effective-to": effective_to,
            "--read-only": read_only,
        }
        for option, given in given_once.items():
            if given:
                raise typer.BadParameter("it needs --once", param_hint=option)
        run(_loop(settings, sources))
        return
    from dueledger.reconciler import PassScope, load_sources, reconcile_once, reconcile_read_only

    scope = PassScope.between(*compared)
    if read_only:
        ended = reconcile_read_only(
            settings,
            load_sources(sources),
            dry_run=settings.reconcile_repair == "dry_run",
            dates=dates,
            report_directory=report,
            scope=scope,
        )
    else:
        ended = reconcile_once(
            settings,
            load_sources(sources),
            mode=settings.reconcile_repair,
            dates=dates,
            report_directory=report,
            scope=scope,
        )
    print_result(run(ended), as_json=json_)


def read_dates(from_: str | None, to: str | None, prefix: str = "--") -> "ReportDates":
    """Read the first date of a range and the date after its last, each where it is given."""
    begin, until = f"{prefix}from", f"{prefix}to"
    first = None if from_ is None else options.read_date(from_, begin)
    end = None if to is None else options.read_date(to, until)
    if first and end and end <= first:
        raise typer.BadParameter(f"{to} is not after {begin}, {from_}", param_hint=until)
    return first, end


async def _loop(settings: "ReconcilerSettings", sources: Path | None) -> None:
    from dueledger.cli.service_session import process_stop
    from dueledger.reconciler import load_sources, run_reconciler

    os.nice(NICENESS)
    async with process_stop(settings) as stop:
        await run_reconciler(settings, load_sources(sources), stop)


def print_result(result: "ReconciliationResult", *, as_json: bool) -> None:
    """Print what a reconciliation found, what its repairs change, and end with its exit code."""
    report = result.report
    if as_json:
        print_document(
            {
                "statement": report.statement.sentence,
                "complete_before": report.statement.complete_before,
                **report.totals.model_dump(exclude={"tenant", "kind"}),
                "findings_found": result.findings_found,
                "findings_open": result.findings_open,
                "planned": [_planned(repair) for repair in result.planned],
                "refusal": result.refusal,
                "repairs": result.repairs_executed,
                "stale_writes": report.stale_writes,
                "report": [str(path) for path in result.files or ()],
            }
        )
    else:
        rows = [row.model_dump() for row in report.summary]
        print_rows(rows, ("type", "severity", "found", "open", "repaired", "explained"), empty="")
        for repair in result.planned:
            say(f"{repair.status or 'would'} {repair.action}: {repair.would}")
            say(f"  {repair.id}: {repair.before} -> {repair.after}")
            if repair.held_because and repair.status is not RepairStatus.EXECUTED:
                say(f"  not yet: {repair.held_because}")
        if result.refusal:
            say(result.refusal)
        if result.repairs_executed:
            count = result.repairs_executed
            say(f"{count:,} {'repair was' if count == 1 else 'repairs were'} executed")
        say(report.statement.sentence)
        if result.files:
            say(f"report: {result.files.html}")
    incomplete = report.statement.verdict == "not_complete"
    options.exit_with(ExitCode.FINDINGS if incomplete else ExitCode.DONE)


def _planned(repair: "PlannedRepair") -> dict[str, object]:
    return {
        "id": repair.id,
        "finding_id": repair.finding_id,
        "type": repair.finding_type,
        "tenant": repair.tenant,
        "kind": repair.kind,
        "subject": repair.subject,
        "action": repair.action,
        "before": repair.before,
        "after": repair.after,
        "would": repair.would,
        "status": repair.status,
        "held_because": repair.held_because,
    }
