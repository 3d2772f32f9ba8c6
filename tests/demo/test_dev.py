"""`dueledger dev`: starts, says where things are, stops in order, and goes on later."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from dueledger.dev.dev import DevOptions, banner_lines
from dueledger.dev.insurer import seed
from dueledger.dev.servers import ServerWatch
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.store import Connection
from dueledger.ledger.store.items import emit_items
from dueledger.stack import Endpoints, StackError
from dueledger.stack.postgres import Postgres
from dueledger.stack.start_progress import StartProgress

pytestmark = pytest.mark.long


def hold_until_seeded(folder: Path, *options: str) -> tuple[int, str]:
    """Start it, stop it once its banner is printed, and return how it ended."""
    said: list[str] = []
    with subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "dueledger", "dev", "--keep", *options],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line)
            if "dueledger why" in line:
                process.send_signal(signal.SIGTERM)
    return process.returncode, "".join(said)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of sessions on the same data."""
    return tmp_path_factory.mktemp("dev")


@pytest.fixture(scope="module")
def session(folder: Path) -> tuple[int, str]:
    """The first session."""
    return hold_until_seeded(folder)


@pytest.fixture(scope="module")
def later_session(folder: Path, session: tuple[int, str]) -> tuple[int, str]:
    """Another one, once the first has ended."""
    assert session[0] == 0
    return hold_until_seeded(folder, "--show-secrets")


def test_a_session_seeds_an_insurer_and_stops_in_order(session: tuple[int, str]) -> None:
    code, said = session
    assert code == 0
    assert "200 renewals are due within the next minute" in said
    assert said.index("draining") < said.index("left: ") < said.index("stopped; the data is kept")


async def test_a_ledger_that_has_items_is_not_seeded_again(
    connection: Connection,
    actor_no: int,
    make_drafts: Callable[..., list[ItemDraft]],
    stack: Endpoints,
) -> None:
    await emit_items(connection, make_drafts(1), actor_no=actor_no)
    assert await seed(connection, stack, rate=1.0) == 0
    assert await connection.fetchval("select count(*) from ledger.due_item") == 1


@pytest.mark.full
def test_the_second_session_goes_on_with_the_data_of_the_first(
    later_session: tuple[int, str],
) -> None:
    code, said = later_session
    assert code == 0
    assert "schema: up to date" in said
    assert "are due within the next minute" not in said
    assert ":***@" not in said
    assert chatter(said) == []


def test_the_banner_has_a_link_that_opens_the_console(session: tuple[int, str]) -> None:
    [line] = (line for line in session[1].splitlines() if line.startswith("Console "))
    assert re.fullmatch(
        r"Console   http://127\.0\.0\.1:\d+/console/sign-in#due_[0-9a-f]{16}_\S{43}", line
    )


def test_what_the_banner_suggests_is_copied_as_it_is(session: tuple[int, str]) -> None:
    [dsn, servers] = (line for line in session[1].splitlines() if line.startswith("export "))
    assert dsn.startswith("export DUELEDGER_DSN='postgresql://")
    assert dsn.endswith("/postgres'")
    assert servers.startswith("export DUELEDGER_BOOTSTRAP_SERVERS='127.0.0.1:")
    assert servers.endswith("'")


def test_secrets_are_shown_only_when_asked_for(session: tuple[int, str]) -> None:
    assert session[1].count(":***@") == 2
    endpoints = Endpoints("postgresql://postgres:hidden@127.0.0.1:5/postgres", "127.0.0.1:9")
    for shows in (False, True):
        said = "\n".join(banner_lines(endpoints, DevOptions(show_secrets=shows), None))
        assert (said.count(":hidden@"), said.count(":***@")) == ((2, 0) if shows else (0, 2))


def chatter(said: str) -> list[str]:
    """Return the lines of libraries."""
    return [line for line in said.splitlines() if "aiokafka" in line or "nanobind" in line]


def test_no_library_complains_at_a_normal_start_or_end(session: tuple[int, str]) -> None:
    assert chatter(session[1]) == []


async def test_a_server_that_ends_is_started_again_once(tmp_path: Path) -> None:
    said: list[str] = []
    server = Postgres(tmp_path, durable=False, steps=StartProgress(None))
    watch = ServerWatch({"postgres": server}, lambda name, line: said.append(f"{name} {line}"))
    server.start()
    try:
        await watch.check()
        assert said == []
        server.kill()
        await watch.check()
        assert server.running
        assert said[0].startswith("postgres ended by itself; its last ")
        assert said[-1] == "postgres is started again, once"
        server.kill()
        with pytest.raises(StackError, match=r"postgres ended again\."):
            await watch.check()
        assert not server.running
    finally:
        server.stop()


@pytest.fixture(scope="module")
def headless(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str]:
    """A session without items, whose servers are killed until it ends."""
    said: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-m", "dueledger", "dev", "--keep", "--headless"],
        cwd=tmp_path_factory.mktemp("headless"),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        kills = iter(("postgres", "java", "java"))
        for line in process.stderr:
            said.append(line)
            if "dueledger why" in line or "postgres: ready" in line or "kafka: ready" in line:
                began = any("dueledger why" in earlier for earlier in said)
                name = next(kills, None) if began else None
                if name is not None:
                    _kill_server(process.pid, name)
    return process.returncode, "".join(said)


@pytest.mark.full
def test_a_session_ends_with_a_server_that_ends_again(headless: tuple[int, str]) -> None:
    code, said = headless
    assert code == 3  # a dependency is unreachable
    assert said.count("ended by itself; its last") == 3
    assert said.count("is started again, once") == 2
    assert "kafka ended again." in said


def _kill_server(parent: int, name: str) -> None:
    children = psutil.Process(parent).children()
    [server] = (child for child in children if Path(child.exe()).name == name)
    server.kill()


@pytest.mark.full
def test_a_headless_session_suggests_no_policy_that_is_not_there(
    headless: tuple[int, str],
) -> None:
    _, said = headless
    assert "dueledger emit" in said
    assert "POL-" not in said
