"""A key is free once its item ends or gives it up, whichever statement does it."""

from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from dueledger.ledger.finding_types import FindingType
from dueledger.ledger.materialise import Materialiser, MaterialiserSettings
from dueledger.ledger.runtime.log import LogEvent
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, Pool
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.claimed_rows import ClaimedRow, read_instant
from dueledger.ledger.upkeep import Upkeep
from dueledger.reconciler import Reconciler

from .conftest import NOON, SetSchedule, SetTime, claim_due, end, start, tick_until_idle

SECOND = timedelta(seconds=1)
KEYS = "select count(*) from ledger.held_key"
EVERY_TWO = {"every": "PT2S", "anchor": "2027-01-01T00:00:00Z"}
EVERY_THREE = {"every": "PT3S", "anchor": "2027-01-01T00:00:00Z"}


@pytest.fixture
async def materialiser(
    pool: Pool, settings: MaterialiserSettings, set_time: SetTime, connection: Connection
) -> Materialiser:
    """A materialiser that is twenty seconds ahead."""
    await set_time(NOON)
    actor_no = await register_actor(connection, "materialiser:test", ActorKind.MATERIALISER)
    short = {"materialise_horizon_seconds": 10, "materialise_stride_seconds": 10}
    return Materialiser(pool, settings.model_copy(update=short), actor_no=actor_no)


async def claim(connection: Connection, actor_no: int) -> tuple[int, list[ClaimedRow]]:
    claimed = await claim_due(connection, actor_no, serial=True)
    assert claimed is not None
    return claimed


async def release_one(connection: Connection, actor_no: int) -> int:
    """Hand out the first item that is due and release it, as a worker does that drains."""
    fence, (row,) = await claim(connection, actor_no)
    run_no = await start(connection, actor_no, fence, 1)
    await end(connection, actor_no, run_no, [TransitionEvent.RELEASED])
    assert await connection.fetchval(KEYS) == 1
    return row.item_no


async def test_g5_a_version_that_supersedes_a_released_item_frees_its_key(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    set_time: SetTime,
    connection: Connection,
    actor_no: int,
) -> None:
    """The materialiser is late: an item due after the change was handed out before it."""
    await set_schedule("d", EVERY_TWO, overlap="skip")
    await tick_until_idle(materialiser)
    await set_schedule("d", EVERY_THREE, overlap="skip", effective_from=NOON + SECOND)
    fence, _ = await claim(connection, actor_no)
    run_no = await start(connection, actor_no, fence, 1)
    await end(connection, actor_no, run_no, [TransitionEvent.COMPLETED])
    await set_time(NOON + 2 * SECOND)
    released = await release_one(connection, actor_no)
    await tick_until_idle(materialiser)
    event = await connection.fetchval(
        "select max(event) from ledger.transition where item_no = $1", released
    )
    assert event == TransitionEvent.SUPERSEDED
    assert await connection.fetchval(KEYS) == 0
    await set_time(NOON + 3 * SECOND)
    _, (row,) = await claim(connection, actor_no)
    assert read_instant(row.due_at) == NOON + 3 * SECOND


@pytest.mark.parametrize("newer", ["allow", "skip"])
async def test_an_item_that_a_version_gives_another_key_gives_up_the_one_it_has(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    connection: Connection,
    actor_no: int,
    newer: str,
) -> None:
    await set_schedule("d", EVERY_TWO, overlap="buffer_all")
    await tick_until_idle(materialiser)
    await release_one(connection, actor_no)
    await set_schedule("d", EVERY_TWO, overlap=newer, labels={"a": "b"}, effective_from=NOON)
    await tick_until_idle(materialiser)
    held = await connection.fetchval(KEYS)
    assert held == (0 if newer == "allow" else 1), "the key of the overlap is the same"


async def test_g9_upkeep_frees_the_key_of_an_item_that_ended_and_until_then_it_is_a_finding(
    materialiser: Materialiser,
    set_schedule: SetSchedule,
    connection: Connection,
    pool: Pool,
    reconciler: Reconciler,
    actor_no: int,
) -> None:
    await set_schedule("d", EVERY_TWO, overlap="buffer_all")
    await tick_until_idle(materialiser)
    fence, _ = await claim(connection, actor_no)
    run_no = await start(connection, actor_no, fence, 1)
    upkeep = Upkeep(pool, actor_no=actor_no, seconds=1.0, role="test")
    assert (await upkeep.tick())["freed"] == 0
    assert await connection.fetchval(KEYS) == 1
    assert FindingType.HELD_KEY not in (await reconciler.run_pass()).found
    await connection.execute("create table kept as select * from ledger.held_key")
    await end(connection, actor_no, run_no, [TransitionEvent.COMPLETED])
    await connection.execute("insert into ledger.held_key select * from kept")
    assert (await reconciler.run_pass()).found[FindingType.HELD_KEY] == 1
    with capture_logs() as logged:
        assert (await upkeep.tick())["freed"] == 1
        assert (await upkeep.tick())["freed"] == 0
    assert [line["event"] for line in logged] == [LogEvent.KEY_FREED]
    assert await connection.fetchval(KEYS) == 0
