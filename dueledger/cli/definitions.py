"""Commands about definitions: put them in force, preview them, bring them from elsewhere."""

from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from dueledger.cli import options
from dueledger.cli.options import DsnOption, JsonOption
from dueledger.cli.output import print_document, print_lines, print_rows

app = typer.Typer()
imports = typer.Typer(help="Turn other schedulers' files into definitions.", no_args_is_help=True)
app.add_typer(imports, name="import", rich_help_panel=options.DEFINITIONS)

FileArgument = Annotated[
    Path, typer.Argument(help="YAML or JSON: one definition, several, or a list.", metavar="FILE")
]
EffectiveFromOption = Annotated[
    str | None,
    typer.Option("--effective-from", help="From when it holds; now otherwise.", metavar="T"),
]


@app.command(rich_help_panel=options.DEFINITIONS)
def define(
    file: FileArgument,
    effective_from: EffectiveFromOption = None,
    backfill: Annotated[
        bool,
        typer.Option("--backfill", help="Owe all since --effective-from, though it is long past."),
    ] = False,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Put definitions in force. The same file again changes nothing; all or none."""
    from dueledger.cli.session import run

    defined = run(_define(dsn, file, effective_from, backfill=backfill))
    if json_:
        print_lines(defined)
    else:
        print_rows(defined, ("tenant", "definition", "version", "changed"), empty="")


async def _define(
    dsn: str | None, file: Path, effective_from: str | None, *, backfill: bool
) -> list[dict[str, object]]:
    from dueledger.cli.session import ledger_connection, person
    from dueledger.defining import put_in_force, read_definitions

    definitions = read_definitions(file)
    since = _instant(effective_from, "--effective-from")
    async with ledger_connection(dsn) as connection:
        actor_no = await person(connection)
        defined = await put_in_force(
            connection, definitions, actor_no=actor_no, effective_from=since, backfill=backfill
        )
    return [asdict(answer) for answer in defined]


@app.command(rich_help_panel=options.DEFINITIONS)
def preview(
    file: FileArgument,
    since: Annotated[
        str | None, typer.Option("--from", help="Start of the window.", metavar="T")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", help="End, not included.", metavar="T")
    ] = None,
    effective_date: Annotated[
        str | None,
        typer.Option("--effective-date", help="The date a `relative` one hangs on.", metavar="D"),
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Show when a definition falls due, and what is skipped and why. Needs no database."""
    from dueledger.defining import read_definitions
    from dueledger.preview import preview_definition

    [definition, *others] = read_definitions(file)
    if others:
        raise typer.BadParameter(
            "it holds several definitions; preview takes one", param_hint="FILE"
        )
    start, end = _instant(since, "--from"), _instant(until, "--to")
    if start is not None and end is not None and end <= start:
        raise typer.BadParameter(f"{until!r} is not after --from, {since!r}", param_hint="--to")
    document = preview_definition(
        definition,
        since=start,
        until=end,
        effective_date=(
            None
            if effective_date is None
            else options.read_date(effective_date, "--effective-date")
        ),
    )
    if json_:
        print_document(document)
        return
    print_rows(
        document["occurrences"],
        ("due_at", "nominal", "utc_offset", "decision"),
        empty="Nothing falls due.",
    )
    if document["skipped"]:
        print_rows(document["skipped"], ("nominal", "reason"), empty="")


def _instant(text: str | None, option: str) -> datetime | None:
    return None if text is None else options.read_instant(text, option)


@imports.command("kubernetes")
def import_kubernetes(
    file: Annotated[
        Path, typer.Argument(help="Prow's periodic jobs as a JSON list.", metavar="FILE")
    ],
    anchor: Annotated[
        str, typer.Option("--anchor", help="From when fixed rates count.", metavar="T")
    ] = "2026-01-01T00:00:00Z",
    tenant: Annotated[str, typer.Option("--tenant", help="Whose they become.")] = "kubernetes",
    json_: JsonOption = False,  # noqa: ARG001 - it prints JSON either way
) -> None:
    """Print the definitions of Prow's periodic jobs, one a line, ready for `define`."""
    from dueledger.importers.kubernetes import definition_documents, read_periodics

    try:
        periodics = read_periodics(file)
    except UnicodeDecodeError as error:
        message = f"{file}: byte {error.start} is not UTF-8"
        raise typer.BadParameter(message, param_hint="FILE") from None
    print_document(
        definition_documents(
            periodics, anchor=options.read_instant(anchor, "--anchor"), tenant=tenant
        )
    )
