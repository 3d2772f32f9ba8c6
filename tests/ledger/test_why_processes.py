"""What `why` says of processes: none that lives is missing, or named as one that is gone."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Final
from uuid import UUID

import pytest

from dueledger.hindrance_texts import Hindrance
from dueledger.ledger.presence import Presence
from dueledger.ledger.states import State
from dueledger.ledger.store.claims import Claim, mark_published
from dueledger.ledger.store.credits import grant_credits
from dueledger.ledger.store.items import show_item
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy
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
        (_due, ["OtherDue"], Hindrance.NO_HANDLER, "those that live have handlers for OtherDue"),
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


async def test_since_when_no_worker_has_a_handler_is_said(ledger: Ledger, database: str) -> None:
    item = await _due(ledger)
    async with AsyncExitStack() as running:
        await _open(running, database, "allocator:host:1:abcd", ProcessRole.ALLOCATOR)
        await _open(running, database, "worker:host:2:abcd", ProcessRole.WORKER, ["OtherDue"])
        found = [(await _explain(ledger, item)).sentence]
        async with AsyncExitStack() as stopped:
            await _open(stopped, database, "worker:a:1:abcd", ProcessRole.WORKER, [ledger.kind])
        found.append((await _explain(ledger, item)).sentence)
    assert ": none was seen in the last hour; those that live have" in found[0]
    assert ": the last one, worker:a:1:abcd on " in found[1]


async def test_since_when_credit_is_missing_is_said(ledger: Ledger, database: str) -> None:
    placed = await ledger.place(State.CLAIMED)
    item = await _due(ledger)
    topic = await ledger.connection.fetchval("select topic from ledger.kind")
    await ledger.connection.execute("update ledger.claim set topic = $1", topic)
    await grant_credits(ledger.connection, ledger.worker_no, [topic], [1], 60)
    async with AsyncExitStack() as running:
        await _open(running, database, "allocator:host:1:abcd", ProcessRole.ALLOCATOR)
        explanation = await _explain(ledger, item)
    shown = await show_item(ledger.connection, placed.id)
    assert shown is not None
    assert explanation.code is Hindrance.NO_CREDIT
    since = f"the last of them since {shown['claimed_at']:%Y-%m-%d %H:%M:%S} UTC"
    assert f"want 1 items waiting for them, and 1 are, {since}." in explanation.sentence


async def test_a_topic_is_unavailable_once_no_allocator_can_publish_to_it(
    ledger: Ledger, database: str
) -> None:
    item = await _due(ledger)
    topic = await ledger.connection.fetchval("select topic from ledger.kind")
    found: list[Hindrance] = []
    async with AsyncExitStack() as running:
        allocators = [
            await _open(running, database, f"allocator:{host}:1:abcd", ProcessRole.ALLOCATOR)
            for host in "ab"
        ]
        for allocator in allocators:
            allocator.report_success({topic: "3 replicas of 1 broker"})
            await allocator.tick()
            found.append((await _explain(ledger, item)).code)
    assert found == [Hindrance.NO_WORKER, Hindrance.TOPIC_UNAVAILABLE]


@pytest.mark.parametrize(
    ("role", "code"),
    [
        (ProcessRole.SERVICE, Hindrance.NO_DIRECT_WORKER),
        (ProcessRole.DIRECT_WORKER, Hindrance.NO_DIRECT_HANDLER),
    ],
)
async def test_who_takes_another_tenants_items_of_a_kind_does_not_hide_that_nobody_takes_these(
    ledger: Ledger, database: str, role: ProcessRole, code: Hindrance
) -> None:
    await put_kind_policy(ledger.connection, KindPolicy("acme", ledger.kind, dispatch="direct"))
    item = await _due(ledger)
    found: list[Explanation] = []
    async with AsyncExitStack() as running:
        presence = await _open(running, database, f"{role}:a:1:abcd", role, [ledger.kind])
        for tenants in ({ledger.kind: ["umbra"]}, {ledger.kind: ["acme", "umbra"]}, {}):
            presence.serve_kinds([ledger.kind], tenants)
            await presence.tick()
            found.append(await _explain(ledger, item))
        presence.serve_kinds([ledger.kind], {ledger.kind: ["umbra"]})
        await presence.tick()
        await _open(running, database, f"{role}:b:1:abcd", role, [ledger.kind])
        found.append(await _explain(ledger, item))
    assert [each.code for each in found] == [code, *[Hindrance.NOT_CLAIMED] * 3]
    assert f"in the log of {role}:" in (found[1].remedy or "")


async def test_items_before_one_in_its_partition_are_those_published_before_it(
    ledger: Ledger,
) -> None:
    items: list[UUID] = []
    claims: list[Claim] = []
    for _ in range(2):
        items.append(await _due(ledger))
        claims.append(await ledger.claim())
    # As of two allocators, the second of which was the first to publish.
    await mark_published(ledger.connection, [claim.id for claim in claims], [1, 0])
    await grant_credits(ledger.connection, ledger.worker_no, ["due.Test"], [10], 60)
    found = [await _explain(ledger, item) for item in items]
    assert [each.code for each in found] == [Hindrance.NOT_STARTED] * 2
    for each, before in zip(found, (1, 0), strict=True):
        assert f"and {before} items are before it there" in each.sentence


async def _open(
    running: AsyncExitStack,
    database: str,
    name: str,
    role: ProcessRole,
    kinds: list[str] | None = None,
) -> Presence:
    presence = Presence(database, name, role, kinds=kinds)
    await presence.open()
    running.push_async_callback(presence.close)
    return presence


async def _explain(ledger: Ledger, item: UUID) -> Explanation:
    shown = await show_item(ledger.connection, item)
    assert shown is not None
    return await explain(ledger.connection, shown)
