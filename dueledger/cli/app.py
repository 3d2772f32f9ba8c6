"""The command line: which commands there are, in the order in which a person needs them."""

from pathlib import Path
from typing import Final

import typer

import dueledger
from dueledger.cli import (
    calendars,
    decisions,
    definitions,
    flows,
    imports,
    items,
    planning,
    preview,
    processes,
    reconciliation,
    setup,
)
from dueledger.cli.options import JsonOption
from dueledger.cli.output import print_document

app = typer.Typer(
    name="dueledger",
    help="A ledger of what a business owes and when: was it due, was it claimed, did it happen, "
    "and if not, why.",
    epilog="Exit codes: 0 done, 1 failed, 2 usage, 3 a dependency is unreachable, 4 completed with "
    "findings, 130 interrupted. Settings: DUELEDGER_… variables; options stand above them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

CHECKOUT: Final = Path(dueledger.__file__).resolve().parents[1]

for commands in (
    setup,
    definitions,
    preview,
    planning,
    calendars,
    imports,
    items,
    decisions,
    flows,
    processes,
    reconciliation,
):
    app.registered_commands.extend(commands.app.registered_commands)
    app.registered_groups.extend(commands.app.registered_groups)

if (CHECKOUT / "pyproject.toml").exists():  # no part of what is installed
    from bench.cli import app as bench

    app.add_typer(bench, name="bench", rich_help_panel="Operations")


@app.command(rich_help_panel="Operations")
def version(
    json_: JsonOption = False,  # noqa: ARG001 - it prints JSON either way
) -> None:
    """Print the version as JSON."""
    print_document({"version": dueledger.__version__})
