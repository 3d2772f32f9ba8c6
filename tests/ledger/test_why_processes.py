"""What `why` says of processes: none that lives is missing, or named as one that is gone."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Final
from uuid import UUID

import pytest

from dueledger.hindrances import Hindrance
from dueledger.ledger.presence import Presence
from dueledger.ledger.states import State
from dueledger.ledger.store.items import show_item
from dueledger.ledger.store.processes import ProcessRole
from dueledger.why import Explanation, explain

from .conftest import Ledger

Arrange = Callable[[Ledger], Awaitable[UUID]]
PUBLISHED: Final = "update ledger.claim set published_at = now(), base_offset = 0"
KILL: Final = """
    select count(pg_terminate_backend(a.pid, 5000)) from pg_stat_activity a
    where a.datname = current_database() and a.application_name = $1
"""


async def _due(ledger: Ledger) -> UUID:
    [item] = await ledger.emit()
    return item


async def _published(ledger: Ledger) -> UUID:
    placed = await ledger.place(State.CLAIMED)
    await ledger.connection.execute(PUBLISHED)
    return placed.id


async def _suspect(ledger: Ledger) -> UUID:
    [item] = await ledger.emit()
    await ledger.connection.execute(
        "update ledger.pending set batch_max = 1, state = 4, starts = 1"
    )
    await ledger.claim()
    await ledger.connection.execute(PUBLISHED)
    return item


@pytest.mark.parametrize(
    ("arrange", "kinds", "code", "words"),
    [
        (_due, None, Hindrance.JOINING, "it joins its consumer group"),
        (_due, ["OtherDue"], Hindrance.NO_HANDLER, "they have handlers for OtherDue"),
        (_published, None, Hindrance.JOINING, "it joins its consumer group"),
        (_published, ["OtherDue"], Hindrance.UNREAD, "those that live have handlers for OtherDue"),
        (_suspect, ["OtherDue"], Hindrance.UNREAD, "no live worker reads it"),
    ],
)
async def test_a_worker_that_lives_is_not_said_to_be_gone(
    ledger: Ledger,
    database: str,
    arrange: Arrange,
    kinds: list[str] | None,
    code: Hindrance,
    words: str,
) -> None:
    item = await arrange(ledger)
    async with AsyncExitStack() as running:
        await _open(running, database, "allocator:host:1:abcd", ProcessRole.ALLOCATOR)
        served = [ledger.kind] if kinds is None else kinds
        await _open(running, database, "worker:host:1:abcd", ProcessRole.WORKER, served)
        explanation = await _explain(ledger, item)
    assert explanation.code == code
    assert words in explanation.sentence
    assert "worker:host" not in explanation.sentence


async def test_each_of_two_allocators_that_are_silent_may_be_named(
    ledger: Ledger, database: str
) -> None:
    item = await _due(ledger)
    async with AsyncExitStack() as running:
        for name in ("allocator:a:1:abcd", "allocator:b:1:abcd"):
            await _open(running, database, name, ProcessRole.ALLOCATOR)
        await ledger.connection.execute(
            "update ledger.process set seen_at = seen_at - interval '20 seconds'"
        )
        explanation = await _explain(ledger, item)
    assert explanation.code is Hindrance.ALLOCATOR_SILENT
    assert "no allocator responds" in explanation.sentence


@pytest.mark.parametrize("role", [ProcessRole.ALLOCATOR, ProcessRole.DIRECT_WORKER])
async def test_a_process_that_lost_its_connection_a_moment_ago_lives(
    ledger: Ledger, database: str, role: ProcessRole
) -> None:
    name = f"{role}:a:1:abcd"
    if role is ProcessRole.ALLOCATOR:
        item, seen, gone = await _due(ledger), Hindrance.NO_WORKER, Hindrance.NO_ALLOCATOR
    else:
        placed = await ledger.place(State.RUNNING)
        item, seen, gone = placed.id, Hindrance.RUNNING, Hindrance.RUN_LOST
    presence = Presence(database, name, role)
    await presence.open()
    await ledger.connection.execute(
        "update ledger.run set worker_no = (select process_no from ledger.process)"
    )
    await ledger.connection.fetchval(KILL, name)
    await ledger.connection.execute(  # as where it was about to renew its row
        "update ledger.process set seen_at = seen_at - interval '5 seconds'"
    )
    found = [(await _explain(ledger, item)).code]
    await ledger.connection.execute(
        "update ledger.process set seen_at = seen_at - interval '5 seconds'"
    )
    found.append((await _explain(ledger, item)).code)
    await presence.close()
    assert found == [seen, gone]


async def _open(
    running: AsyncExitStack,
    database: str,
    name: str,
    role: ProcessRole,
    kinds: list[str] | None = None,
) -> None:
    presence = Presence(database, name, role, kinds=kinds)
    await presence.open()
    running.push_async_callback(presence.close)


async def _explain(ledger: Ledger, item: UUID) -> Explanation:
    shown = await show_item(ledger.connection, item)
    assert shown is not None
    return await explain(ledger.connection, shown)
