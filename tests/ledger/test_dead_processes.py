"""What processes without their lock leave behind is ended: theirs alone, and only what is open."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import pytest

from dueledger.ledger.store import connect
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.clock import set_machine_clock
from dueledger.ledger.store.processes import end_deadlines, end_leases

from .conftest import Ledger
from .row_copies import copy_row

pytestmark = pytest.mark.damages  # the copies say of one item that it is in several places

SECOND = timedelta(seconds=1)
GONE: dict[str, object] = {"yields": True, "locked_on": "started", "unlocked_at": -4.0}
PROCESSES: dict[str, dict[str, object]] = {
    "alive": GONE,  # it has its lock
    "dead": GONE,
    "not asked": GONE,
    "a moment ago": GONE | {"unlocked_at": -3.9},
    "elsewhere": GONE | {"locked_on": "before"},
    "ended": GONE | {"ended_at": 0.0},
    "in threads": GONE | {"yields": False},
}
INSERT = """
    insert into ledger.process (process_no, role, host, version, started_at, seen_at, ended_at,
      locked_on, unlocked_at, yields)
    values ($1, 'worker', 'host', '1', $2, $2, $3,
      pg_postmaster_start_time() - make_interval(secs => $4), $5, $6)
"""
TAKE = "select pg_advisory_lock(k.class, k.key) from ledger.process_key($1) k"


async def _processes(ledger: Ledger, noon: datetime) -> dict[str, int]:
    """Make the processes; return the number of each."""
    numbers: dict[str, int] = {}
    for name, state in PROCESSES.items():
        number = await register_actor(ledger.connection, f"worker:{name}", ActorKind.WORKER)
        ended = noon if "ended_at" in state else None
        before = 3_600.0 if state["locked_on"] == "before" else 0.0
        unlocked = noon + timedelta(seconds=float(str(state["unlocked_at"])))
        columns = (number, noon - 20 * SECOND, ended, before, unlocked, state["yields"])
        await ledger.connection.execute(INSERT, *columns)
        numbers[name] = number
    await ledger.connection.execute(TAKE, numbers["alive"])
    await ledger.connection.execute("set lock_timeout = '1s'")
    return numbers


async def _begin(ledger: Ledger, noon: datetime) -> dict[str, int]:
    await ledger.emit()
    await ledger.start((await ledger.claim()).fence, lease_seconds=3_600)
    await set_machine_clock(ledger.connection, noon, 0)
    return await _processes(ledger, noon)


def _asked(numbers: Mapping[str, int]) -> list[int]:
    return [number for name, number in numbers.items() if name != "not asked"]


@asynccontextmanager
async def _locked(database: str, rows: str) -> AsyncGenerator[None]:
    """Lock rows in another session for the block."""
    rival = await connect(database, application_name="rival")
    async with rival.transaction():
        await rival.execute(f"{rows} for update")
        yield
    await rival.close()


async def test_g5_deadlines_of_open_unpublished_claims_of_dead_processes_end(
    ledger: Ledger, noon: datetime, database: str
) -> None:
    numbers = await _begin(ledger, noon)
    at = await ledger.connection.fetchval("select min(claimed_at) from ledger.claim")
    common: dict[str, object] = {"published_at": None, "closed_at": None, "started": 0}
    common |= {"claimed_at": at, "deadline": noon + SECOND, "allocator_no": numbers["dead"]}
    alive = {"allocator_no": numbers["alive"]}
    claims: list[dict[str, object]] = [
        {"fence": 1001},
        {"fence": 1001, "claimed_at": at + SECOND, **alive},  # as before a restore
        {"fence": 1002, "closed_at": noon, "deadline": noon + SECOND / 2},
        {"fence": 1003, "published_at": noon, "deadline": noon + SECOND / 2},
        {"fence": 1004, "deadline": noon},
        {"fence": 1005, "deadline": noon + 2 * SECOND},
        *(
            {"fence": 2000 + number, "allocator_no": number}
            for name, number in numbers.items()
            if name not in {"dead", "in threads"}
        ),
    ]
    for claim in claims:
        await copy_row(ledger, "claim", **{**common, **claim})
    changed = "select fence from ledger.claim where deadline = $1 and fence <> 1004 order by fence"
    async with _locked(database, "select from ledger.claim where fence in (1001, 1005)"):
        assert await end_deadlines(ledger.connection, _asked(numbers), 10) == 0
    assert await end_deadlines(ledger.connection, _asked(numbers), 1) == 1
    assert [row["fence"] for row in await ledger.connection.fetch(changed, noon)] == [1001]
    assert await end_deadlines(ledger.connection, _asked(numbers), 10) == 1
    assert [row["fence"] for row in await ledger.connection.fetch(changed, noon)] == [1001, 1005]


async def test_g5_leases_of_open_runs_of_dead_processes_end(
    ledger: Ledger, noon: datetime, database: str
) -> None:
    numbers = await _begin(ledger, noon)
    at = await ledger.connection.fetchval("select min(started_at) from ledger.run")
    common: dict[str, object] = {"closed_at": None, "started_at": at, "lease_seconds": 60}
    common |= {"lease_until": noon + SECOND, "worker_no": numbers["dead"]}
    alive = {"worker_no": numbers["alive"]}
    runs: list[dict[str, object]] = [
        {"run_no": 1001},
        {"run_no": 1001, "started_at": at + SECOND, **alive},
        {"run_no": 1002, "closed_at": noon, "lease_until": noon + SECOND / 2},
        {"run_no": 1004, "lease_until": noon},
        {"run_no": 1005, "lease_until": noon + 56 * SECOND},
        {"run_no": 1006, "lease_until": noon + 57 * SECOND},  # extended since the lock was lost
        *(
            {"run_no": 2000 + number, "worker_no": number}
            for name, number in numbers.items()
            if name != "dead"
        ),
    ]
    for run in runs:
        await copy_row(ledger, "run", **{**common, **run})
    changed = "select run_no from ledger.run where lease_until = $1 and run_no <> 1004 order by 1"
    async with _locked(database, "select from ledger.run where run_no in (1001, 1005)"):
        assert await end_leases(ledger.connection, _asked(numbers), 10) == 0
    assert await end_leases(ledger.connection, _asked(numbers), 1) == 1
    assert [row["run_no"] for row in await ledger.connection.fetch(changed, noon)] == [1001]
    assert await end_leases(ledger.connection, _asked(numbers), 10) == 1
    assert [row["run_no"] for row in await ledger.connection.fetch(changed, noon)] == [1001, 1005]
