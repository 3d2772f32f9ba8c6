"""The built wheel, unpacked beside a service that has packages called `workers` and `ledger`."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from dueledger.ledger.store import Connection

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
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


def in_service(service: Path, *command: str, **environment: str) -> str:
    site = f"{service / 'site'}{os.pathsep}{sysconfig.get_path('purelib')}"
    return ran(list(command), service / "app", PYTHONPATH=site, **environment)


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
