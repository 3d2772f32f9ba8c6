"""Code of an earlier commit beside this code on this schema, as during a rolling upgrade."""

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

import dueledger
from dueledger.dev.supervisor import ChildSpec, Supervisor
from dueledger.ledger.store import Connection
from dueledger.ledger.store.item_lists import ItemListFilter, list_items
from dueledger.stack import Endpoints

pytestmark = pytest.mark.full

ROOT: Final = Path(dueledger.__file__).resolve().parents[1]
OLD: Final = "3a810ab7"
"""The last tag once there is one. Until then a commit: the baseline is edited in place, and an edit
that old code cannot use moves it here."""

HANDLERS: Final = """
from dueledger import Completed, DueItem, Handlers, Verdict

handlers = Handlers()


@handlers.on("ReminderDue")
async def remind(item: DueItem) -> Verdict:
    return Completed({"reminded": item.business_key})
"""

Eventually = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]


@pytest.fixture(scope="module")
def old_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the earlier commit."""
    folder = tmp_path_factory.mktemp("old")
    archive = subprocess.run(  # noqa: S603 - the developer's own git
        ["git", "archive", OLD, "dueledger", "allocator", "ledger", "reconciler", "workers", "sql"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if archive.returncode != 0:
        pytest.skip(f"this checkout does not have commit {OLD}, as a shallow clone")
    subprocess.run(["tar", "-x"], cwd=folder, input=archive.stdout, check=True)  # noqa: S607
    return folder


@pytest.fixture
def environments(
    old_tree: Path, tmp_path: Path, database: str, stack: Endpoints
) -> dict[str, dict[str, str]]:
    """The variables of processes of old and of new code, on one ledger."""
    (tmp_path / "reminders.py").write_text(HANDLERS, encoding="utf-8")
    given = {
        **os.environ,
        "DUELEDGER_DSN": database,
        "DUELEDGER_BOOTSTRAP_SERVERS": stack.bootstrap_servers,
        "PYTHONSAFEPATH": "1",  # or the folder that pytest runs in would come first
    }
    return {
        name: {**given, "PYTHONPATH": os.pathsep.join([str(tree), str(tmp_path)])}
        for name, tree in (("old", old_tree), ("new", ROOT))
    }


def run(environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def emit(environment: dict[str, str], key: str) -> None:
    owed = ("--tenant", "acme", "--kind", "ReminderDue", "--key", key)
    when = ("--effective-date", "2027-03-01", "--due-at", "2020-01-01")
    run(environment, "-m", "dueledger", "emit", *owed, *when)


@asynccontextmanager
async def running(
    environments: dict[str, dict[str, str]], **code: str
) -> AsyncGenerator[list[str]]:
    """Run a worker and an allocator, each of old or of new code."""
    commands = {"worker": ("work", "reminders:handlers"), "allocator": ("allocate",)}
    lines: list[str] = []

    def note(name: str, line: str) -> None:
        lines.append(f"{name} {line}")

    supervisors: list[Supervisor] = []
    try:
        for name, command in commands.items():
            supervisor = Supervisor(note, note, environment=environments[code[name]])
            supervisors.append(supervisor)
            await supervisor.start(ChildSpec(name, command))
        yield lines
    finally:
        killed = [await supervisor.stop_all() for supervisor in supervisors]
    assert killed == [[], []], lines


def test_the_old_code_is_that_of_the_earlier_commit(
    environments: dict[str, dict[str, str]], old_tree: Path
) -> None:
    where = "import dueledger.ledger; print(dueledger.ledger.__file__)"
    assert Path(run(environments["old"], "-c", where).strip()).is_relative_to(old_tree)
    assert Path(run(environments["new"], "-c", where).strip()).is_relative_to(ROOT)


@pytest.mark.parametrize(("allocator", "worker"), [("old", "new"), ("new", "old")])
async def test_old_and_new_processes_work_the_items_of_both_on_the_new_schema(
    environments: dict[str, dict[str, str]],
    connection: Connection,
    eventually: Eventually,
    allocator: str,
    worker: str,
) -> None:
    for name, environment in environments.items():
        emit(environment, f"emitted-by-{name}")
        emit(environment, "emitted-by-both")

    async def completed() -> list[dict[str, Any]] | None:
        wanted = ItemListFilter(kind="ReminderDue", state="Completed")
        items = (await list_items(connection, wanted)).items
        return items if len(items) == 3 else None

    async with running(environments, allocator=allocator, worker=worker):
        items = await eventually(completed)
    assert {item["business_key"] for item in items} == {
        *("emitted-by-old", "emitted-by-new", "emitted-by-both")
    }
