"""Putting definitions in force."""

from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from dueledger.cli import options
from dueledger.cli.options import DsnOption, JsonOption
from dueledger.cli.output import print_lines, print_rows, say

app = typer.Typer()

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
    from dueledger.calendars.binding import told_reach
    from dueledger.cli.session import ledger_connection, person
    from dueledger.defining import put_in_force, read_definitions

    definitions = read_definitions(file, calendars=None)
    since = _instant(effective_from, "--effective-from")
    async with ledger_connection(dsn) as connection:
        actor_no = await person(connection)
        defined = await put_in_force(
            connection, definitions, actor_no=actor_no, effective_from=since, backfill=backfill
        )
        for told in await told_reach(connection, definitions):
            say(told)
    return [asdict(answer) for answer in defined]


def _instant(text: str | None, option: str) -> datetime | None:
    return None if text is None else options.read_instant(text, option)
