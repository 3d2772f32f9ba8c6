"""Concurrent pauses and resumptions lock in one order, without a deadlock."""

import asyncio
from collections.abc import Awaitable, Callable

from dueledger.ledger.store import Connection, connect
from dueledger.ledger.store.flows import FlowScope, list_pauses, pause_flows, resume_flows

from .conftest import Ledger

Eventually = Callable[[Callable[[], Awaitable[object]]], Awaitable[object]]


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

    async def waits(connection: Connection) -> None:
        pid = connection.get_server_pid()

        async def blocked() -> bool:
            return await ledger.connection.fetchval(
                "select cardinality(pg_blocking_pids($1)) > 0", pid
            )

        await eventually(blocked)

    holding = ledger.connection.transaction()
    await holding.start()
    await ledger.connection.execute(
        "select from ledger.flow where lane = 'last' for update"
    )  # where both come to wait, the narrower first
    narrower = asyncio.create_task(resume_flows(narrow, lanes[1], actor_no=ledger.worker_no))
    await waits(narrow)
    wider = asyncio.create_task(resume_flows(wide, FlowScope("acme"), actor_no=ledger.worker_no))
    await waits(wide)
    await holding.commit()

    ended = [*(await narrower).pauses, *(await wider).pauses]
    assert sorted(pause["lane"] for pause in ended) == ["first", "last"]
    assert await list_pauses(ledger.connection) == []
    assert await ledger.connection.fetchval("select every(paused_at is null) from ledger.flow")
    await narrow.close()
    await wide.close()
