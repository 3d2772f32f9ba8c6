"""Commands of the first day: demo, dev, doctor, migrate, version."""

from pathlib import Path
from typing import Annotated

import typer

from dueledger.cli import options
from dueledger.cli.exit_codes import ExitCode
from dueledger.cli.options import DsnOption, JsonOption, KafkaOption
from dueledger.cli.output import open_console, print_document, print_rows, say
from dueledger.cli.session import ledger_connection, run
from dueledger.cli.version import print_version

app = typer.Typer(rich_markup_mode=None)

KeepOption = Annotated[bool, typer.Option("--keep", help="Keep the data for the next start.")]
CellOption = Annotated[
    int | None,
    typer.Option(
        "--cell",
        min=0,
        max=1022,
        help="Number of this ledger among those that share topics; given once, default 0.",
    ),
]


@app.command()
def demo(
    policies: Annotated[
        int, typer.Option("--policies", min=100, max=1_000_000, help="Number of policies.")
    ] = 20_000,
    periodics: Annotated[
        int | None,
        typer.Option("--periodics", min=1, help="Number of periodic jobs; default is all."),
    ] = None,
    day_seconds: Annotated[
        float, typer.Option("--day-seconds", min=5, help="Seconds that the simulated day takes.")
    ] = 72.0,
    keep: KeepOption = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Leave the console open on its ledger, until Ctrl-C.")
    ] = False,
    json_: JsonOption = False,
) -> None:
    """Run a simulated day, freeze and kill workers in it, and check the result."""
    from dueledger.demo.demo import run_demo
    from dueledger.demo.environment import DemoOptions

    day = DemoOptions(policies, periodics, day_seconds, serve=serve)
    result = run_demo(day, console=open_console(stderr=True), keep=keep)
    if json_:
        print_document(result.document())
    options.exit_with(ExitCode.FAILED if result.failures else ExitCode.DONE)


@app.command()
def dev(
    keep: KeepOption = False,
    clock: Annotated[
        str, typer.Option("--clock", help="Speed of the business clock, as 60x.")
    ] = "1x",
    headless: Annotated[
        bool, typer.Option("--headless", help="No colours and no example insurer.")
    ] = False,
    show_secrets: Annotated[
        bool, typer.Option("--show-secrets", help="Print addresses with their passwords.")
    ] = False,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir", help="Folder for the data; default with --keep is .dueledger/dev."
        ),
    ] = None,
) -> None:
    """Run Postgres, Kafka and every process on this machine, until Ctrl-C. Not for production."""
    from dueledger.dev.dev import DevOptions, run_dev

    run_dev(
        DevOptions(
            rate=_read_rate(clock),
            headless=headless,
            show_secrets=show_secrets,
            data_dir=data_dir or (Path(".dueledger/dev") if keep else None),
        ),
        console=open_console(stderr=True),
    )


def _read_rate(clock: str) -> float:
    try:
        rate = float(clock.removesuffix("x"))
    except ValueError:
        rate = 0.0
    if not 0 < rate <= 1_000_000:  # noqa: PLR2004 - a year in half a minute
        message = f"{clock!r} is not a speed such as 1x, 60x or 1440x"
        raise typer.BadParameter(message, param_hint="--clock")
    return rate


@app.command()
def doctor(
    json_: JsonOption = False, dsn: DsnOption = None, bootstrap_servers: KafkaOption = None
) -> None:
    """Check this installation and say what to fix. Exit code 4 if something is wrong."""
    from dueledger.doctor import Health

    checks = run(_examine(dsn, bootstrap_servers))
    if json_:
        print_document({"checks": checks})
    else:
        print_rows(checks, ("health", "name", "text", "remedy"), empty="")
    options.exit_with(
        ExitCode.FINDINGS if any(c["health"] is Health.FAIL for c in checks) else ExitCode.DONE
    )


async def _examine(dsn: str | None, bootstrap_servers: str | None) -> list[dict[str, object]]:
    from dataclasses import asdict

    from dueledger.doctor import run_checks
    from dueledger.ledger.runtime.setting_problems import read_settings
    from dueledger.ledger.runtime.settings import Settings

    settings = read_settings(Settings, dsn=dsn, bootstrap_servers=bootstrap_servers)
    return [asdict(check) async for check in run_checks(settings)]


@app.command()
def migrate(
    cell: CellOption = None,
    move_all: Annotated[
        bool,
        typer.Option(
            "--move-all",
            help="Also move items out of the default partition where they are too many for upkeep;"
            " everybody else waits meanwhile.",
        ),
    ] = False,
    json_: JsonOption = False,
    dsn: DsnOption = None,
) -> None:
    """Bring the schema of the database up to date. Running it again changes nothing."""
    applied = run(_migrate(dsn, cell, move_all=move_all))
    if json_:
        print_document({"applied": applied})
    elif not applied:
        say("The schema is up to date.")


async def _migrate(dsn: str | None, cell_no: int | None, *, move_all: bool) -> list[str]:
    from dueledger.ledger.store.migrations import migrate
    from dueledger.ledger.store.partitions import MOVED_ROWS_MAX

    async with ledger_connection(dsn) as connection:
        return await migrate(
            connection,
            cell_no=cell_no,
            rows_max=None if move_all else MOVED_ROWS_MAX,
            applied=lambda name: say(f"applied {name}"),
        )


@app.command()
def version(
    json_: JsonOption = False,  # noqa: ARG001 - it prints JSON either way
) -> None:
    """Print the version as JSON."""
    print_version(as_json=True)
