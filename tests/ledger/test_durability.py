"""Acknowledged writes survive a server that is stopped as by a power failure."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store import connect
from dueledger.ledger.store.actors import ActorKind, register_actor
from dueledger.ledger.store.migrations import migrate
from dueledger.ledger.store.runs import (
    Outcome,
    RefusedSettlement,
    Settlement,
    SettleRefusal,
    settle_runs,
)
from dueledger.stack.postgres import Postgres
from dueledger.stack.start_progress import StartProgress
from tests.claim_ids import run_ids

from .conftest import Ledger


async def test_g7_an_acknowledged_transition_survives_an_immediate_stop(
    make_drafts: Callable[..., list[ItemDraft]], kind: str, tmp_path: Path
) -> None:
    postgres = Postgres(tmp_path, durable=True, steps=StartProgress(None))
    await asyncio.to_thread(postgres.start)
    try:
        connection = await connect(postgres.dsn, application_name="test")
        await migrate(connection, ahead=timedelta(0))
        actor_no = await register_actor(connection, "test", ActorKind.WORKER)
        ledger = Ledger(connection, actor_no, actor_no, make_drafts, kind)
        completed = await ledger.place(State.COMPLETED)
        running = await ledger.place(State.RUNNING)
        transaction = connection.transaction()
        await transaction.start()
        await ledger.settle(running.run_no, TransitionEvent.COMPLETED)

        await asyncio.to_thread(postgres.stop, "immediate")
        await asyncio.to_thread(postgres.start)

        ledger.connection = await connect(postgres.dsn, application_name="test")
        assert await ledger.state_of(completed.id) is State.COMPLETED
        assert await ledger.state_of(running.id) is State.RUNNING
        (run,) = await run_ids(ledger.connection, [running.run_no])
        repeated = [Settlement(run, [Outcome(TransitionEvent.COMPLETED)])]
        assert await settle_runs(ledger.connection, repeated, actor_no) == []
        assert await settle_runs(ledger.connection, repeated, actor_no) == [
            RefusedSettlement(running.run_no, SettleRefusal.SETTLED)
        ]
        await ledger.check_balance()
        await ledger.connection.close()
    finally:
        await asyncio.to_thread(postgres.stop)
