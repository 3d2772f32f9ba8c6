"""Reaping finds the claims and runs whose time is over; others differ from them in one thing."""

from datetime import datetime, timedelta
from typing import Final

import pytest

from dueledger.ledger.store import Connection, connect
from dueledger.ledger.store.claims import mark_published
from dueledger.ledger.store.clock import set_machine_clock
from dueledger.ledger.store.statements import statement
from tests.claim_ids import claim_ids

from .conftest import Ledger
from .row_copies import copy_row

pytestmark = pytest.mark.damages  # copies of claims and runs have the same items

INSTANT: Final = timedelta(microseconds=1)
LOCK_CLAIMS: Final = "select * from ledger.claim where fence = $1 for update"
LOCK_RUNS: Final = "select * from ledger.run where run_no = $1 for update"


def _seconds(noon: datetime, **instants: float) -> dict[str, object]:
    return {name: noon + timedelta(seconds=value) for name, value in instants.items()}


async def _started(ledger: Ledger, noon: datetime) -> None:
    """Make a claim and a run to copy; neither ends for an hour."""
    await ledger.emit()
    await ledger.start((await ledger.claim()).fence, lease_seconds=3_600)
    await set_machine_clock(ledger.connection, noon, 0)
    later = noon + timedelta(hours=1)
    await ledger.connection.execute("update ledger.run set lease_until = $1", later)
    await ledger.connection.execute(
        "update ledger.claim set deadline = $1, closed_at = null, started = 0", later
    )


async def _locked(connection: Connection, name: str) -> set[int]:
    """Return the fences or run numbers that a statement finds."""
    await connection.execute("set lock_timeout = '1s'")
    return {row[0] for row in await connection.fetch(statement(name), 100, None)}


async def test_g9_only_open_claims_past_their_deadline_are_reaped(
    ledger: Ledger, noon: datetime, database: str
) -> None:
    await _started(ledger, noon)
    await copy_row(ledger, "claim", fence=101, deadline=noon - INSTANT)
    await copy_row(ledger, "claim", fence=102, deadline=noon)
    await copy_row(ledger, "claim", fence=103, deadline=noon - INSTANT, closed_at=noon)
    await copy_row(ledger, "claim", fence=104, deadline=noon - INSTANT)
    await _check_locks(ledger, database, "lock_late_claims", LOCK_CLAIMS, {101, 104})


async def _check_locks(
    ledger: Ledger, database: str, name: str, lock: str, expected: set[int]
) -> None:
    """Check what a statement finds, that it passes what is locked, and locks what it finds."""
    rival = await connect(database, application_name="rival")
    taken = max(expected)
    async with rival.transaction():
        await rival.execute(lock, taken)
        async with ledger.connection.transaction():
            assert await _locked(ledger.connection, name) == expected - {taken}
    async with ledger.connection.transaction():
        assert await _locked(ledger.connection, name) == expected
        assert await rival.fetch(f"{lock} skip locked", taken) == []
    await rival.close()


async def test_g5_only_runs_past_their_lease_are_reaped_those_of_a_worker_together(
    ledger: Ledger, noon: datetime, database: str
) -> None:
    await _started(ledger, noon)
    soon = _seconds(noon, lease_until=10)
    lapsed = _seconds(noon, lease_until=-1)
    expected = {101, 121, 131, 141, 161, 162}
    runs: dict[int, dict[str, object]] = {
        101: {"worker_no": 1000, **lapsed},
        102: {"worker_no": 1000, "closed_at": noon, **lapsed},
        111: {"worker_no": 1100, "lease_until": noon},  # not over yet
        # A worker that renewed another lease half a lease ago or later is alive.
        115: {"worker_no": 1150, **lapsed},
        116: {"worker_no": 1150, **soon},
        # One whose other lease ends much later began that long after.
        121: {"worker_no": 1200, **lapsed},
        122: {"worker_no": 1200, **_seconds(noon, lease_until=1_000)},
        # A closed run proves nothing.
        131: {"worker_no": 1300, **lapsed},
        132: {"worker_no": 1300, "closed_at": noon, **soon},
        # A run past its hard end waits for no other of its worker.
        141: {"worker_no": 1400, "run_until": noon, **lapsed},
        142: {"worker_no": 1400, **soon},
        143: {"worker_no": 1400, **lapsed},
        # Neither one past its hard end nor a closed one says that its worker is dead.
        151: {"worker_no": 1500, "closed_at": noon, **_seconds(noon, lease_until=-100)},
        152: {"worker_no": 1500, **lapsed},
        153: {"worker_no": 1500, **soon},
        161: {"worker_no": 1600, "run_until": noon, **_seconds(noon, lease_until=-25)},
        162: {"worker_no": 1601, **lapsed},
        163: {"worker_no": 1600, **lapsed},
        164: {"worker_no": 1600, **soon},
    }
    for run_no, columns in runs.items():
        await copy_row(ledger, "run", run_no=run_no, **{"lease_seconds": 60, **columns})
    await _check_locks(ledger, database, "lock_lapsed_runs", LOCK_RUNS, expected)
    async with ledger.connection.transaction():
        rows = await ledger.connection.fetch(statement("lock_lapsed_runs"), 100, None)
    lost = {row["run_no"]: row["lost_count"] for row in rows}
    assert lost[101] == lost[131], "what a closed run had left is lost no more"
    rival = await connect(database, application_name="rival")
    async with rival.transaction():
        await rival.execute("select ledger.lock_rows('reap_runs', array[''])")
        assert await _locked(ledger.connection, "lock_lapsed_runs") == set()
    await rival.close()


async def test_g9_of_named_claims_and_runs_the_oldest_are_found_however_many_others_are_older(
    ledger: Ledger, noon: datetime
) -> None:
    await _started(ledger, noon)
    for number in (101, 102, 103):
        over = noon + timedelta(seconds=number - 200)
        await copy_row(ledger, "claim", fence=number, deadline=over)
        await copy_row(ledger, "run", run_no=number, worker_no=number, lease_until=over)
    for name in ("lock_late_claims", "lock_lapsed_runs"):
        named = await ledger.connection.fetch(statement(name), 1, [102, 103, 104])
        assert [row[0] for row in named] == [102]


async def test_g4_outcomes_reported_by_topic_lock_the_run_of_their_claim_alone(
    ledger: Ledger, database: str
) -> None:
    await ledger.emit()
    claim = await ledger.claim()
    await ledger.connection.execute(
        "update ledger.claim set topic_actor_no = $1, lease_seconds = 60", ledger.worker_no
    )
    (claim_id,) = await claim_ids(ledger.connection, [claim.fence])
    await mark_published(ledger.connection, [claim_id], [0])
    (run_no, started_at) = tuple(
        (await ledger.connection.fetch("select run_no, started_at from ledger.run"))[0]
    )
    run = {"started_at": started_at}
    await copy_row(ledger, "run", **{**run, "run_no": 101, "fence": claim.fence + 1})
    await copy_row(ledger, "run", **{**run, "run_no": 102, "started_at": started_at + INSTANT})
    await copy_row(ledger, "run", **{**run, "run_no": 103, "worker_no": 4_711})
    await copy_row(ledger, "run", **{**run, "run_no": 104, "closed_at": started_at})
    await copy_row(ledger, "claim", fence=claim.fence + 1)
    earlier = claim_id.claimed_at - INSTANT
    await copy_row(ledger, "claim", claimed_at=earlier, closed_at=started_at + INSTANT)

    async def ask(token: str) -> list[int]:
        rows = await ledger.connection.fetch(
            statement("lock_topic_runs"),
            [claim.fence],
            [claim_id.claimed_at],
            [token],
            earlier,
            claim_id.claimed_at,
        )
        return [row["run_no"] for row in rows]

    assert await ask("0" * 16) == []
    rival = await connect(database, application_name="rival")
    async with ledger.connection.transaction():
        assert await ask(claim_id.token) == [run_no]
        assert await rival.fetch(f"{LOCK_RUNS} skip locked", run_no) == []
    await ledger.connection.execute("update ledger.claim set topic_actor_no = null")
    assert await ask(claim_id.token) == []
    pulled = "update ledger.claim set partition = -1, allocator_no = $1"
    await ledger.connection.execute(pulled, ledger.worker_no)
    assert await ask(claim_id.token) == [run_no]
    await ledger.connection.execute(pulled, ledger.worker_no + 1)
    assert await ask(claim_id.token) == []
    await rival.close()
