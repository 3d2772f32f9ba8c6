"""Freeing a key wakes its next item, skipping an item continues its chain; and the cost."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

import pytest

from dueledger.ledger.claim_id import new_claim_id
from dueledger.ledger.rules.drafts import Overlap
from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection
from dueledger.ledger.store.claims import (
    Claim,
    apply_withdrawals,
    claim_serial_items,
    list_due_flows,
    mark_published,
    next_fences,
    reap_claims,
    reap_runs,
    record_claims,
)
from dueledger.ledger.store.clock import set_machine_clock
from dueledger.ledger.store.definitions import begin_chains
from dueledger.ledger.store.flow_limits import flag_streaks
from dueledger.ledger.store.flows import expedite_items
from dueledger.ledger.store.held_keys import release_keys
from dueledger.ledger.store.items import emit_items, withdraw_items
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy
from dueledger.ledger.store.reviews import write_off_items
from tests.claim_ids import claim_ids

from .conftest import Ledger

COMPLETED = TransitionEvent.COMPLETED
FAILED = TransitionEvent.FAILED
PARKED = TransitionEvent.PARKED
FAR = datetime(2190, 1, 1, tzinfo=UTC)


async def _owe(
    ledger: Ledger, minute: int = 0, *, definition_no: int | None = None, **terms: object
) -> UUID:
    ledger.made += 1
    (draft,) = ledger.make_drafts(prefix=f"key-{ledger.made}", partition_key="one")
    draft = replace(draft, **{"due_at": draft.due_at + timedelta(minutes=minute), **terms})
    (emitted,) = await emit_items(
        ledger.connection, [draft], actor_no=ledger.worker_no, definition_nos=[definition_no]
    )
    return emitted.id


async def _claim(ledger: Ledger) -> dict[UUID, int]:
    """Claim what is free, each item under a fence of its own."""
    flows = [
        flow.flow_no for flow in await list_due_flows(ledger.connection, 10) if flow.has_serial
    ]
    async with ledger.connection.transaction():
        rows = await claim_serial_items(
            ledger.connection, flows, [100] * len(flows), ledger.worker_no
        )
        items = rows.items()
        fences = await next_fences(ledger.connection, len(items))
        claims = [
            Claim(
                new_claim_id(fence, rows.claimed_at),
                ledger.worker_no,
                "due.Test",
                0,
                [row.item_no],
                [row.effective_date],
                [row.attempt + 1],
                [row.starts + 1],
                60,
                30,
            )
            for fence, row in zip(fences, items, strict=True)
        ]
        await record_claims(ledger.connection, claims)
    return {row.id: fence for row, fence in zip(items, fences, strict=True)}


async def _run(ledger: Ledger) -> dict[UUID, int | None]:
    return {
        item: (await ledger.start(fence)).run_no for item, fence in (await _claim(ledger)).items()
    }


async def _define(ledger: Ledger) -> int:
    return await ledger.connection.fetchval(
        "insert into ledger.definition"
        " (tenant, name, version, kind, document, effective_from, created_at, actor_no)"
        " values ('acme', 'round', 1, $1, '{}', ledger.now(), ledger.now(), $2)"
        " returning definition_no",
        ledger.kind,
        ledger.worker_no,
    )


@pytest.fixture
async def ordered(ledger: Ledger) -> Ledger:
    await put_kind_policy(ledger.connection, KindPolicy("acme", ledger.kind, ordering="key"))
    return ledger


async def test_what_comes_late_never_passes_what_waits_behind_a_key_that_became_free(
    ordered: Ledger,
) -> None:
    first, second = await _owe(ordered), await _owe(ordered, 1)
    runs = await _run(ordered)
    assert await _claim(ordered) == {}
    await ordered.connection.execute("delete from ledger.held_key")  # as if its end saw no waiter
    await ordered.settle(runs[first], COMPLETED)
    third = await _owe(ordered, 2)
    assert third not in await _claim(ordered)  # the second still waits for the key
    assert (await release_keys(ordered.connection, None, 10)).unblocked == 1
    assert list(await _claim(ordered)) == [second]


async def test_an_item_started_before_its_time_keeps_that_while_it_waits_for_its_key(
    ordered: Ledger,
) -> None:
    first = await _owe(ordered)
    runs = await _run(ordered)
    early = await _owe(ordered, due_at=FAR)
    await expedite_items(ordered.connection, [early], reason="now", actor_no=ordered.worker_no)
    assert await _claim(ordered) == {}
    await ordered.settle(runs[first], COMPLETED)
    assert list(await _claim(ordered)) == [early]


async def _run_first(ledger: Ledger, first: UUID) -> int | None:
    """Start the first item; the other one waits for its key."""
    runs = await _run(ledger)
    assert await _claim(ledger) == {}
    assert await _claimable(ledger) == []
    return runs[first]


async def _settle(ledger: Ledger, first: UUID, event: TransitionEvent) -> None:
    await ledger.settle(await _run_first(ledger, first), event)


async def _withdraw(ledger: Ledger, first: UUID) -> None:
    await withdraw_items(
        ledger.connection,
        [first],
        event=TransitionEvent.CANCELLED,
        reason="sold",
        actor_no=ledger.worker_no,
    )


async def _withdraw_after(ledger: Ledger, first: UUID, event: TransitionEvent) -> None:
    await _settle(ledger, first, event)
    await _withdraw(ledger, first)


async def _withdraw_while_it_runs(ledger: Ledger, first: UUID) -> None:
    run_no = await _run_first(ledger, first)
    await _withdraw(ledger, first)
    await ledger.settle(run_no, FAILED)
    assert await apply_withdrawals(ledger.connection, 10) == 1


async def _withdraw_before_it_starts(ledger: Ledger, first: UUID) -> None:
    (fence,) = (await _claim(ledger)).values()
    assert await _claim(ledger) == {}
    await _withdraw(ledger, first)
    assert (await ledger.start(fence)).withdrawn == (1,)


async def _write_off(ledger: Ledger, first: UUID) -> None:
    await _settle(ledger, first, PARKED)
    await write_off_items(ledger.connection, [first], reason="gone", actor_no=ledger.worker_no)


async def _lose_its_worker(ledger: Ledger, first: UUID) -> None:
    await _run_first(ledger, first)
    await set_machine_clock(ledger.connection, FAR, rate=0.0)
    assert (await reap_runs(ledger.connection, 10, ledger.worker_no)).runs == 1


async def _miss_its_queue_deadline(ledger: Ledger, first: UUID) -> None:
    claims = await _claim(ledger)
    assert await _claim(ledger) == {}
    claimed = await claim_ids(ledger.connection, [claims[first]])
    await mark_published(ledger.connection, claimed, [0])
    await set_machine_clock(ledger.connection, FAR, rate=0.0)
    assert (await reap_claims(ledger.connection, 10, ledger.worker_no)).parked == 1


ENDINGS: dict[str, Callable[[Ledger, UUID], Awaitable[None]]] = {
    "completed": partial(_settle, event=COMPLETED),
    "cancelled by its handler": partial(_settle, event=TransitionEvent.CANCELLED),
    "withdrawn between attempts": partial(_withdraw_after, event=FAILED),
    "withdrawn while parked": partial(_withdraw_after, event=PARKED),
    "withdrawn while it runs": _withdraw_while_it_runs,
    "withdrawn before it starts": _withdraw_before_it_starts,
    "written off": _write_off,
}
FAILURES: dict[str, Callable[[Ledger, UUID], Awaitable[None]]] = {
    "failed": partial(_settle, event=FAILED),
    "parked": partial(_settle, event=PARKED),
    "lost its worker": _lose_its_worker,
    "missed its queue deadline": _miss_its_queue_deadline,
}


async def _owe_two(ledger: Ledger) -> tuple[UUID, UUID]:
    """Emit an item with a chain and one that waits for its key, due after it."""
    definition_no = await _define(ledger)
    first = await _owe(ledger, definition_no=definition_no)
    await begin_chains(ledger.connection, [first], [definition_no], [10 * 86_400.0])
    return first, await _owe(ledger, 1)


async def _claimable(ledger: Ledger) -> list[UUID]:
    """Return the items of the key that no other item blocks."""
    rows = await ledger.connection.fetch(
        "select i.id from ledger.pending p join ledger.due_item i using (item_no)"
        " where p.available_at < 'infinity' and not exists (select from ledger.held_key)"
    )
    return [row["id"] for row in rows]


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
async def test_g2_whatever_ends_an_item_frees_its_key_wakes_the_next_and_follows_its_chain(
    ordered: Ledger, ending: Callable[[Ledger, UUID], Awaitable[None]]
) -> None:
    first, second = await _owe_two(ordered)
    await ending(ordered, first)
    claimable = set(await _claimable(ordered))
    assert len(claimable) == 2, "the one that waited, and the next of the chain"
    assert {first, second} & claimable == {second}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("holds", [True, False], ids=["holds", "frees"])
async def test_a_failure_frees_the_key_only_where_its_kind_says_so(
    ordered: Ledger, failure: Callable[[Ledger, UUID], Awaitable[None]], *, holds: bool
) -> None:
    policy = KindPolicy("acme", ordered.kind, failure_holds=holds, queue_late="park")
    await put_kind_policy(ordered.connection, policy)
    first, second = await _owe_two(ordered)
    await failure(ordered, first)
    assert (second in await _claimable(ordered)) is not holds
    assert await ordered.connection.fetchval("select count(*) from ledger.following") == 1


async def test_g2_an_occurrence_skipped_for_its_overlap_is_followed_by_the_next(
    ledger: Ledger,
) -> None:
    definition_no = await _define(ledger)
    await _owe(ledger, overlap=Overlap.SKIP, overlap_key="round")
    await _run(ledger)
    skipped = await _owe(
        ledger, 1, overlap=Overlap.SKIP, overlap_key="round", definition_no=definition_no
    )
    await begin_chains(ledger.connection, [skipped], [definition_no], [60.0])
    assert await _claim(ledger) == {}
    assert await _waiting(ledger) == 1


async def test_a_fixed_delay_reaches_dates_that_have_no_partition_yet(ledger: Ledger) -> None:
    definition_no = await _define(ledger)
    item = await _owe(ledger, definition_no=definition_no)
    await begin_chains(ledger.connection, [item], [definition_no], [5 * 366 * 86_400.0])
    claim = await ledger.claim()
    assert await ledger.settle((await ledger.start(claim.fence)).run_no, COMPLETED) == []
    assert await _waiting(ledger) == 1


async def test_a_fixed_delay_keeps_its_partition_key_and_its_promised_times(
    ordered: Ledger,
) -> None:
    definition_no = await _define(ordered)
    hour = timedelta(hours=1)
    start_by = ordered.make_drafts()[0].due_at + hour
    item = await _owe(ordered, start_by=start_by, definition_no=definition_no)
    await begin_chains(ordered.connection, [item], [definition_no], [60.0])
    await ordered.settle((await _run(ordered))[item], COMPLETED)
    rows = await ordered.connection.fetch(
        "select serial, start_by - due_at as leeway from ledger.due_item order by item_no"
    )
    assert len(rows) == 2
    assert rows[0] == rows[1]


async def _waiting(ledger: Ledger) -> int:
    return await ledger.connection.fetchval("select count(*) from ledger.pending")


async def _reads(connection: Connection, table: str) -> int:
    await connection.execute("select pg_stat_force_next_flush()")
    await asyncio.sleep(0)
    return await connection.fetchval(
        "select seq_tup_read + coalesce(idx_tup_fetch, 0) from pg_stat_user_tables"
        " where schemaname = 'ledger' and relname = $1",
        table,
    )


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("held_key", "select n, -n, date '2027-01-01', 1, now()"),
        ("following", "select -n, date '2027-01-01', 1, 1"),
        ("withdrawal", "select -n, date '2027-01-01', 11, 'x', null, 1, now()"),
    ],
)
async def test_ending_items_reads_nothing_of_what_other_items_hold(
    ledger: Ledger, table: str, columns: str
) -> None:
    await ledger.connection.execute("analyze")
    await _complete(ledger)  # the plans are made while the table is known to be empty
    await ledger.connection.execute(
        f"insert into ledger.{table} {columns} from generate_series(1, 1000) n"
    )
    before = await _reads(ledger.connection, table)
    await _complete(ledger)
    assert await _reads(ledger.connection, table) - before < 10


async def test_claiming_of_few_keys_reads_nothing_of_what_waits_behind_others(
    ordered: Ledger,
) -> None:
    await _owe(ordered)
    for run_no in (await _run(ordered)).values():
        await ordered.settle(run_no, COMPLETED)
    await ordered.connection.execute("analyze")
    assert await _claim(ordered) == {}  # the plan is made while the table is known to be empty
    for _ in range(50):
        await _owe(ordered)
    drafts = ordered.make_drafts(2000, prefix="other", due_at=FAR)
    await emit_items(ordered.connection, drafts, actor_no=ordered.worker_no)
    before = await _reads(ordered.connection, "pending")
    assert len(await _claim(ordered)) == 1
    assert await _reads(ordered.connection, "pending") - before < 1000


@pytest.mark.parametrize("overlap", list(Overlap))
async def test_claiming_keys_reads_nothing_of_what_others_hold(
    ledger: Ledger, overlap: Overlap
) -> None:
    drafts = ledger.make_drafts(2000, prefix="other", due_at=FAR)
    drafts = [replace(draft, overlap=overlap) for draft in drafts]
    await emit_items(ledger.connection, drafts, actor_no=ledger.worker_no)
    await ledger.connection.execute("analyze")
    await _claim(ledger)  # the plan is made while the table is known to be empty
    await ledger.connection.execute(
        "insert into ledger.held_key"
        " select n, -n, date '2027-01-01', 1, now() from generate_series(1, 1000) n"
    )
    for number in range(20):
        await _owe(ledger, overlap=overlap, overlap_key=f"round-{number}")
    before = await _reads(ledger.connection, "held_key")
    assert len(await _claim(ledger)) == 20
    assert await _reads(ledger.connection, "held_key") - before < 100


async def _complete(ledger: Ledger, count: int = 50) -> None:
    await ledger.emit(count)
    claim = await ledger.claim()
    start = await ledger.start(claim.fence, 1, count)
    assert await ledger.settle(start.run_no, *[COMPLETED] * count) == []


async def test_keys_that_failed_once_are_not_read_to_find_those_that_failed_often(
    ledger: Ledger,
) -> None:
    await ledger.emit()
    await ledger.connection.execute(
        "insert into ledger.failure_streak (flow_no, business_key, failures, first_at, last_at)"
        " select (select min(flow_no) from ledger.flow), n::text, 1 + 9 * (n / 1000), now(), now()"
        " from generate_series(1, 1000) n"
    )
    before = await _reads(ledger.connection, "failure_streak")
    (streak,) = await flag_streaks(ledger.connection, 10)
    assert streak.business_key == "1000"
    assert await _reads(ledger.connection, "failure_streak") - before < 10
