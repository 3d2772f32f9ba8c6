"""Items of a key run in order; a claim settled by topic is one run."""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from dueledger.allocator import Allocator
from dueledger.ledger.kafka.envelope import work_topic
from dueledger.ledger.rules.drafts import ItemDraft, Overlap
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection
from dueledger.ledger.store.items import read_accounting
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy

from .conftest import PlainWorker

Start = Callable[..., Awaitable[Allocator]]
Emit = Callable[[list[ItemDraft]], Awaitable[None]]
Drafts = Callable[..., list[ItemDraft]]
Limit = Callable[..., Awaitable[None]]
UntilClaimed = Callable[[Allocator], Awaitable[int]]

FAILED = TransitionEvent.FAILED
PARKED = TransitionEvent.PARKED


@pytest.fixture
def of_keys(make_drafts: Drafts) -> Drafts:
    """Make drafts of alternating partition keys, due a minute apart."""

    def make(count: int, *keys: str) -> list[ItemDraft]:
        return [
            replace(
                draft,
                partition_key=keys[place % len(keys)],
                due_at=draft.due_at + timedelta(minutes=place),
            )
            for place, draft in enumerate(make_drafts(count))
        ]

    return make


async def order_by_key(connection: Connection, kind: str, *, failure_holds: bool) -> None:
    await put_kind_policy(
        connection, KindPolicy("acme", kind, ordering="key", failure_holds=failure_holds)
    )


@pytest.mark.parametrize("failure_holds", [True, False])
async def test_items_of_a_key_are_handed_out_one_after_another_and_keys_beside_each_other(
    *,
    failure_holds: bool,
    start_allocator: Start,
    emit: Emit,
    of_keys: Drafts,
    plain_worker: PlainWorker,
    connection: Connection,
    kind: str,
) -> None:
    await order_by_key(connection, kind, failure_holds=failure_holds)
    await emit(of_keys(9, "a", "b", "c"))
    allocator = await start_allocator()

    for first in (0, 3, 6):
        assert (await allocator.tick())["claimed"] == 3
        assert await plain_worker.handed_out() == [f"key-{first + place:06}" for place in range(3)]
        assert (await allocator.tick())["claimed"] == 0
        await plain_worker.end(await plain_worker.start())


async def test_a_failed_item_holds_its_key_back_until_it_ends(
    start_allocator: Start,
    emit: Emit,
    of_keys: Drafts,
    plain_worker: PlainWorker,
    connection: Connection,
    kind: str,
) -> None:
    await order_by_key(connection, kind, failure_holds=True)
    await emit(of_keys(2, "a"))
    allocator = await start_allocator()
    await allocator.tick()
    await plain_worker.end(await plain_worker.start(), FAILED, after_seconds=3600.0)
    assert (await allocator.tick())["claimed"] == 0

    await connection.execute(
        "update ledger.pending set available_at = ledger.now() where state = 4"
    )

    assert (await allocator.tick())["claimed"] == 1
    assert await plain_worker.handed_out() == ["key-000000"]
    await plain_worker.end(await plain_worker.start())
    assert (await allocator.tick())["claimed"] == 1
    assert await plain_worker.handed_out() == ["key-000001"]


async def test_a_failed_item_lets_the_next_one_by_where_its_kind_says_so(
    start_allocator: Start,
    emit: Emit,
    of_keys: Drafts,
    plain_worker: PlainWorker,
    connection: Connection,
    kind: str,
) -> None:
    await order_by_key(connection, kind, failure_holds=False)
    await emit(of_keys(2, "a"))
    allocator = await start_allocator()
    await allocator.tick()
    await plain_worker.end(await plain_worker.start(), FAILED, after_seconds=3600.0)

    assert (await allocator.tick())["claimed"] == 1

    assert await plain_worker.handed_out() == ["key-000001"]


async def test_what_waits_behind_a_key_that_was_freed_unseen_is_woken_by_the_sweep(
    start_allocator: Start,
    emit: Emit,
    of_keys: Drafts,
    connection: Connection,
    kind: str,
) -> None:
    await order_by_key(connection, kind, failure_holds=True)
    await emit(of_keys(4, "a"))
    allocator = await start_allocator()
    assert (await allocator.tick())["claimed"] == 1
    await connection.execute("delete from ledger.held_key")

    tick = await allocator.tick()

    assert (tick["unblocked"], tick["claimed"]) == (1, 1)


async def test_a_flow_of_both_sorts_has_both_served(
    start_allocator: Start,
    emit: Emit,
    make_drafts: Drafts,
    plain_worker: PlainWorker,
    connection: Connection,
) -> None:
    together = [
        replace(draft, overlap=Overlap.WAIT, overlap_key="one")
        for draft in make_drafts(5, prefix="serial")
    ]
    await emit([*together, *make_drafts(300)])

    assert (await (await start_allocator()).tick())["claimed"] == 301

    handed_out = Counter(key.partition("-")[0] for key in await plain_worker.handed_out())
    assert handed_out == {"key": 300, "serial": 1}
    [account] = await read_accounting(connection)
    assert (account.pending, account.difference) == (4, 0)


async def test_thousands_of_keys_are_served_a_bounded_number_at_a_time(
    start_allocator: Start,
    emit: Emit,
    of_keys: Drafts,
    connection: Connection,
    kind: str,
) -> None:
    await order_by_key(connection, kind, failure_holds=True)
    await emit(of_keys(1500, *(f"key-{number}" for number in range(1200))))

    assert (await (await start_allocator()).tick())["claimed"] == 1200

    [account] = await read_accounting(connection)
    assert (account.pending, account.handed_out) == (300, 1200)


async def test_what_a_topic_settles_needs_no_credit_and_is_one_run_a_claim_once_acknowledged(
    start_allocator: Start,
    emit_unwanted: Emit,
    make_drafts: Drafts,
    connection: Connection,
    kind: str,
) -> None:
    await put_kind_policy(
        connection, KindPolicy("acme", kind, settled_by="topic", lease_seconds=900)
    )
    await emit_unwanted(make_drafts(12))

    tick = await (await start_allocator()).tick()

    assert tick["claimed"] == tick["published"] == 12
    runs = await connection.fetch(
        "select a.name, r.lease_seconds, c.size, r.to_position - r.from_position + 1 as items,"
        " c.closed_at is not null as started, r.closed_at is null as runs"
        " from ledger.claim c join ledger.run r using (fence)"
        " join ledger.actor a on a.actor_no = r.worker_no"
    )
    assert len(runs) == await connection.fetchval("select count(*) from ledger.claim")
    for run in runs:
        assert run["name"] == f"topic:{work_topic(kind)}"
        assert run["lease_seconds"] == 900
        assert run["items"] == run["size"]
        assert run["started"]
        assert run["runs"]
    [account] = await read_accounting(connection)
    assert (account.running, account.difference) == (12, 0)


async def test_what_a_topic_settles_is_bounded_by_a_window_that_counts_what_runs(
    start_allocator: Start,
    emit_unwanted: Emit,
    limit: Limit,
    make_drafts: Drafts,
    until_claimed: UntilClaimed,
    connection: Connection,
    kind: str,
) -> None:
    await put_kind_policy(connection, KindPolicy("acme", kind, settled_by="topic"))
    await emit_unwanted(make_drafts(30))
    allocator = await start_allocator(allocator_topic_window_items=7)

    assert (await allocator.tick())["claimed"] == 7
    assert (await allocator.tick())["claimed"] == 0
    await limit(window_items=9)

    assert await until_claimed(allocator) == 2
    [account] = await read_accounting(connection)
    assert (account.running, account.pending) == (9, 21)
