"""The command line: a group whose commands are imported when they are run."""

from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from dueledger.cli.commands import COMMANDS, PANELS
from dueledger.cli.version import print_version

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter


class LazyGroup(TyperGroup):
    """A group that knows its commands by name, and imports the module of the one that is run."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - those of a group
        options["commands"] = dict.fromkeys(COMMANDS)  # names, of which the nearest is suggested
        super().__init__(**options)

    def get_command(self, ctx: "Context", cmd_name: str) -> "Command | None":
        """Import the module of a command and return the command; None if there is none."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module = typer.main.get_group(import_module(entry.module).app)
        return module.get_command(ctx, cmd_name)

    def format_commands(self, ctx: "Context", formatter: "HelpFormatter") -> None:  # noqa: ARG002
        """Write the commands by panel, without importing any."""
        width = max(map(len, COMMANDS))
        for panel, entries in PANELS.items():
            with formatter.section(panel):
                formatter.write_dl(
                    [(f"{name:<{width}}", entry.summary) for name, entry in entries.items()]
                )


app: Final = typer.Typer(
    name="dueledger",
    cls=LazyGroup,
    epilog="Exit codes: 0 done, 1 failed, 2 usage, 3 a dependency is unreachable, 4 completed with "
    "findings, 130 interrupted. Settings are DUELEDGER_… variables; options override them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print_version(as_json=False)
        raise typer.Exit


@app.callback()
def dueledger(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and end."
        ),
    ] = False,
) -> None:
    """Dueledger: what a business owes and when, whether it happened, and if not, why."""
