"""Commands with arguments and files that mean harm: refused with a reason, or done."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.fuzz.hostile_inputs import HostileInputs
from tests.fuzz.test_doors import COUNTS, CRONJOB, CRONTAB, DEFINITIONS, EVENT, SOURCES
from tests.hostile_text import unsafe_characters

Command = Callable[..., Any]

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


def _files(inputs: HostileInputs) -> Iterator[tuple[str, bytes]]:
    yield "definition", inputs.document(DEFINITIONS)
    yield "event", inputs.document([EVENT])
    yield "crontab", inputs.damaged(CRONTAB)
    yield "job", inputs.document([CRONJOB])
    yield "sources", inputs.document([SOURCES])


def _arguments(inputs: HostileInputs) -> tuple[str, ...]:
    command = list(inputs.random.choice(COMMANDS))
    words = 2 if command[0] in {"flow", "calendar", "import"} else 1
    for _ in range(inputs.random.randrange(3)):
        places = [
            place for place, text in enumerate(command) if place >= words and text[:2] != "--"
        ]
        if places:
            command[inputs.random.choice(places)] = inputs.argument()
    return tuple(command)


@pytest.mark.parametrize("count", COUNTS)
def test_a_command_refuses_or_does_what_it_is_given(
    dueledger_on: Command, tmp_path: Path, count: int
) -> None:
    faults: dict[int, object] = {}
    only = os.environ.get("DUELEDGER_FUZZ_ONLY")
    for number in range(count) if only is None else (int(only),):
        inputs = HostileInputs(number)
        for name, content in _files(inputs):
            (tmp_path / name).write_bytes(content)
        command = _arguments(inputs)
        as_json = ("--json",) if inputs.random.randrange(2) else ()
        ran = dueledger_on(*command, *as_json)
        shown = ran.out + ran.err
        if ran.code not in {0, 1, 2, 3, 4} or "Traceback" in shown:
            faults[number] = (command, ran.code, shown[-1_000:])
        elif unsafe := unsafe_characters(shown):
            faults[number] = (command, unsafe)
        elif "hunter2" in shown or not (shown or as_json):  # an empty list has no lines
            faults[number] = (command, "shows a secret, or nothing")
    assert faults == {}
