"""Commands with arguments and files that mean harm: refused with a reason, or done.

A refused one has changed nothing.
"""

import os
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Final

import pytest

from dueledger.ledger.identity import item_id
from dueledger.ledger.store import Connection
from dueledger.stack import Endpoints
from tests.fuzz.hostile_inputs import HostileInputs, encoded
from tests.fuzz.test_doors import (
    CRONJOB,
    CRONTAB,
    DEFINITIONS,
    EVENT,
    SECONDS_MAX,
    SECRET,
    SOURCES,
    calendar_file,
    inputs_of,
    numbers,
)
from tests.hostile_text import unsafe_characters

from .conftest import Given, Ran, RunAll

PENDING: Final = str(item_id("acme", "K", "P-1", "", date(2027, 3, 1)))
PARKED: Final = str(item_id("acme", "K", "P-3", "", date(2027, 3, 1)))
DUE: Final = ("--effective-date", "2027-03-01", "--due-at", "2027-03-01")
WEEKEND: Final = ("--weekend", "sat,sun", "--valid-to", "2027-12-31")
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
    ("items", "--late", "--due-before", "2027-03-01", "--label", "service=billing"),
    ("status", "--tenant", "acme", "--kind", "K", "--lane", "eu", "--limit", "3"),
    ("show", "P-1"),
    ("why", "P-1"),
    ("reviews", "--limit", "10"),
    ("park", PENDING, PARKED, "--reason", "because"),
    ("redrive", PARKED, PENDING, "--reason", "because"),
    ("write-off", PARKED, PENDING, "--reason", "because"),
    ("cancel", "--business-key", "P-9", "--tenant", "acme", "--reason", "because"),
    ("redrive", "--tenant", "acme", "--kind", "K", "--error", "E", "--reason", "because"),
    ("write-off", "--tenant", "acme", "--since", "2027-01-01", "--reason", "because"),
    ("operation", "show", "1"),
    ("operation", "pause", "1", "--reason", "because"),
    ("operation", "resume", "1", "--reason", "because"),
    ("operation", "abort", "1", "--reason", "because"),
    ("rejected", "--limit", "10"),
    ("migrate", "--cell", "0"),
    ("grant", "emitter", "TO", "nobody-of-this-name", "--tenant", "acme"),
    ("revoke", "emitter", "FROM", "nobody-of-this-name"),
    ("drain", "worker:host:1:abcd", "--reason", "because"),
    ("pause", "acme", "K", "--lane", "l", "--reason", "because"),
    ("resume", "acme", "K", "--lane", "l"),
    ("trigger", "nightly-close", "--tenant", "acme", "--cycle", "1", "--reason", "because"),
    ("snooze", PENDING, "--until", "2199-01-01", "--reason", "because"),
    ("failing", "--tenant", "acme", "--kind", "K", "--failures", "1"),
    ("flow", "list", "--tenant", "acme", "--kind", "K", "--lane", "l"),
    ("flow", "show", "acme", "K", "--lane", "l"),
    ("flow", "set", "acme", "K", "--lane", "l", "--rate", "5", "--weight", "1", "--circuit", "0.5"),
    ("findings", "--tenant", "acme", "--type", "MISSING", "--limit", "10"),
    ("finding", "show", PENDING),
    ("finding", "explain", PENDING, "--reason", "because"),
    ("repair", "approve", PENDING, "--reason", "because"),
    ("repair", "list", "--tenant", "acme", "--kind", "K"),
    ("definitions", "nightly-close", "--tenant", "acme"),
    ("define", "definition", "--effective-from", "2027-01-01"),
    ("define", "definition", "--dry-run"),
    ("define", "definition", "--prune", "s"),
    ("preview", "definition", "--from", "2027-01-01", "--to", "2027-01-03", "--count", "3"),
    ("preview", "definition", "--event", "event", "--effective-date", "2027-03-01"),
    ("plan", "--from", "2027-01-01", "--to", "2027-01-02", "--smear", "PT1M"),
    ("calendar", "import", "us", "days.ics", *WEEKEND, "--tenant", "acme"),
    ("calendar", "import", "us", "days.csv", *WEEKEND, "--tenant", "acme"),
    ("calendar", "import", "us", "days.json", "--tenant", "acme"),
    ("calendar", "list"),
    ("calendar", "show", "us", "--tenant", "acme", "--version", "1"),
    ("import", "crontab", "crontab", "--timezone", "UTC"),
    ("import", "kubernetes", "job", "--anchor", "2026-01-01", "--timezone", "UTC"),
    ("import", "eventbridge", "job", "--anchor", "2026-01-01", "--source", "s"),
    ("import", "quartz", "job", "--dialect", "quartz", "--timezone", "UTC"),
    ("import", "systemd", "crontab", "--timezone", "UTC"),
    ("reconcile", "--once", "--sources", "sources"),
    ("repair", "--sources", "sources"),
    ("materialise", "--once"),
    ("materialise", "--check-tz", "--from", "2027-01-01"),
)


FILES: Final[dict[str, Callable[[HostileInputs], bytes]]] = {
    "definition": lambda inputs: inputs.document(DEFINITIONS),
    "event": lambda inputs: inputs.document([EVENT]),
    "crontab": lambda inputs: inputs.damaged(CRONTAB),
    "job": lambda inputs: inputs.document([CRONJOB]),
    "sources": lambda inputs: inputs.document([SOURCES]),
    "days.csv": lambda inputs: calendar_file(inputs, "days.csv"),
    "days.ics": lambda inputs: calendar_file(inputs, "days.ics"),
    "days.json": lambda inputs: calendar_file(inputs, "days.json"),
}
KEPT: Final = frozenset({"actor", "rejected_write"})
"""What a refusal may add: who asked, and what was refused."""

PARTLY: Final = re.compile(r"(\d+) of (\d+) were refused")

NIGHTLY_CLOSE: Final = DEFINITIONS[1] | {"definition": "nightly-close", "tenant": "acme"}
SEEDS: Final[tuple[tuple[str, ...], ...]] = (
    *(("emit", "--tenant", "acme", "--kind", "K", "--key", key, *DUE) for key in ("P-1", "P-3")),
    ("define", "nightly", "--effective-from", "2027-01-01"),
    ("calendar", "import", "us", "us.csv", *WEEKEND, "--tenant", "acme"),
)
PARK: Final = """
insert into ledger.review
  (item_no, effective_date, flow_no, parked_at, attempt, starts, reason, actor_no)
select i.item_no, i.effective_date, i.flow_no, now(), 1, 1, 'because', i.actor_no
from ledger.due_item i where i.business_key = 'P-3';
delete from ledger.pending p using ledger.review r where p.item_no = r.item_no;
"""
"""Ends the attempts of an item that has not begun: its item_check is not what is tested."""


def _given(inputs: HostileInputs, folder: Path) -> Given:
    """Return a command, some of its arguments hostile, with the hostile files that it names."""
    command = list(inputs.random.choice(COMMANDS))
    for name in (name for name in FILES if name in command):
        folder.mkdir(exist_ok=True)
        _write(inputs, folder / name, FILES[name](inputs))
    words = 2 if command[0] in {"flow", "calendar", "import"} else 1
    for _ in range(inputs.random.randrange(3)):
        places = [
            place for place, text in enumerate(command) if place >= words and text[:2] != "--"
        ]
        if places:
            command[inputs.random.choice(places)] = inputs.argument()
    as_json = ["--json"] * inputs.random.randrange(2)
    return Given([*command, *as_json], {}, folder if folder.exists() else folder.parent)


def _write(inputs: HostileInputs, path: Path, content: bytes) -> None:
    """Make a file, or what is none."""
    match inputs.random.randrange(20):
        case 0:
            os.mkfifo(path)
        case 1:
            path.symlink_to("/dev/zero")
        case 2:
            path.mkdir()
        case 3:
            path.symlink_to(path)
        case _:
            path.write_bytes(content)


def _fault(ran: Ran, *, as_json: bool) -> str | None:
    shown = ran.out + ran.err
    if ran.code not in {0, 1, 2, 3, 4} or "Traceback" in shown:
        return f"{ran.code}: {shown[-1_000:]}"
    if unsafe := unsafe_characters(shown):
        return f"shows {unsafe}"
    if SECRET in shown:
        return "shows a secret"
    partly = PARTLY.search(shown)  # each item has a result of its own
    is_refused = ran.code in {1, 2, 3} and (partly is None or partly[1] == partly[2])
    if is_refused and not KEPT.issuperset(ran.changed):
        return f"{ran.code}, but changed {ran.changed}: {shown[-1_000:]}"
    if not (shown or as_json):  # an empty list has no lines
        return "shows nothing"
    return f"took {ran.cpu_seconds:.2f} s" if ran.cpu_seconds > SECONDS_MAX else None


@pytest.mark.parametrize("count", [30, pytest.param(3_000, marks=pytest.mark.full)])
async def test_a_command_refuses_and_changes_nothing_or_does_what_it_is_given(
    run_all: RunAll,
    database: str,
    connection: Connection,
    stack: Endpoints,
    tmp_path: Path,
    count: int,
) -> None:
    servers = {"DUELEDGER_DSN": database, "DUELEDGER_BOOTSTRAP_SERVERS": stack.bootstrap_servers}
    (tmp_path / "nightly").write_bytes(encoded(NIGHTLY_CLOSE))
    (tmp_path / "us.csv").write_text("date\n2027-01-01\n")
    seeded = run_all([Given(seed, servers, tmp_path) for seed in SEEDS])
    assert [ran.err for ran in seeded if ran.code] == []
    await connection.execute(PARK)
    given = [
        replace(_given(inputs_of("command", number), tmp_path / str(number)), variables=servers)
        for number in numbers(count)
    ]
    faults = {
        number: (one.arguments, fault)
        for number, one, ran in zip(numbers(count), given, run_all(given, database), strict=True)
        if (fault := _fault(ran, as_json="--json" in one.arguments))
    }
    assert faults == {}
