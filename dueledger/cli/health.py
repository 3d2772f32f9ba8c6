"""The command `health`: what a container's probe asks."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from dueledger.cli import options
from dueledger.cli.exit_codes import ExitCode
from dueledger.cli.options import DsnOption, JsonOption
from dueledger.cli.output import print_document, print_text, say
from dueledger.cli.session import ledger_connection, run

if TYPE_CHECKING:
    from dueledger.ledger.store.processes import ProcessHealth, ProcessRole

PROCESSES_MAX: Final = 10

app = typer.Typer(rich_markup_mode=None)


@app.command()
def health(
    role: Annotated[
        str, typer.Argument(help="What the process does, as allocator.", metavar="ROLE")
    ],
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Only whether it hangs: a restart would help. Passes while Postgres is away.",
        ),
    ] = False,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Say whether the process on this machine lives and can take work. Exit code 4 if not."""
    from dueledger.ledger.errors import Unavailable

    asked = _role_of(role)
    try:
        found = run(_read(dsn, asked))
    except Unavailable as error:
        if not live:
            raise
        say(error.message)
        found = []
    problem = find_hang(found) if live else find_problem(found)
    if json_:
        print_document({"role": asked, "healthy": problem is None, "problem": problem})
    else:
        print_text(f"{problem or 'ok'}\n")
    options.exit_with(ExitCode.DONE if problem is None else ExitCode.FINDINGS)


def find_problem(found: "list[ProcessHealth]") -> str | None:
    """Return why no process of these, the last to start first, can take work; None if one can."""
    from dueledger.ledger.store.processes import ProcessStatus

    live = [each for each in found if each.status is ProcessStatus.LIVE]
    if any(each.failing_since is None for each in live):
        return None
    if live:
        last = live[0]
        return f"{last.name} cannot take work since {last.failing_since:%H:%M:%S}Z: {last.failure}"
    if found:
        return f"{found[0].name} is {found[0].status}; it was seen last at {found[0].seen_at}"
    return "no such process runs on this machine"


def find_hang(found: "list[ProcessHealth]") -> str | None:
    """Return which process hangs; None if one lives, or if none is known to hang.

    One that is silent has its connection to Postgres and renews nothing. One that waits for a
    server has no row yet: that is none that a restart would help.
    """
    from dueledger.ledger.store.processes import ProcessStatus

    if any(each.status is ProcessStatus.LIVE for each in found):
        return None
    silent = [each for each in found if each.status is ProcessStatus.SILENT]
    return f"{silent[0].name} hangs; it was seen last at {silent[0].seen_at}" if silent else None


def _role_of(text: str) -> "ProcessRole":
    from dueledger.ledger.store.processes import ProcessRole

    if text not in list(ProcessRole):
        raise typer.BadParameter(f"{text!r} is none of {', '.join(ProcessRole)}")
    return ProcessRole(text)


async def _read(dsn: str | None, role: "ProcessRole") -> "list[ProcessHealth]":
    import socket

    from dueledger.ledger.store.processes import read_health

    async with ledger_connection(dsn) as connection:
        return list(await read_health(connection, socket.gethostname(), role, PROCESSES_MAX))
