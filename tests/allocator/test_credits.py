"""No more items are claimed than workers want waiting; the others stay in Postgres."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest
from structlog.testing import capture_logs

from dueledger.allocator import Allocator
from dueledger.allocator.discover import credit_accounts
from dueledger.allocator.discover.credit_accounts import READ_SECONDS_MAX, CreditAccounts
from dueledger.ledger.flows.shares import FlowLoad
from dueledger.ledger.kafka.envelope import work_topic
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.runtime.log import LogEvent
from dueledger.ledger.store import Connection
from dueledger.ledger.store.claims import list_due_flows
from dueledger.ledger.store.clock import set_machine_clock
from dueledger.ledger.store.flows import FlowScope, pause_flows
from dueledger.ledger.store.items import read_accounting

from .conftest import PlainWorker

Start = Callable[..., Awaitable[Allocator]]
Emit = Callable[[list[ItemDraft]], Awaitable[None]]
Drafts = Callable[..., list[ItemDraft]]
Grant = Callable[..., Awaitable[None]]
Limit = Callable[..., Awaitable[None]]


async def scheduled(connection: Connection) -> int:
    """Count pending items, and check the accounting identity."""
    [account] = await read_accounting(connection)
    assert account.difference == 0
    return account.pending


async def test_what_no_worker_wants_stays_scheduled_and_is_said_once(
    start_allocator: Start, emit_unwanted: Emit, make_drafts: Drafts, connection: Connection
) -> None:
    await emit_unwanted(make_drafts(5))
    allocator = await start_allocator()

    with capture_logs() as logs:
        for _ in range(3):
            assert (await allocator.tick())["claimed"] == 0

    assert await scheduled(connection) == 5
    missing = [log for log in logs if log["event"] == LogEvent.CREDIT_NOT_GRANTED]
    assert len(missing) == 1


async def test_the_topic_of_a_kind_that_nobody_works_yet_is_made(
    start_allocator: Start,
    emit_unwanted: Emit,
    make_drafts: Drafts,
    read_topics: Callable[[], Awaitable[set[str]]],
    kind: str,
) -> None:
    await emit_unwanted(make_drafts(1))

    await (await start_allocator()).tick()

    assert work_topic(kind) in await read_topics()


@pytest.mark.parametrize(("items", "claimed"), [(0, 0), (1, 1), (7, 7), (100, 30)])
async def test_no_more_is_claimed_than_is_wanted(
    items: int,
    claimed: int,
    start_allocator: Start,
    emit_unwanted: Emit,
    grant: Grant,
    make_drafts: Drafts,
) -> None:
    await emit_unwanted(make_drafts(30))
    await grant(items)
    allocator = await start_allocator()

    assert (await allocator.tick())["claimed"] == claimed
    assert (await allocator.tick())["claimed"] == 0


async def test_a_worker_that_is_silent_is_given_nothing_more(
    start_allocator: Start,
    emit_unwanted: Emit,
    grant: Grant,
    make_drafts: Drafts,
    plain_worker: PlainWorker,
    connection: Connection,
) -> None:
    await emit_unwanted(make_drafts(30))
    await grant(10)
    allocator = await start_allocator()
    assert (await allocator.tick())["claimed"] == 10

    await plain_worker.end(await plain_worker.start())
    await grant(10, seconds=-1.0)

    assert (await allocator.tick())["claimed"] == 0
    assert await scheduled(connection) == 20


async def test_started_items_free_credit_and_waiting_items_do_not(
    start_allocator: Start,
    emit_unwanted: Emit,
    grant: Grant,
    make_drafts: Drafts,
    plain_worker: PlainWorker,
) -> None:
    await emit_unwanted(make_drafts(30))
    await grant(10)
    allocator = await start_allocator()
    assert (await allocator.tick())["claimed"] == 10

    await plain_worker.start(4)

    assert (await allocator.tick())["claimed"] == 4
    assert (await allocator.tick())["claimed"] == 0


async def test_suspects_that_wait_take_nothing_of_the_credit_of_other_items(
    start_allocator: Start,
    emit_unwanted: Emit,
    grant: Grant,
    make_drafts: Drafts,
    connection: Connection,
) -> None:
    await emit_unwanted(make_drafts(10, prefix="suspect"))
    await connection.execute("update ledger.pending set batch_max = 1, state = 4, starts = 1")
    await grant(10)
    allocator = await start_allocator()
    assert (await allocator.tick())["claimed"] == 10
    await emit_unwanted(make_drafts(30))

    assert (await allocator.tick())["claimed"] == 10
    assert (await allocator.tick())["claimed"] == 0


async def test_flows_share_their_topics_credit_by_weight(
    start_allocator: Start,
    emit_unwanted: Emit,
    grant: Grant,
    limit: Limit,
    make_drafts: Drafts,
    connection: Connection,
) -> None:
    await emit_unwanted(
        [*make_drafts(50, lane="one"), *make_drafts(50, lane="three", prefix="three")]
    )
    await limit("three", weight=3)
    await grant(8)

    await (await start_allocator()).tick()

    rows = await connection.fetch(
        "select f.lane, 50 - count(*) as claimed from ledger.pending p"
        " join ledger.flow f using (flow_no) group by f.lane"
    )
    assert {row["lane"]: row["claimed"] for row in rows} == {"one": 2, "three": 6}


async def test_a_topic_without_credit_holds_up_no_other(
    start_allocator: Start, emit: Emit, emit_unwanted: Emit, make_drafts: Drafts, kind: str
) -> None:
    await emit_unwanted(make_drafts(500, kind=f"{kind}Dry"))
    await emit(make_drafts(20))

    assert (await (await start_allocator()).tick())["claimed"] == 20


async def test_g12_a_flood_leaves_a_tenth_of_the_credit_to_those_that_have_little(
    emit_unwanted: Emit, grant: Grant, make_drafts: Drafts, connection: Connection, kind: str
) -> None:
    topic = work_topic(kind)
    await emit_unwanted(make_drafts(1))
    await grant(1000)
    account = CreditAccounts()
    await account.read(connection, [topic])

    assert account.available(topic, FlowLoad.LIGHT) == 1000
    assert account.available(topic, FlowLoad.HEAVY) == 900
    account.reserve(topic, 900)
    assert (account.available(topic, FlowLoad.LIGHT), account.available(topic, FlowLoad.HEAVY)) == (
        100,
        0,
    )
    account.spend(topic, 900, 750)
    assert (account.available(topic, FlowLoad.LIGHT), account.available(topic, FlowLoad.HEAVY)) == (
        250,
        150,
    )


async def test_credit_that_was_read_ends_with_its_grant(
    grant: Grant, connection: Connection, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = work_topic(kind)
    monkeypatch.setattr(credit_accounts, "monotonic", lambda: 1000.0)
    await set_machine_clock(connection, datetime(2027, 3, 1, tzinfo=UTC), 0)
    account = CreditAccounts()
    await grant(100, seconds=0.2)
    await account.read(connection, [topic])
    assert account.available(topic, FlowLoad.LIGHT) == 100
    assert account.next_read_at([topic]) == pytest.approx(1000.2)

    monkeypatch.setattr(credit_accounts, "monotonic", lambda: 1000.2)
    assert account.available(topic, FlowLoad.LIGHT) == 0
    assert account.needs_read([topic], now=1000.2)

    await grant(100, seconds=60)
    await account.read(connection, [topic])
    assert account.available(topic, FlowLoad.LIGHT) == 100
    assert account.next_read_at([topic]) == 1000.2 + READ_SECONDS_MAX


async def test_what_is_claimed_while_credit_is_read_is_not_forgotten(
    grant: Grant, connection: Connection, kind: str
) -> None:
    topic = work_topic(kind)
    await grant(100)
    account = CreditAccounts()
    await account.read(connection, [topic])
    account.reserve(topic, 30)

    reading = asyncio.create_task(account.read(connection, [topic]))
    await asyncio.sleep(0)
    account.spend(topic, 30, 30)
    await reading

    assert account.available(topic, FlowLoad.LIGHT) == 70


async def test_a_kind_whose_flows_are_all_paused_wants_no_credit(
    start_allocator: Start, emit: Emit, make_drafts: Drafts, connection: Connection, actor_no: int
) -> None:
    await emit(make_drafts(3))
    await pause_flows(connection, FlowScope("acme"), reason="an audit", actor_no=actor_no)

    with capture_logs() as logs:
        await (await start_allocator()).tick()

    assert await list_due_flows(connection, 10) == []
    assert not [log for log in logs if log["event"] == LogEvent.CREDIT_NOT_GRANTED]
