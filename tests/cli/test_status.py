"""One screen for what is late, for whom, and why; lists that say what they leave out."""

import asyncio
import json
import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, Final

import pytest
from rich.console import Console

from dueledger.cli.status import make_lines, make_screen
from dueledger.flow_status import make_status
from dueledger.hindrance_texts import TEXTS, Hindrance
from dueledger.ledger.store import Connection
from dueledger.ledger.store.processes import ProcessRole, RoleStatus
from tests.conftest import EVENTUALLY_SECONDS
from tests.forks import ForkServer
from tests.logins import with_login

from .conftest import Command
from .test_lists import emit

NOW: Final = datetime(2027, 3, 1, 12, tzinfo=UTC)
TOPIC: Final = "due.ReminderDue"
OWED: Final = ("--tenant", "acme", "--kind", "ReminderDue", "--effective-date", "2027-03-01")


@pytest.fixture
def dueledger_on(dueledger_on: Command, database: str) -> Command:
    """Run the commands under an auditor's login."""
    return partial(dueledger_on, DUELEDGER_DSN=with_login(database, "auditor"))


def of_flow(**changes: object) -> Mapping[str, Any]:
    """Return a flow as the ledger returns it, with nothing that hinders it."""
    counts = dict.fromkeys(("due", "blocked", "retrying", "parked", "claimed", "started"), 0)
    return {
        "tenant": "acme",
        "kind": "ReminderDue",
        "lane": "",
        "topic": TOPIC,
        **counts,
        **{f"{name}_capped": False for name in ("due", "blocked", "retrying", "parked")},
        "flows": 1,
        "all_due": 0,
        "all_due_capped": False,
        "all_parked": 0,
        "all_parked_capped": False,
        "oldest_due_at": None,
        "is_past_sla": None,
        "paused_at": None,
        "circuit": "closed",
        "concurrency_max": None,
        "tokens": None,
        "rate_per_second": None,
        "window_items": None,
        "settled_by": "worker",
        "dispatch": "kafka",
        "handed_out": 0,
        "running": 0,
        "granted": 1,
        "grants": 1,
        "outstanding": 0,
        "is_standby": False,
        "is_read_only": False,
        "silent_since": None,
        "stalled_since": None,
        **changes,
    }


ALIVE: Final = RoleStatus(live=1, kinds=["ReminderDue"])
GONE: Final = RoleStatus(gone=1)
SILENT: Final = RoleStatus(silent=1)
CUT_OFF: Final = RoleStatus(live=1, failing=1, failed_service="kafka", failing_since=NOW)
FAILING: Final = RoleStatus(live=1, failing=1, failure="NotPermitted: x", failing_since=NOW)
RUNNING: Final = dict.fromkeys(ProcessRole, RoleStatus()) | {
    ProcessRole.ALLOCATOR: ALIVE,
    ProcessRole.WORKER: ALIVE,
}


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        (Hindrance.PAUSED, {"due": 1, "paused_at": NOW, "allocator": GONE}),
        (Hindrance.READ_ONLY, {"due": 1, "is_standby": True, "allocator": GONE}),
        (Hindrance.READ_ONLY, {"due": 1, "is_read_only": True}),
        (Hindrance.NO_ALLOCATOR, {"due": 1, "allocator": GONE, "rate_per_second": 2.0}),
        (Hindrance.ALLOCATOR_SILENT, {"due": 1, "allocator": SILENT}),
        (Hindrance.KAFKA_DOWN, {"due": 1, "allocator": CUT_OFF}),
        (Hindrance.CLAIMS_FAIL, {"due": 1, "allocator": FAILING}),
        (Hindrance.NO_DIRECT_WORKER, {"due": 1, "dispatch": "direct"}),
        (
            Hindrance.DIRECT_WORKER_SILENT,
            {"due": 1, "dispatch": "direct", "direct_worker": SILENT},
        ),
        (
            Hindrance.NO_DIRECT_HANDLER,
            {"due": 1, "dispatch": "direct", "direct_worker": RoleStatus(live=1)},
        ),
        (Hindrance.CIRCUIT_OPEN, {"due": 1, "circuit": "open"}),
        (Hindrance.CIRCUIT_PROBING, {"due": 1, "circuit": "half_open"}),
        (Hindrance.CONCURRENCY, {"due": 1, "concurrency_max": 3, "handed_out": 2, "running": 1}),
        (Hindrance.RATE, {"due": 1, "rate_per_second": 2.0, "tokens": 0.5}),
        (Hindrance.WINDOW, {"due": 1, "window_items": 2, "handed_out": 2}),
        (
            Hindrance.WINDOW,
            {"due": 1, "window_items": 2, "handed_out": 1, "running": 1, "settled_by": "topic"},
        ),
        (
            Hindrance.SILENT_CONSUMER,
            {"due": 1, "silent_since": NOW, "handed_out": 1, "settled_by": "topic"},
        ),
        (
            Hindrance.TOPIC_UNAVAILABLE,
            {"due": 1, "allocator": RoleStatus(live=1, unavailable_topics={TOPIC: "x"})},
        ),
        (Hindrance.NO_WORKER, {"due": 1, "grants": 0, "worker": GONE}),
        (Hindrance.WORKER_SILENT, {"due": 1, "grants": 0, "worker": SILENT}),
        (Hindrance.NO_HANDLER, {"due": 1, "grants": 0, "worker": RoleStatus(live=1)}),
        (Hindrance.NO_WORKER, {"claimed": 1, "worker": GONE}),
        (Hindrance.NOT_STARTED, {"claimed": 1, "worker": GONE, "direct_worker": ALIVE}),
        (Hindrance.JOINING, {"due": 1, "grants": 0}),
        (Hindrance.KAFKA_DOWN, {"due": 1, "grants": 0, "worker": CUT_OFF}),
        (Hindrance.NO_CREDIT, {"due": 1, "outstanding": 1}),
        (Hindrance.NOT_CLAIMED, {"due": 1}),
        (Hindrance.NOT_CLAIMED, {"due": 1, "grants": 0, "direct_worker": ALIVE}),
        (Hindrance.NOT_CLAIMED, {"due": 1, "grants": 0, "settled_by": "topic"}),
        (Hindrance.PARTITION_STALLED, {"claimed": 1, "stalled_since": NOW, "blocked": 1}),
        (Hindrance.BEHIND, {"blocked": 1, "retrying": 1}),
        (Hindrance.RETRY, {"retrying": 1, "parked": 1}),
        (Hindrance.PARKED, {"parked": 1, "claimed": 1}),
        (Hindrance.NOT_STARTED, {"claimed": 1, "started": 1}),
        (Hindrance.RUNNING, {"started": 1}),
    ],
)
def test_flows_are_grouped_by_what_hinders_them(code: Hindrance, changes: dict[str, Any]) -> None:
    roles = {role: changes.pop(role, status) for role, status in RUNNING.items()}
    status = make_status(NOW, [of_flow(**changes)], roles)
    [group] = status.groups
    assert group.code == code
    [shown] = json.loads(json.dumps(status.document(), default=str))["groups"]
    assert (shown["code"], shown["sentence"]) == (code.value, TEXTS[code].of_flow)


def screen(*flows: Mapping[str, Any]) -> list[str]:
    text = StringIO()
    console = Console(file=text, width=80, color_system=None)
    console.print(make_screen(make_status(NOW, flows, RUNNING), console))
    return text.getvalue().splitlines()


def test_the_screen_fits_eighty_columns_and_has_each_group_once() -> None:
    oldest = datetime(2025, 1, 1, tzinfo=UTC)
    full = dict.fromkeys(("due", "blocked", "retrying", "parked"), 10000)
    capped = {f"{name}_capped": True for name in full}
    late = {"oldest_due_at": oldest, "is_past_sla": True, "started": None, "flows": 3}
    totals = {"all_due": 20_000, "all_due_capped": True, "all_parked": 1}
    lines = screen(
        of_flow(**full, **capped, **late, **totals, lane="north-rhine-westphalia", paused_at=NOW),
        of_flow(due=1, grants=0),
        of_flow(due=2, paused_at=NOW, tenant="umbra"),
    )
    assert max(map(len, lines)) <= 80
    assert lines[0].endswith("20,000+ due, 1 parked, in 3 flows")
    assert sum(line.startswith("PAUSED ") for line in lines) == 1
    [row] = [line for line in lines if "10,000+" in line and "parked," not in line]
    oldest_words = ("789", "d", "12", "h", "!")
    assert row.split()[-10:] == ["10,000+", *oldest_words, "10,000+", "many", *["10,000+"] * 2]
    assert "! past its SLA" in lines
    assert screen()[0].endswith("no flow has open items")


def test_a_screen_that_is_cut_says_so() -> None:
    assert "1 of 7 flows (--limit)" in screen(of_flow(due=1, flows=7))[0]


def test_lines_are_one_a_flow() -> None:
    status = make_status(
        NOW, [of_flow(due=1, oldest_due_at=NOW), of_flow(parked=2, lane="eu")], RUNNING
    )
    _, processes, first, second = make_lines(status)
    assert processes == "processes: allocator 1 live; worker 1 live"
    assert first == (
        "12:00:00  NOT_CLAIMED  acme ReminderDue: due 1 (the oldest for 0 s), blocked 0, "
        "running 0, retrying 0, parked 0"
    )
    assert "PARKED  acme ReminderDue eu: due 0, " in second


def test_a_role_that_cannot_take_work_has_a_line_with_since_when_and_why() -> None:
    roles = RUNNING | {ProcessRole.ALLOCATOR: replace(CUT_OFF, silent=2, failure="Unavailable: x")}
    status = make_status(NOW, [of_flow(due=1)], roles)
    assert make_lines(status)[1:3] == [
        "processes: allocator 1 live, 2 silent; worker 1 live",
        "! 1 of 1 allocators cannot take work since 2027-03-01 12:00:00 UTC: Unavailable: x",
    ]
    assert json.loads(json.dumps(status.document(), default=str))["processes"][0] == {
        "role": "allocator",
        "live": 1,
        "silent": 2,
        "gone": 0,
        "failing": 1,
        "failing_since": str(NOW),
        "failed_service": "kafka",
        "failure": "Unavailable: x",
    }


async def test_the_status_counts_what_is_due_and_says_since_when(
    dueledger_on: Command, connection: Connection
) -> None:
    await emit(connection, 3)
    await emit(connection, 2, "eu")
    await connection.execute(
        "update ledger.flow set paused_at = now(), pause_reason = 'x',"
        " paused_by = (select min(actor_no) from ledger.actor) where lane = 'eu'"
    )
    document = dueledger_on("status", "--json").document
    assert (document["flows"], document["due"], document["due_capped"]) == (2, 5, False)
    groups = {group["code"]: group["flows"] for group in document["groups"]}
    assert set(groups) == {"NO_ALLOCATOR", "PAUSED"}
    [paused] = groups["PAUSED"]
    assert (paused["lane"], paused["due"], paused["is_past_sla"]) == ("eu", 2, True)
    assert paused["oldest_due_at"] == "2026-01-01T00:00:00Z"
    only = dueledger_on("status", "--lane", "eu", "--json").document
    assert [group["code"] for group in only["groups"]] == ["PAUSED"]
    cut = dueledger_on("status", "--limit", "1")
    assert "1 of 2 flows" in cut.out


async def test_watching_writes_lines_into_a_pipe_until_it_is_interrupted(
    fork_server: ForkServer, database: str, connection: Connection, tmp_path: Path
) -> None:
    await emit(connection, 1)
    process = await fork_server.start(
        *("-m", "dueledger", "status", "--watch"),
        env={**os.environ, "DUELEDGER_DSN": with_login(database, "auditor")},
        cwd=tmp_path,
        pipe="stdout",
    )
    assert process.piped is not None
    try:
        async with asyncio.timeout(EVENTUALLY_SECONDS):
            assert b"1 due, 0 parked, in 1 flow" in await process.piped.readline()
            assert await process.piped.readline() == b"processes: none\n"
            assert b"NO_ALLOCATOR  acme ReminderDue: due 1 " in await process.piped.readline()
            await emit(connection, 2)
            while b"2 due, " not in await process.piped.readline():
                pass
            process.send_signal(signal.SIGINT)
            await process.piped.read()
            assert await process.wait() == 130
    finally:
        process.kill()


async def test_an_item_emitted_long_after_it_was_due_is_as_old_as_its_due_time(
    dueledger_on: Command, connection: Connection
) -> None:
    await emit(connection, 1)
    await connection.execute("update ledger.pending set available_at = now() - interval '1 s'")
    [group] = dueledger_on("status", "--json").document["groups"]
    assert group["flows"][0]["oldest_due_at"] == "2026-01-01T00:00:00Z"


async def test_a_count_that_stopped_is_marked_on_the_screen(
    dueledger_on: Command, connection: Connection
) -> None:
    await emit(connection, 10_001)
    [group] = dueledger_on("status", "--json").document["groups"]
    assert (group["flows"][0]["due"], group["flows"][0]["due_capped"]) == (10_000, True)
    assert " 10,000+ " in dueledger_on("status").out
