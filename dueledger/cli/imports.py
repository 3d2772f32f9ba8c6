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
    from dueledger.importers.source_job import NewDefinitionFields

ANCHOR = "2026-01-01T00:00:00Z"

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
ImportTenantOption = Annotated[
    str, typer.Option("--tenant", help="Tenant that owns the definitions.")
]
MachineZoneOption = Annotated[
    str | None,
    typer.Option("--timezone", help="Timezone of its machine, for jobs that name none."),
]
AnchorOption = Annotated[
    str, typer.Option("--anchor", help="Time from which fixed rates count.", metavar="T")
]
SourceOption = Annotated[
    str | None,
    typer.Option(
        "--source",
        help="Name of this import, for `define --prune`; default: scheduler and file name.",
        metavar="NAME",
    ),
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
    timezone: MachineZoneOption = None,
    system: Annotated[
        bool, typer.Option("--system", help="A system crontab: each command has a user before it.")
    ] = False,
    tenant: ImportTenantOption = "crontab",
    kind: OptionalKindOption = None,
    source: SourceOption = None,
    out: OutOption = None,
    json_: JsonOption = False,
) -> None:
    """Convert a crontab to definitions. Exit code 4 if a line cannot be converted."""
    from dueledger.importers.crontab import import_crontab as read_crontab
    from dueledger.ledger.runtime.text_file import DEFINITION_BYTES_MAX, read_text

    text = read_text(file, DEFINITION_BYTES_MAX)
    of_system = system or file.name == "crontab" or file.absolute().parent.name == "cron.d"
    anew = _new_fields("crontab", file, tenant, kind, source, zone=timezone)
    _print_import(
        read_crontab(text, file.name, anew, of_system=of_system), anew, out, as_json=json_
    )


@imports.command("kubernetes")
def import_kubernetes(
    path: Annotated[
        Path,
        typer.Argument(help="CronJobs or Prow's periodic jobs; YAML, JSON.", metavar="FILE|DIR"),
    ],
    anchor: AnchorOption = ANCHOR,
    timezone: Annotated[
        str,
        typer.Option("--timezone", help="Timezone of the controller, for jobs without timeZone."),
    ] = "UTC",
    tenant: ImportTenantOption = "kubernetes",
    kind: OptionalKindOption = None,
    source: SourceOption = None,
    out: OutOption = None,
    json_: JsonOption = False,
) -> None:
    """Convert CronJobs to definitions. Exit code 4 if one cannot be converted."""
    from dueledger.importers.kubernetes import import_kubernetes as read_kubernetes

    anew = _new_fields("kubernetes", path, tenant, kind, source, zone=timezone, anchor=anchor)
    _print_import(read_kubernetes(path, anew), anew, out, as_json=json_)


@imports.command("systemd")
def import_systemd(
    path: Annotated[
        Path,
        typer.Argument(
            help="Timers: .timer units, or what `systemctl cat` prints.", metavar="FILE|DIR"
        ),
    ],
    anchor: AnchorOption = ANCHOR,
    timezone: MachineZoneOption = None,
    tenant: ImportTenantOption = "systemd",
    kind: OptionalKindOption = None,
    source: SourceOption = None,
    out: OutOption = None,
    json_: JsonOption = False,
) -> None:
    """Convert timers of systemd. Exit code 4 if one cannot be converted."""
    from dueledger.importers.systemd import import_systemd as read_systemd

    anew = _new_fields("systemd", path, tenant, kind, source, zone=timezone, anchor=anchor)
    _print_import(read_systemd(path, anew), anew, out, as_json=json_)


@imports.command("quartz")
def import_quartz(
    path: Annotated[
        Path,
        typer.Argument(
            help="Quartz' XML; Spring's annotations, properties and YAML.", metavar="FILE|DIR"
        ),
    ],
    dialect: Annotated[
        str, typer.Option("--dialect", help="Of settings and lists: spring or quartz.")
    ] = "spring",
    anchor: AnchorOption = ANCHOR,
    timezone: MachineZoneOption = None,
    tenant: ImportTenantOption = "quartz",
    kind: OptionalKindOption = None,
    source: SourceOption = None,
    out: OutOption = None,
    json_: JsonOption = False,
) -> None:
    """Convert triggers of Quartz and Spring. Exit code 4 if one cannot be converted."""
    from dueledger.importers.java_cron import JavaDialect
    from dueledger.importers.quartz import import_quartz as read_quartz

    dialects = {"spring": JavaDialect.SPRING, "quartz": JavaDialect.QUARTZ}
    if dialect not in dialects:
        raise typer.BadParameter("spring or quartz", param_hint="--dialect")
    anew = _new_fields("quartz", path, tenant, kind, source, zone=timezone, anchor=anchor)
    _print_import(read_quartz(path, anew, dialects[dialect]), anew, out, as_json=json_)


@imports.command("eventbridge")
def import_eventbridge(
    path: Annotated[
        Path,
        typer.Argument(
            help="Output of the AWS CLI, CloudFormation or Terraform as JSON; YAML, JSON.",
            metavar="FILE|DIR",
        ),
    ],
    anchor: AnchorOption = ANCHOR,
    tenant: ImportTenantOption = "eventbridge",
    kind: OptionalKindOption = None,
    source: SourceOption = None,
    out: OutOption = None,
    json_: JsonOption = False,
) -> None:
    """Convert schedules of EventBridge. Exit code 4 if one cannot be converted."""
    from dueledger.importers.eventbridge import import_eventbridge as read_eventbridge

    anew = _new_fields("eventbridge", path, tenant, kind, source, zone=None, anchor=anchor)
    _print_import(read_eventbridge(path, anew), anew, out, as_json=json_)


def _new_fields(
    scheduler: str,
    path: Path,
    tenant: str,
    kind: str | None,
    source: str | None,
    *,
    zone: str | None,
    anchor: str = ANCHOR,
) -> "NewDefinitionFields":
    from dueledger.importers.source_job import NewDefinitionFields
    from dueledger.ledger.definitions.fields import NAME_CHARS_MAX

    return NewDefinitionFields(
        tenant,
        options.read_due_instant(anchor, "--anchor"),
        kind or "",
        _zone(zone),
        source or f"{scheduler}:{path.name or path.resolve().name}"[:NAME_CHARS_MAX],
    )


def _zone(name: str | None) -> str | None:
    from dueledger.ledger.schedule import load_zone

    if name is not None:
        load_zone(name)  # raises with the nearest names
    return name


def _print_import(
    found: "ImportResult", anew: "NewDefinitionFields", out: Path | None, *, as_json: bool
) -> None:
    from dueledger.importers.definition_yaml import definitions_text, write_definitions
    from dueledger.importers.earlier_files import find_obsolete

    written = [] if out is None else write_definitions(found.jobs, out)
    obsolete = [] if out is None else find_obsolete(out, written, anew.source)
    if as_json:
        _print_json(found, written, obsolete)
    elif out is None and found.jobs:
        print_text(definitions_text(found.jobs))
    if not as_json:
        _print_tables(found, on_stderr=out is None)
    _summarise(found, written)
    for path in obsolete:
        say(
            f"{path}: this import makes it no longer; remove it, and end its definition with "
            f"`dueledger define FILE… --prune {anew.source}`"
        )
    options.exit_with(ExitCode.DONE if found.jobs and not found.skipped else ExitCode.FINDINGS)


def _print_json(found: "ImportResult", written: list[Path], obsolete: list[Path]) -> None:
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
            "obsolete": [str(path) for path in obsolete],
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
