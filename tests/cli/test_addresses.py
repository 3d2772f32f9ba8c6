"""Where the address of Postgres may be given, and what is shown of its password."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

Command = Callable[..., Any]

WARNING = "warning: --dsn has a password"


@pytest.mark.parametrize("command", [("items",), ("doctor",), ("reconcile", "--once")])
def test_a_file_names_the_address_for_every_command(
    dueledger: Command, database: str, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "dsn").write_text(database + "\n")
    variables = {"DUELEDGER_DSN_FILE": str(tmp_path / "dsn")}
    ran = dueledger(*command, "--json", **variables)
    assert "Postgres cannot be used" not in ran.out + ran.err
    assert "DUELEDGER_DSN" not in ran.out + ran.err
    nowhere = dueledger(*command, "--json", DUELEDGER_DSN="postgresql://127.0.0.1:1/x", **variables)
    assert "Postgres cannot be used" in nowhere.out + nowhere.err


@pytest.mark.parametrize("content", [None, b"", b"\xff", b"hunter2 twice", b"x" * 100_000])
@pytest.mark.parametrize("command", ["items", "reconcile"])
def test_a_file_without_an_address_is_refused_and_not_shown(
    dueledger: Command, tmp_path: Path, content: bytes | None, command: str
) -> None:
    file = tmp_path / "dsn"
    if content is not None:
        file.write_bytes(content)
    ran = dueledger(command, "--json", DUELEDGER_DSN_FILE=str(file))
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


@pytest.mark.parametrize(
    ("dsn", "warned"),
    [
        ("postgresql://u:hunter2@127.0.0.1:1/x", True),
        ("postgresql://127.0.0.1:1/x?user=u&password=hunter2", True),
        ("postgresql://u@127.0.0.1:1/x", False),
        ("postgresql://127.0.0.1:1/x", False),
    ],
)
def test_a_password_on_the_command_line_is_warned_of_and_not_repeated(
    dueledger: Command, dsn: str, *, warned: bool
) -> None:
    ran = dueledger("items", "--dsn", dsn)
    assert (WARNING in ran.err) is warned
    assert "hunter2" not in ran.out + ran.err
