"""The built wheel: beside a service that has packages called `workers` and `ledger`, and with the
README in an empty folder, on the oldest and the newest PostgreSQL that a wheel has."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from dueledger.dev.supervisor import ChildSpec, Supervisor
from dueledger.ledger.store import Connection, open_connection
from dueledger.ledger.store.item_lists import ItemListFilter, list_items
from dueledger.ledger.store.server_version import read_server_version
from dueledger.stack import Endpoints, free_ports
from dueledger.stack.postgres import find_binaries
from tests.document_blocks import blocks_of

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
*FILES, COMMANDS = blocks_of(
    "README.md", run_by="test_the_wheel_in_an_empty_folder_passes_the_readme"
)
SERVICE = {
    "workers/__init__.py": "",
    "workers/renewals.py": (
        "from dueledger import Completed, DueItem, Handlers, Verdict\n"
        "from ledger import OWN\n"
        "handlers = Handlers()\n"
        "@handlers.on('RenewalDue')\n"
        "async def renew(item: DueItem) -> Verdict:\n"
        "    return Completed({'own': OWN})\n"
    ),
    "ledger.py": "OWN = 'the service'\n",
}
# The wheel comes first on the path; an editable checkout behind it is found by nothing then.
WHERE = (
    "import dueledger.workers, workers, ledger; print(dueledger.workers.__file__, workers.__file__)"
)


Eventually = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]


def ran(command: list[str], folder: Path, **environment: str) -> str:
    done = subprocess.run(  # noqa: S603  # this interpreter
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files_of(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return sorted(archive.namelist())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    ran(["-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], ROOT)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def service(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a service, and the wheel unpacked in `site` beside it."""
    folder = tmp_path_factory.mktemp("service")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    for name, text in SERVICE.items():
        path = folder / "app" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def site_of(service: Path) -> str:
    return f"{service / 'site'}{os.pathsep}{sysconfig.get_path('purelib')}"


def in_service(service: Path, *command: str, **environment: str) -> str:
    return ran(list(command), service / "app", PYTHONPATH=site_of(service), **environment)


def test_the_top_level_of_the_wheel_is_dueledger_alone(wheel: Path) -> None:
    tops = {name.partition("/")[0] for name in files_of(wheel)}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"dueledger"}


def test_the_wheel_has_no_package_that_an_example_fetched(wheel: Path) -> None:
    assert [name for name in files_of(wheel) if "node_modules" in name] == []


def test_a_service_finds_its_own_packages_beside_the_wheels(service: Path) -> None:
    theirs, own = in_service(service, "-c", WHERE).split()
    assert Path(theirs).is_relative_to(service / "site")
    assert Path(own).is_relative_to(service / "app")


async def test_commands_work_from_the_wheel(
    service: Path, database: str, connection: Connection
) -> None:
    where = {"DUELEDGER_DSN": database}
    in_service(service, "-m", "dueledger", "migrate", "--json", **where)
    owed = ("--tenant", "acme", "--key", "P-1", "--effective-date", "2027-03-31")
    due = ("--kind", "RenewalDue", "--due-at", "2020-01-01")
    in_service(service, "-m", "dueledger", "emit", *owed, *due, **where)
    work = ("work", "--direct", "--once", "workers.renewals:handlers")
    in_service(service, "-m", "dueledger", *work, **where)
    assert await connection.fetchval("select count(*) from ledger.pending") == 0
    assert '"own"' in in_service(service, "-m", "dueledger", "show", "P-1", "--json", **where)


def test_the_wheel_of_the_sdist_has_the_files_of_the_trees(wheel: Path, tmp_path: Path) -> None:
    ran(["-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)], ROOT)
    [sdist] = tmp_path.glob("*.tar.gz")
    ran(["-m", "tarfile", "-e", str(sdist), str(tmp_path / "tree")], tmp_path)
    [tree] = (tmp_path / "tree").iterdir()
    ran(["-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)], tree)
    [rebuilt] = tmp_path.glob("*.whl")
    assert files_of(rebuilt) == files_of(wheel)


# The README.


@pytest.fixture(scope="module")
def postgres_16() -> Generator[str]:
    """A server of PostgreSQL 16, which is in the wheel of the embedded one."""
    binaries = find_binaries().parents[1] / "pginstall" / "bin"
    if not (binaries / "postgres").exists():
        pytest.skip("the wheel of the embedded server has no PostgreSQL 16")
    user = "nobody" if os.geteuid() == 0 else None
    with TemporaryDirectory() as folder:
        cluster = Path(folder) / "cluster"
        cluster.mkdir(mode=0o700)
        if user is not None:
            Path(folder).chmod(0o711)
            shutil.chown(cluster, user)

        def control(program: str, *arguments: str) -> None:
            subprocess.run(  # noqa: S603 - the server's own programs
                [binaries / program, "--pgdata", cluster, *arguments],
                cwd=folder,
                check=True,
                user=user,
                stdout=subprocess.DEVNULL,
            )

        control("initdb", "--username=postgres", "--auth=trust", "--no-sync", "--locale=C")
        port = free_ports.free()  # as late as possible: another program may take it
        settings = {
            "listen_addresses": free_ports.LOOPBACK,
            "unix_socket_directories": "",
            "port": port,
            "fsync": "off",
            "max_locks_per_transaction": 256,
        }
        given = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
        control("pg_ctl", "--wait", f"--log={cluster / 'log'}", f"--options={given}", "start")
        try:
            yield f"postgresql://postgres@{free_ports.LOOPBACK}:{port}/postgres"
        finally:
            control("pg_ctl", "--wait", "--mode=immediate", "stop")


async def run_readme(
    service: Path, folder: Path, dsn: str, bootstrap_servers: str, eventually: Eventually
) -> None:
    """Do what the README says, with the wheel, in an empty folder."""
    for block in FILES:
        (folder / block.how["file"]).write_text(block.text, encoding="utf-8")
    make_environment(folder / ".venv" / "bin")
    environment = {
        **os.environ,
        "DUELEDGER_DSN": dsn,
        "DUELEDGER_BOOTSTRAP_SERVERS": bootstrap_servers,
        "PYTHONPATH": os.pathsep.join([str(folder), site_of(service)]),
        "PYTHONSAFEPATH": "1",  # or the folder that pytest runs in would come first
    }
    where = "import dueledger.workers; print(dueledger.workers.__file__)"
    assert Path(ran(["-c", where], folder, **environment).strip()).is_relative_to(service / "site")
    ran(["-m", "dueledger", "migrate"], folder, **environment)
    async with (
        running(environment),
        open_connection(dsn, application_name="test") as connection,
        commands(folder, environment),
    ):

        async def completed() -> list[dict[str, Any]]:
            wanted = ItemListFilter(business_key="INV-1", state="Completed")
            return (await list_items(connection, wanted)).items

        [item] = await eventually(completed)
    assert (item["tenant"], item["kind"]) == ("acme", "ReminderDue")


def make_environment(folder: Path) -> None:
    """Make what an environment has, of which the wheel is on the path already."""
    folder.mkdir(parents=True)
    programs = {
        "activate": "PATH=$PWD/.venv/bin:$PATH",
        "python": f'exec "{sys.executable}" "$@"',
        "dueledger": f'exec "{sys.executable}" -m dueledger "$@"',
    }
    for name, line in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        (folder / name).chmod(0o755)


@asynccontextmanager
async def commands(folder: Path, environment: Mapping[str, str]) -> AsyncGenerator[None]:
    """Run the commands, of which one starts a worker; end the worker with the block."""
    shell = await asyncio.create_subprocess_exec(
        *("sh", "-e", "-c", COMMANDS.text),
        cwd=folder,
        env=environment,
        start_new_session=True,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    reading = asyncio.create_task(shell.communicate())
    try:
        yield
    finally:
        os.killpg(shell.pid, signal.SIGTERM)
        output, _ = await reading  # until the worker has ended, too
    assert shell.returncode == 0, output.decode()


@asynccontextmanager
async def running(environment: Mapping[str, str]) -> AsyncGenerator[None]:
    lines: list[str] = []

    def note(name: str, line: str) -> None:
        lines.append(f"{name} {line}")

    supervisor = Supervisor(note, note, environment=environment)
    try:
        await supervisor.start(ChildSpec("allocator", ("allocate",)))
        yield
    finally:
        killed = await supervisor.stop_all()
    assert killed == [], lines


async def test_the_wheel_in_an_empty_folder_passes_the_readme(
    service: Path, tmp_path: Path, database: str, stack: Endpoints, eventually: Eventually
) -> None:
    await run_readme(service, tmp_path, database, stack.bootstrap_servers, eventually)


@pytest.mark.full
async def test_the_wheel_in_an_empty_folder_passes_the_readme_on_postgresql_16(
    service: Path, tmp_path: Path, postgres_16: str, stack: Endpoints, eventually: Eventually
) -> None:
    async with open_connection(postgres_16, application_name="test") as connection:
        assert (await read_server_version(connection)).number // 10_000 == 16
    await run_readme(service, tmp_path, postgres_16, stack.bootstrap_servers, eventually)


def test_the_twenty_lines_are_about_twenty() -> None:
    code = [line for block in FILES for line in block.text.splitlines() if line.strip()]
    assert len(code) <= 20
