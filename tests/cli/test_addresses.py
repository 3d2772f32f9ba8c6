"""Where the address of Postgres may be given, and what is shown of its password."""

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from .conftest import Command, Given, RunAll

WARNING: Final = "warning: --dsn has a password"
NOWHERE: Final = "postgresql://127.0.0.1:1/x"


def test_a_file_names_the_address_for_every_command(
    run_all: RunAll, database: str, tmp_path: Path
) -> None:
    (tmp_path / "dsn").write_text(database + "\n")
    variables = {"DUELEDGER_DSN_FILE": str(tmp_path / "dsn")}
    commands = (("items", "--json"), ("doctor", "--json"), ("reconcile", "--once", "--json"))
    for ran in run_all([Given(command, variables, tmp_path) for command in commands]):
        assert "Postgres cannot be used" not in ran.out + ran.err
        assert "DUELEDGER_DSN" not in ran.out + ran.err
    overruled = variables | {"DUELEDGER_DSN": NOWHERE}
    for ran in run_all([Given(command, overruled, tmp_path) for command in commands]):
        assert "Postgres cannot be used" in ran.out + ran.err


def test_a_file_without_an_address_is_refused_and_not_shown(
    run_all: RunAll, tmp_path: Path
) -> None:
    contents = (None, b"", b"\xff", b"hunter2 twice", b"x" * 100_000)
    given: list[Given] = []
    for number, content in enumerate(contents):
        file = tmp_path / f"dsn{number}"
        if content is not None:
            file.write_bytes(content)
        variables = {"DUELEDGER_DSN_FILE": str(file)}
        given += [Given((name, "--json"), variables, tmp_path) for name in ("items", "reconcile")]
    for ran in run_all(given):
        assert (ran.code, ran.document["error"]["code"]) == (2, "INVALID_SETTING")
        assert ran.document["error"]["details"]["problems"][0]["field"] == "DUELEDGER_DSN_FILE"
        assert "hunter2" not in ran.out + ran.err


def test_a_service_of_libpq_names_the_address(
    dueledger: Command, database: str, tmp_path: Path
) -> None:
    parts = urlsplit(database)
    lines = {
        "host": parts.hostname,
        "port": parts.port,
        "user": parts.username,
        "password": parts.password,
        "dbname": parts.path[1:],
    }
    shown = "".join(f"{name}={value}\n" for name, value in lines.items() if value is not None)
    (tmp_path / "services").write_text(f"[ledger]\n{shown}")
    variables = {"PGSERVICEFILE": str(tmp_path / "services")}
    ran = dueledger("items", "--json", "--dsn", "postgresql://?service=ledger", **variables)
    assert (ran.code, ran.err) == (0, "")


def test_a_password_on_the_command_line_is_warned_of_and_not_repeated(
    run_all: RunAll, tmp_path: Path
) -> None:
    warned = {
        "postgresql://u:hunter2@127.0.0.1:1/x": True,
        "postgresql://127.0.0.1:1/x?user=u&password=hunter2": True,
        "postgresql://u@127.0.0.1:1/x": False,
        NOWHERE: False,
    }
    ran = run_all([Given(("items", "--dsn", dsn), {}, tmp_path) for dsn in warned])
    assert [WARNING in one.err for one in ran] == list(warned.values())
    assert "hunter2" not in str(ran)
