"""Concurrent pauses and resumptions lock in one order, and only what they change."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial

import pytest

from dueledger.ledger.store import Connection, connect
from dueledger.ledger.store.flows import (
    FlowScope,
    PauseResult,
    ResumeResult,
    end_pauses,
    list_pauses,
    pause_flows,
    reapply_pauses,
    resume_flows,
)

from .conftest import Ledger

Eventually = Callable[[Callable[[], Awaitable[object]]], Awaitable[object]]


async def _blocked(ledger: Ledger, connection: Connection, eventually: Eventually) -> None:
    """Wait until what the connection sent waits for a lock."""
    pid = connection.get_server_pid()

    async def blocked() -> bool:
        return await ledger.connection.fetchval("select cardinality(pg_blocking_pids($1)) > 0", pid)

    await eventually(blocked)


async def test_a_wider_and_a_narrower_resumption_do_not_wait_for_one_another(
    ledger: Ledger, database: str, eventually: Eventually
) -> None:
    await ledger.emit(lane="first")
    await ledger.emit(lane="last")
    lanes = [FlowScope("acme", ledger.kind, lane) for lane in ("first", "last")]
    for scope in lanes:
        await pause_flows(ledger.connection, scope, reason="audit", actor_no=ledger.worker_no)
    narrow = await connect(database, application_name="narrow")
    wide = await connect(database, application_name="wide")
    holding = ledger.connection.transaction()
    await holding.start()
    await ledger.connection.execute(
        "select from ledger.flow where lane = 'last' for update"
    )  # where both come to wait, the narrower first
    narrower = asyncio.create_task(resume_flows(narrow, lanes[1], actor_no=ledger.worker_no))
    await _blocked(ledger, narrow, eventually)
    wider = asyncio.create_task(resume_flows(wide, FlowScope("acme"), actor_no=ledger.worker_no))
    await _blocked(ledger, wide, eventually)
    await holding.commit()

    ended = [*(await narrower).pauses, *(await wider).pauses]
    assert sorted(pause["lane"] for pause in ended) == ["first", "last"]
    assert await list_pauses(ledger.connection) == []
    assert await ledger.connection.fetchval("select every(paused_at is null) from ledger.flow")
    await narrow.close()
    await wide.close()


@pytest.mark.parametrize("verb", ["pause", "resume"])
async def test_of_two_who_pause_or_resume_a_scope_at_once_the_first_does(
    ledger: Ledger, database: str, eventually: Eventually, verb: str
) -> None:
    await ledger.emit()
    scope = FlowScope("acme", ledger.kind)

    async def act(connection: Connection) -> PauseResult | ResumeResult:
        if verb == "pause":
            return await pause_flows(connection, scope, reason="audit", actor_no=ledger.worker_no)
        return await resume_flows(connection, scope, actor_no=ledger.worker_no)

    if verb == "resume":
        await pause_flows(ledger.connection, scope, reason="audit", actor_no=ledger.worker_no)
    rival = await connect(database, application_name="rival")
    holding = ledger.connection.transaction()
    await holding.start()
    await ledger.connection.execute("select from ledger.flow for update")
    second = asyncio.create_task(act(rival))
    await _blocked(ledger, rival, eventually)

    done = await act(ledger.connection)

    await holding.commit()
    late = await second
    assert (len(done.pauses), len(done.flows)) == (1, 1)
    assert (late.pauses, late.flows) == ([], [])
    await rival.close()


async def test_a_pause_that_ends_while_its_end_is_moved_begins_anew(
    ledger: Ledger, database: str, eventually: Eventually
) -> None:
    await ledger.emit()
    scope, later = FlowScope("acme", ledger.kind), datetime(2190, 1, 1, tzinfo=UTC)
    await pause_flows(ledger.connection, scope, reason="audit", actor_no=ledger.worker_no)
    await ledger.connection.execute("update ledger.pause set paused_until = now()")
    rival = await connect(database, application_name="rival")
    move = partial(
        pause_flows, rival, scope, reason="audit", actor_no=ledger.worker_no, until=later
    )
    ending = ledger.connection.transaction()
    await ending.start()
    assert len(await end_pauses(ledger.connection, 10)) == 1
    moving = asyncio.create_task(move())
    await _blocked(ledger, rival, eventually)
    await ending.commit()

    assert len((await moving).pauses) == 1
    [in_force] = await list_pauses(ledger.connection)
    assert in_force["paused_until"] == later
    assert await ledger.connection.fetchval("select count(*) from ledger.pause") == 2

    moving_again = rival.transaction()
    await moving_again.start()
    await ledger.connection.execute("update ledger.pause set paused_until = now()")
    await move()
    assert await end_pauses(ledger.connection, 10) == [], "it is locked, and goes on"
    await moving_again.commit()
    assert await end_pauses(ledger.connection, 10) == []
    await rival.close()


async def test_flows_and_pauses_that_do_not_change_are_not_locked(
    ledger: Ledger, database: str
) -> None:
    lanes = ["first", "last"]
    for lane in lanes:
        await ledger.emit(lane=lane)
    wide, first, last = (FlowScope("acme", ledger.kind, lane) for lane in (None, *lanes))
    for scope in (first, last):
        await pause_flows(ledger.connection, scope, reason="audit", actor_no=ledger.worker_no)
    await resume_flows(ledger.connection, last, actor_no=ledger.worker_no)
    rival = await connect(database, application_name="rival")
    await ledger.connection.execute("set lock_timeout = '1s'")

    async with rival.transaction():
        await rival.execute("select from ledger.flow where lane = 'last' for update")
        await rival.execute("select from ledger.pause where lane = 'last' for update")
        resumed = await resume_flows(ledger.connection, wide, actor_no=ledger.worker_no)
    assert [flow.lane for flow in resumed.flows] == ["first"]

    await pause_flows(ledger.connection, first, reason="audit", actor_no=ledger.worker_no)
    async with rival.transaction():
        await rival.execute("select from ledger.flow where lane = 'first' for update")
        paused = await pause_flows(
            ledger.connection, wide, reason="audit", actor_no=ledger.worker_no
        )
    assert [flow["lane"] for flow in paused.flows] == ["last"]
    await rival.close()


async def test_upkeep_locks_the_flows_that_are_wrong_alone_and_passes_those_that_are_locked(
    ledger: Ledger, database: str
) -> None:
    for lane in ("locked", "right", "wrong"):
        await ledger.emit(lane=lane)
    await pause_flows(
        ledger.connection, FlowScope("acme"), reason="audit", actor_no=ledger.worker_no
    )
    await ledger.connection.execute(
        "update ledger.flow set paused_at = null, paused_by = null where lane <> 'right'"
    )
    await ledger.connection.execute("set lock_timeout = '1s'")
    rival = await connect(database, application_name="rival")
    async with rival.transaction():
        await rival.execute("select from ledger.flow where lane = 'locked' for update")
        async with ledger.connection.transaction():
            assert await reapply_pauses(ledger.connection) == 1
            free = await rival.fetch("select lane from ledger.flow for update skip locked")
    assert sorted(row["lane"] for row in free) == ["locked", "right"]
    assert await reapply_pauses(ledger.connection) == 1
    assert await ledger.connection.fetchval("select every(paused_at is not null) from ledger.flow")
    await rival.close()
