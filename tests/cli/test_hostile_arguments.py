"""Commands with arguments and files that mean harm: refused with a reason, or done."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from dueledger.stack import Endpoints
from tests.fuzz.hostile_inputs import HostileInputs
from tests.fuzz.test_doors import (
    CRONJOB,
    CRONTAB,
    DEFINITIONS,
    EVENT,
    SECONDS_MAX,
    SECRET,
    SOURCES,
    inputs_of,
    numbers,
)
from tests.hostile_text import unsafe_characters

from .conftest import Given, Ran, RunAll

ID: Final = "0190a5d6-2f0c-8a3e-9d1b-6d3f1f2a4b5c"
DUE: Final = ("--effective-date", "2027-03-01", "--due-at", "2027-03-01")
COMMANDS: Final[tuple[tuple[str, ...], ...]] = (
    ("emit", "--tenant", "acme", "--kind", "K", "--key", "P-1", *DUE, "--payload", "{}"),
    (
        "emit",
        "--tenant",
        "acme",
        "--kind",
        "K",
        "--key",
        "P-2",
        *DUE,
        "--cycle",
        "1",
        "--lane",
        "l",
    ),
    ("items", "--tenant", "acme", "--kind", "K", "--key", "P-1", "--state", "Scheduled"),
    ("show", "P-1"),
    ("why", "P-1"),
    ("reviews", "--limit", "10"),
    ("park", ID, "--reason", "because"),
    ("write-off", ID, "--reason", "because"),
    ("pause", "acme", "K", "--lane", "l", "--reason", "because"),
    ("resume", "acme", "K", "--lane", "l"),
    ("trigger", "nightly-close", "--tenant", "acme", "--cycle", "1", "--reason", "because"),
    ("failing", "--tenant", "acme", "--kind", "K", "--failures", "1"),
    ("flow", "list", "--tenant", "acme", "--kind", "K", "--lane", "l"),
    ("flow", "show", "acme", "K", "--lane", "l"),
    ("flow", "set", "acme", "K", "--lane", "l", "--rate", "5", "--weight", "1", "--circuit", "0.5"),
    ("findings", "--tenant", "acme", "--type", "MISSING", "--limit", "10"),
    ("definitions", "nightly-close", "--tenant", "acme"),
    ("define", "definition", "--effective-from", "2027-01-01"),
    ("define", "definition", "--dry-run"),
    ("preview", "definition", "--from", "2027-01-01", "--to", "2027-01-03", "--count", "3"),
    ("preview", "definition", "--event", "event", "--effective-date", "2027-03-01"),
    ("plan", "--from", "2027-01-01", "--to", "2027-01-02", "--smear", "PT1M"),
    ("calendar", "show", "us", "--tenant", "acme", "--version", "1"),
    ("import", "crontab", "crontab", "--timezone", "UTC"),
    ("import", "kubernetes", "job", "--anchor", "2026-01-01", "--timezone", "UTC"),
    ("reconcile", "--once", "--sources", "sources"),
    ("materialise", "--check-tz", "--from", "2027-01-01"),
)


FILES: Final[dict[str, Callable[[HostileInputs], bytes]]] = {
    "definition": lambda inputs: inputs.document(DEFINITIONS),
    "event": lambda inputs: inputs.document([EVENT]),
    "crontab": lambda inputs: inputs.damaged(CRONTAB),
    "job": lambda inputs: inputs.document([CRONJOB]),
    "sources": lambda inputs: inputs.document([SOURCES]),
}


def _given(inputs: HostileInputs, folder: Path) -> Given:
    """Return a command, some of its arguments hostile, with the hostile files that it names."""
    command = list(inputs.random.choice(COMMANDS))
    for name in (name for name in FILES if name in command):
        folder.mkdir(exist_ok=True)
        (folder / name).write_bytes(FILES[name](inputs))
    words = 2 if command[0] in {"flow", "calendar", "import"} else 1
    for _ in range(inputs.random.randrange(3)):
        places = [
            place for place, text in enumerate(command) if place >= words and text[:2] != "--"
        ]
        if places:
            command[inputs.random.choice(places)] = inputs.argument()
    as_json = ["--json"] * inputs.random.randrange(2)
    return Given([*command, *as_json], {}, folder if folder.exists() else folder.parent)


def _fault(ran: Ran, *, as_json: bool) -> str | None:
    shown = ran.out + ran.err
    if ran.code not in {0, 1, 2, 3, 4} or "Traceback" in shown:
        return f"{ran.code}: {shown[-1_000:]}"
    if unsafe := unsafe_characters(shown):
        return f"shows {unsafe}"
    if SECRET in shown:
        return "shows a secret"
    if not (shown or as_json):  # an empty list has no lines
        return "shows nothing"
    return f"took {ran.cpu_seconds:.2f} s" if ran.cpu_seconds > SECONDS_MAX else None


@pytest.mark.parametrize("count", [30, pytest.param(3_000, marks=pytest.mark.full)])
def test_a_command_refuses_or_does_what_it_is_given(
    run_all: RunAll, database: str, stack: Endpoints, tmp_path: Path, count: int
) -> None:
    servers = {"DUELEDGER_DSN": database, "DUELEDGER_BOOTSTRAP_SERVERS": stack.bootstrap_servers}
    given = [
        replace(_given(inputs_of("command", number), tmp_path / str(number)), variables=servers)
        for number in numbers(count)
    ]
    faults = {
        number: (one.arguments, fault)
        for number, one, ran in zip(numbers(count), given, run_all(given), strict=True)
        if (fault := _fault(ran, as_json="--json" in one.arguments))
    }
    assert faults == {}
