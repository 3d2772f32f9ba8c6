"""The command line: which commands there are, in the order in which a person needs them."""

import typer

from dueledger import __version__
from dueledger.cli import (
    bench,
    calendars,
    decisions,
    definitions,
    flows,
    importing,
    items,
    planning,
    preview,
    processes,
    proof,
    start,
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

for commands in (
    start,
    definitions,
    preview,
    planning,
    calendars,
    importing,
    items,
    decisions,
    flows,
    processes,
    proof,
):
    app.registered_commands.extend(commands.app.registered_commands)
    app.registered_groups.extend(commands.app.registered_groups)
app.add_typer(bench.app, name="bench", rich_help_panel="Operations")


@app.command(rich_help_panel="Operations")
def version(
    json_: JsonOption = False,  # noqa: ARG001 - it prints JSON either way
) -> None:
    """Print the version as JSON."""
    print_document({"version": __version__})
