"""Commands import nothing that they do not use: most of the time of a short command is imports."""

import json
import os
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest
import typer

from dueledger.cli.app import app
from dueledger.cli.commands import COMMANDS, PANELS

TYPER = {"typer", "annotated_doc", "shellingham"}
TYPER_OPTIONS = {"annotated_types", "pydantic", "pydantic_core", "typing_extensions"}
"""Modules that Typer imports if a command has options."""
LIST = TYPER | TYPER_OPTIONS | {"asyncpg", "orjson", "rich", "typing_inspection"}

LISTS = (
    ("items",),
    ("reviews",),
    ("rejected",),
    ("definitions",),
    ("findings",),
    ("failing",),
    ("flow", "list"),
    ("flow", "pauses"),
    ("calendar", "list"),
)

RUN = """
import json, sys
from dueledger.cli import main
for arguments in json.loads(sys.argv[1]):
    assert main(arguments) == 0
origins = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
names = [name for name, file in origins.items() if "site-packages" in file or "dueledger" in name]
print("", *names, sep="\\n", file=sys.stderr)
"""


def modules_after(*commands: tuple[str, ...], **variables: str) -> set[str]:
    """Return the modules outside the standard library that these commands import."""
    ran = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", RUN, json.dumps(commands)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return {line for line in ran.stderr.splitlines() if " " not in line and line}


def packages(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules} - {"dueledger"}


def test_help_imports_typer_and_the_table_of_commands() -> None:
    imported = modules_after(("--help",))
    assert packages(imported) <= TYPER
    assert {name for name in imported if name.startswith("dueledger")} == {
        "dueledger",
        "dueledger.cli",
        "dueledger.cli.app",
        "dueledger.cli.commands",
        "dueledger.cli.exit_codes",
        "dueledger.cli.version",
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_begins_with_its_summary(name: str) -> None:
    entry = COMMANDS[name]
    command = typer.main.get_group(import_module(entry.module).app).commands[name]
    assert " ".join((command.help or "").split()).startswith(entry.summary.removesuffix("."))


def test_version_imports_no_other_package() -> None:
    assert modules_after(("version",)) == {
        "dueledger",
        "dueledger.cli",
        "dueledger.cli.exit_codes",
        "dueledger.cli.version",
    }


def test_lists_import_what_reads_and_prints_them(database: str) -> None:
    assert packages(modules_after(*LISTS, DUELEDGER_DSN=database)) <= LIST


def test_the_table_of_commands_names_each_command_once_and_where_it_is() -> None:
    assert len(COMMANDS) == sum(map(len, PANELS.values()))
    group: Any = typer.main.get_command(app)
    context = typer.Context(group)
    for name, entry in COMMANDS.items():
        command = group.get_command(context, name)
        assert command is not None, f"{entry.module} has no {name}"
        assert command.name == name


@pytest.mark.parametrize("command", [("version",), ("doctor", "--json")], ids=" ".join)
def test_a_command_whose_reader_has_gone_ends_without_a_traceback(command: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ran = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-m", "dueledger", *command],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (ran.returncode, "Traceback" in ran.stderr) == (1, False)
