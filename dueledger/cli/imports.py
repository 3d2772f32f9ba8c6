"""Commands that convert files of other schedulers, and list what they could not convert."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dueledger.cli import options
from dueledger.cli.exit_codes import ExitCode
from dueledger.cli.options import JsonOption
from dueledger.cli.output import print_document, print_rows, print_text, say

if TYPE_CHECKING:
    from dueledger.importers.import_result import ImportResult

app = typer.Typer(rich_markup_mode=None)
imports = typer.Typer(
    help="Convert the files of other schedulers to definitions.", no_args_is_help=True
)
app.add_typer(imports, name="import")

OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out", help="Folder for one file per definition; default is stdout.", metavar="DIR"
    ),
]
OptionalKindOption = Annotated[
    str | None, typer.Option("--kind", help="Kind of the definitions.", metavar="KIND")
]

_COLUMNS = (
    "definition",
    "owner",
    "criticality",
    "frequency",
    "overlap",
    "duplicates",
    "decide",
    "notes",
)


@imports.command("crontab")
def import_crontab(
    file: Annotated[Path, typer.Argument(help="A crontab.", metavar="FILE")],
    timezone: Annotated[
        str | None,
        typer.Option("--timezone", help="Timezone of its machine, for lines without CRON_TZ."),
    ] = None,
    system: Annotated[
        bool, typer.Option("--system", help="A system crontab: each command has a user before it.")
    ] = False,
    tenant: Annotated[
        str, typer.Option("--tenant", help="Tenant that owns the definitions.")
    ] = "crontab",
    kind: OptionalKindOption = None,
    out: OutOption = None,
    json_: JsonOption = False,
) -> None:
    """Convert a crontab to definitions. Exit code 4 if a line cannot be converted."""
    from dueledger.importers.crontab import KIND, Crontab
    from dueledger.importers.crontab import import_crontab as read_crontab

    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        message = f"{file}: byte {error.start} is not UTF-8"
        raise typer.BadParameter(message, param_hint="FILE") from None
    of_system = system or file.name == "crontab" or file.absolute().parent.name == "cron.d"
    crontab = Crontab(tenant, kind or KIND, _zone(timezone), of_system)
    _print_import(read_crontab(text, file.name, crontab), out, as_json=json_)


@imports.command("kubernetes")
def import_kubernetes(
    path: Annotated[
        Path,
        typer.Argument(help="CronJobs or Prow's periodic jobs; YAML, JSON.", metavar="FILE|DIR"),
    ],
    anchor: Annotated[
        str, typer.Option("--anchor", help="Time from which fixed rates count.", metavar="T")
    ] = "2026-01-01T00:00:00Z",
    timezone: Annotated[
        str,
        typer.Option("--timezone", help="Timezone of the controller, for jobs without timeZone."),
    ] = "UTC",
    tenant: Annotated[
        str, typer.Option("--tenant", help="Tenant that owns the definitions.")
    ] = "kubernetes",
    kind: OptionalKindOption = None,
    out: OutOption = None,
    json_: JsonOption = False,
) -> None:
    """Convert CronJobs to definitions. Exit code 4 if one cannot be converted."""
    from dueledger.importers.kubernetes import import_kubernetes as read_kubernetes
    from dueledger.importers.prow_periodic import NewDefinitionFields

    anew = NewDefinitionFields(tenant, options.read_due_instant(anchor, "--anchor"), kind or "")
    found = read_kubernetes(path, anew, zone=_zone(timezone) or "UTC")
    _print_import(found, out, as_json=json_)


def _zone(name: str | None) -> str | None:
    from dueledger.ledger.schedule import load_zone

    if name is not None:
        load_zone(name)  # raises with the nearest names
    return name


def _print_import(found: "ImportResult", out: Path | None, *, as_json: bool) -> None:
    from dueledger.importers.definition_yaml import definitions_text, write_definitions

    written = [] if out is None else write_definitions(found.jobs, out)
    if as_json:
        _print_json(found, written)
    elif out is None and found.jobs:
        print_text(definitions_text(found.jobs))
    if not as_json:
        _print_tables(found, on_stderr=out is None)
    _summarise(found, written)
    options.exit_with(ExitCode.DONE if found.jobs and not found.skipped else ExitCode.FINDINGS)


def _print_json(found: "ImportResult", written: list[Path]) -> None:
    from dataclasses import asdict

    from dueledger.importers.import_result import QUESTIONS

    print_document(
        {
            "definitions": [job.document for job in found.jobs],
            "inventory": [job.inventory() for job in found.jobs],
            "left_out": [asdict(one) for one in found.skipped],
            "reported": [asdict(one) for one in found.reported],
            "passed_over": found.passed_over,
            "questions": {question.value: QUESTIONS[question] for question, _ in found.questions()},
            "files": [str(path) for path in written],
        }
    )


def _print_tables(found: "ImportResult", *, on_stderr: bool) -> None:
    """Print the inventory on stderr if stdout has the definitions."""
    rows = [
        {
            **row,
            "decide": ", ".join(_texts(row["decide"])),
            "notes": "; ".join(_texts(row["notes"])),
        }
        for row in (job.inventory() for job in found.jobs)
    ]
    noted = any(row["notes"] for row in rows)
    if rows:
        print_rows(rows, _COLUMNS if noted else _COLUMNS[:-1], empty="", on_stderr=on_stderr)


def _texts(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _summarise(found: "ImportResult", written: list[Path]) -> None:
    from dueledger.importers.import_result import QUESTIONS

    questions = list(found.questions())
    if questions:
        say("To decide:")
    for question, count in questions:
        say(f"  {question} ({count:,}): {QUESTIONS[question]}")
    for one in found.reported:
        say(f"{one.where}: {one.text or 'line'}: {one.meaning}")
    for one in found.skipped:
        remedy = f" Write: {one.accepted}." if one.accepted else ""
        say(f"left out {one.where} {one.text}: {one.reason}.{remedy}")
    for kind, count in sorted(found.passed_over.items()):
        say(f"ignored: {count:,} × {kind}, which has no schedule")
    say(
        f"{len(found.jobs):,} converted, {len(found.skipped):,} left out"
        + (f", {len(written):,} files written" if written else "")
    )
