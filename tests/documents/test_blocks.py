"""Every fenced block of the documents is run, or says why it is not."""

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer._click import Context
from typer.main import get_command

from dueledger.cli.app import app
from dueledger.ledger.store import Connection
from dueledger.stack import Endpoints
from tests.document_blocks import BY_LANGUAGE, PAGES, ROOT, all_blocks, blocks_of
from tools.check_docs import FENCE

SAMPLE = "docs/consuming.md"
SESSIONS = [
    page
    for page in PAGES
    if any(each.language == "sh" and each.is_run_by_language for each in blocks_of(page))
]
OTHER_TIMES = {"CHANGELOG.md"}
"""Pages that name commands which do not exist any more."""
_OF_DESIGN = re.compile(r"\*\*Command line\*\* `dueledger` .*?: `([^`]+)`")

_NAMED = re.compile(r"`(?:\.venv/bin/)?dueledger ([^`]+)`")
_RUN = re.compile(r"(?:^|&& )dueledger ([^\n#&|>]+)", re.MULTILINE)

FILES = Path(__file__).parent / "files"
"""What the folder of each session has: files that pages name."""


def test_each_block_is_run_by_its_language_or_a_test_or_says_why_not() -> None:
    silent = [
        str(each)
        for each in all_blocks()
        if each.is_run_by_language and each.language not in BY_LANGUAGE and "file" not in each.how
    ]
    assert silent == []


def test_each_test_that_a_block_names_reads_the_blocks_of_its_page() -> None:
    sources = {path: path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    for page in PAGES:
        for name in {each.how["run by"] for each in blocks_of(page) if "run by" in each.how}:
            [source] = [text for text in sources.values() if f"def {name}(" in text]
            assert f'"{page}"' in source, (page, name)


def commands_of(page: str) -> Iterator[str]:
    """Yield what follows `dueledger` in the text of a page, and in the lines that are not run."""
    yield from _NAMED.findall(FENCE.sub("", (ROOT / page).read_text(encoding="utf-8")))
    for block in blocks_of(page):
        if block.language == "sh":
            yield from _RUN.findall(block.text.replace("\\\n", " "))


def test_each_command_that_a_page_names_exists_with_its_options() -> None:
    for page in sorted(set(PAGES) - OTHER_TIMES):
        for text in commands_of(page):
            unknown = unknown_word(text)
            assert unknown is None, (page, text, unknown)


def test_each_command_that_the_design_lists_exists() -> None:
    [listed] = _OF_DESIGN.findall((ROOT / "docs" / "design.md").read_text(encoding="utf-8"))
    for each in listed.split(" · "):
        group, _, names = each.rpartition(" ")
        for name in names.split("|"):
            assert unknown_word(f"{group} {name}") is None, each


def unknown_word(text: str) -> str | None:
    """Return the first word that is no command and no option where it stands, or None."""
    command: Any = get_command(app)
    is_value = False
    for word in re.sub(r"[\[\]]", "", text).split():
        if word.startswith("--"):
            name = word.rstrip(".,;:").partition("=")[0]
            options = {each: one for one in command.params for each in one.opts}
            if name not in {*options, "--help"}:
                return name
            is_value = name in options and not options[name].is_flag and "=" not in word
        elif hasattr(command, "commands") and not is_value:
            command = command.get_command(Context(command), word)
            if command is None:
                return word
        else:
            is_value = False
    return None


async def test_each_query_of_the_documents_runs(connection: Connection) -> None:
    queries = [each for each in all_blocks() if each.language == "sql" and each.is_run_by_language]
    assert queries
    for block in queries:
        transaction = connection.transaction()
        await transaction.start()
        try:
            await connection.execute(block.text)
        except Exception as error:
            error.add_note(str(block))
            raise
        finally:
            await transaction.rollback()


async def run_session(page: str, folder: Path, dsn: str, bootstrap_servers: str) -> None:
    """Save the files of a page, and run its commands in one shell, in their order."""
    blocks = [each for each in blocks_of(page) if each.is_run_by_language]
    shutil.copytree(FILES, folder, dirs_exist_ok=True)
    for block in blocks:
        if "file" in block.how:
            (folder / block.how["file"]).write_text(block.text, encoding="utf-8")
    script = "".join(f": '{each}'\n{each.text}" for each in blocks if each.language == "sh")
    shell = await asyncio.create_subprocess_exec(
        *("sh", "-e", "-c", script),
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "DUELEDGER_DSN": dsn,
            "DUELEDGER_BOOTSTRAP_SERVERS": bootstrap_servers,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await shell.communicate()
    assert shell.returncode == 0, f"{page}\n{output.decode()}"


@pytest.mark.parametrize(
    "page",
    [each if each == SAMPLE else pytest.param(each, marks=pytest.mark.full) for each in SESSIONS],
)
async def test_the_commands_of_a_page_run(
    page: str, tmp_path: Path, database: str, stack: Endpoints
) -> None:
    await run_session(page, tmp_path, database, stack.bootstrap_servers)
