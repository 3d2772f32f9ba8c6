"""Items of one key run one after another; while it is held, the overlap policy decides."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from dueledger.ledger import upkeep
from dueledger.ledger.claim_id import new_claim_id
from dueledger.ledger.rules.drafts import Overlap
from dueledger.ledger.states import State, TransitionEvent
from dueledger.ledger.store import connect, open_pool
from dueledger.ledger.store.claims import (
    Claim,
    apply_withdrawals,
    claim_items,
    claim_serial_items,
    list_due_flows,
    next_fences,
    record_claims,
)
from dueledger.ledger.store.flows import FlowScope, pause_flows
from dueledger.ledger.store.held_keys import release_keys
from dueledger.ledger.store.items import emit_items
from dueledger.ledger.store.kinds import KindPolicy, put_kind_policy
from dueledger.ledger.store.reviews import redrive_items, write_off_items

from .conftest import Ledger

COMPLETED = TransitionEvent.COMPLETED
FAILED = TransitionEvent.FAILED


async def _owe(
    ledger: Ledger,
    count: int,
    overlap: Overlap | None = None,
    key: str = "one",
    *,
    lane: str = "",
    after: timedelta = timedelta(0),
) -> list[UUID]:
    """Emit items due a minute apart, of one overlap key or one partition key."""
    ledger.made += 1
    drafts = ledger.make_drafts(count, prefix=f"batch-{ledger.made}", lane=lane)
    drafts = [
        replace(
            draft,
            due_at=draft.due_at + after + timedelta(minutes=place),
            overlap=overlap,
            overlap_key=key if overlap else None,
            partition_key=None if overlap else key,
        )
        for place, draft in enumerate(drafts)
    ]
    emitted = await emit_items(ledger.connection, drafts, actor_no=ledger.worker_no)
    return [answer.id for answer in emitted]


async def _order_by_key(ledger: Ledger, *, failure_holds: bool = True) -> None:
    policy = KindPolicy("acme", ledger.kind, ordering="key", failure_holds=failure_holds)
    await put_kind_policy(ledger.connection, policy)


async def _start_free_items(ledger: Ledger) -> dict[UUID, int | None]:
    """Claim and start what is free; return the run of each item."""
    flows = [flow for flow in await list_due_flows(ledger.connection, 100) if flow.has_serial]
    async with ledger.connection.transaction():
        rows = await claim_serial_items(
            ledger.connection,
            [flow.flow_no for flow in flows],
            [100] * len(flows),
            ledger.worker_no,
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
    runs: dict[UUID, int | None] = {}
    for row, claim in zip(items, claims, strict=True):
        runs[row.id] = (await ledger.start(claim.fence)).run_no
    return runs


async def test_items_of_one_key_are_handed_out_one_after_another_in_the_order_due(
    ledger: Ledger,
) -> None:
    await _order_by_key(ledger)
    wanted = await _owe(ledger, 4)
    ran: list[UUID] = []
    while runs := await _start_free_items(ledger):
        ((item, run_no),) = runs.items()
        ran.append(item)
        assert await _start_free_items(ledger) == {}  # while the key is held
        await ledger.settle(run_no, COMPLETED)
    assert ran == wanted
    await ledger.check_balance()


async def test_keys_do_not_wait_for_one_another(ledger: Ledger) -> None:
    await _order_by_key(ledger)
    first = [(await _owe(ledger, 2, key=f"key-{number}"))[0] for number in range(5)]
    assert sorted((await _start_free_items(ledger)).keys()) == sorted(first)


@pytest.mark.damages
async def test_what_is_not_serial_is_not_claimed_as_such_and_the_other_way_round(
    ledger: Ledger,
) -> None:
    (plain,) = await ledger.emit()
    await _order_by_key(ledger)
    (serial,) = await _owe(ledger, 1)
    flows = await list_due_flows(ledger.connection, 10)
    assert [(flow.has_plain, flow.has_serial) for flow in flows] == [(True, True)]
    async with ledger.connection.transaction():
        rows = await claim_items(ledger.connection, [flows[0].flow_no], [10])
        assert [row.id for row in rows.items()] == [plain]
        transaction_rows = await claim_serial_items(
            ledger.connection, [flows[0].flow_no], [10], ledger.worker_no
        )
        assert [row.id for row in transaction_rows.items()] == [serial]
        await ledger.connection.execute("delete from ledger.held_key")


async def test_a_failed_item_holds_its_key_until_it_ends(ledger: Ledger) -> None:
    await _order_by_key(ledger)
    first, second = await _owe(ledger, 2)
    runs = await _start_free_items(ledger)
    await ledger.settle(runs[first], FAILED, after_seconds=0)
    runs = await _start_free_items(ledger)
    assert list(runs) == [first]
    await ledger.settle(runs[first], TransitionEvent.PARKED)
    assert await _start_free_items(ledger) == {}
    assert await ledger.state_of(first) is State.MANUAL_REVIEW
    await redrive_items(ledger.connection, [first], reason="mended", actor_no=ledger.worker_no)
    runs = await _start_free_items(ledger)
    assert list(runs) == [first]
    await ledger.settle(runs[first], TransitionEvent.PARKED)
    await write_off_items(ledger.connection, [first], reason="gone", actor_no=ledger.worker_no)
    assert list(await _start_free_items(ledger)) == [second]
    await ledger.check_balance()


async def test_a_failed_item_lets_the_next_pass_where_its_kind_says_so(ledger: Ledger) -> None:
    await _order_by_key(ledger, failure_holds=False)
    first, second = await _owe(ledger, 2)
    runs = await _start_free_items(ledger)
    assert await _start_free_items(ledger) == {}
    await ledger.settle(runs[first], FAILED, after_seconds=3600)
    assert list(await _start_free_items(ledger)) == [second]


async def test_g5_an_earlier_item_that_comes_late_never_locks_out_the_holder(
    ledger: Ledger,
) -> None:
    await _order_by_key(ledger)
    holder, _ = await _owe(ledger, 2)
    runs = await _start_free_items(ledger)
    (early,) = await _owe(ledger, 1)
    await ledger.connection.execute(
        "update ledger.pending set serial_due_at = serial_due_at - interval '1 day' where item_no ="
        " (select item_no from ledger.due_item where id = $1)",
        early,
    )
    await ledger.settle(runs[holder], FAILED, after_seconds=0)
    runs = await _start_free_items(ledger)
    assert list(runs) == [holder]
    await ledger.settle(runs[holder], COMPLETED)
    assert list(await _start_free_items(ledger)) == [early]


@pytest.mark.parametrize(
    ("overlap", "states"),
    [
        (Overlap.WAIT, [State.SCHEDULED, State.SCHEDULED]),
        (Overlap.SKIP, [State.SKIPPED, State.SKIPPED]),
        (Overlap.BUFFER_ONE, [State.SCHEDULED, State.SKIPPED]),
        (Overlap.CANCEL_OTHER, [State.SKIPPED, State.SCHEDULED]),
    ],
    ids=lambda value: value.name if isinstance(value, Overlap) else "",
)
async def test_g2_what_comes_while_its_key_is_held_does_as_its_overlap_says(
    ledger: Ledger, overlap: Overlap, states: list[State]
) -> None:
    (holder,) = await _owe(ledger, 1, overlap)
    runs = await _start_free_items(ledger)
    later = await _owe(ledger, 2, overlap)
    assert await _start_free_items(ledger) == {}
    assert [await ledger.state_of(item) for item in later] == states
    asked = await ledger.connection.fetchval("select count(*) from ledger.withdrawal")
    assert asked == (1 if overlap is Overlap.CANCEL_OTHER else 0)
    await ledger.settle(runs[holder], COMPLETED)
    waiting = [item for item, state in zip(later, states, strict=True) if state is State.SCHEDULED]
    assert list(await _start_free_items(ledger)) == waiting[:1]
    await ledger.check_balance()


async def test_g2_of_several_that_oust_each_other_the_newest_alone_runs(ledger: Ledger) -> None:
    together = await _owe(ledger, 3, Overlap.CANCEL_OTHER)
    runs = await _start_free_items(ledger)
    assert list(runs) == together[2:]
    (waiting,) = await _owe(ledger, 1, Overlap.CANCEL_OTHER, after=timedelta(hours=1))
    assert await _start_free_items(ledger) == {}
    (late,) = await _owe(ledger, 1, Overlap.CANCEL_OTHER)
    (newest,) = await _owe(ledger, 1, Overlap.CANCEL_OTHER, after=timedelta(hours=2))
    assert await _start_free_items(ledger) == {}
    for item in (*together[:2], waiting, late):
        assert await ledger.state_of(item) is State.SKIPPED
    await ledger.settle(runs[together[2]], COMPLETED)
    assert list(await _start_free_items(ledger)) == [newest]
    await ledger.check_balance()


async def test_an_older_one_that_comes_late_does_not_oust_the_holder(ledger: Ledger) -> None:
    await _owe(ledger, 1, Overlap.CANCEL_OTHER, after=timedelta(hours=1))
    await _start_free_items(ledger)
    (late,) = await _owe(ledger, 1, Overlap.CANCEL_OTHER)
    assert await _start_free_items(ledger) == {}
    assert await ledger.state_of(late) is State.SKIPPED
    assert await ledger.connection.fetchval("select count(*) from ledger.withdrawal") == 0


async def test_g2_a_retry_that_lost_its_key_is_cancelled_by_a_newer_occurrence(
    ledger: Ledger,
) -> None:
    await put_kind_policy(ledger.connection, KindPolicy("acme", ledger.kind, failure_holds=False))
    (first,) = await _owe(ledger, 1, Overlap.CANCEL_OTHER)
    await ledger.settle((await _start_free_items(ledger))[first], FAILED, after_seconds=0)
    (second,) = await _owe(ledger, 1, Overlap.CANCEL_OTHER, after=timedelta(hours=1))
    assert list(await _start_free_items(ledger)) == [second]
    await apply_withdrawals(ledger.connection, 10)
    assert await ledger.state_of(first) is State.CANCELLED


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.BUFFER_ONE, Overlap.CANCEL_OTHER])
async def test_g2_nothing_ends_or_waits_because_of_what_a_paused_lane_holds(
    ledger: Ledger, overlap: Overlap
) -> None:
    await _owe(ledger, 1, overlap, lane="eu")
    await _owe(ledger, 1, overlap, lane="eu", after=timedelta(hours=2))
    (free,) = await _owe(ledger, 1, overlap, after=timedelta(hours=1))
    eu = FlowScope("acme", ledger.kind, "eu")
    await pause_flows(ledger.connection, eu, reason="test", actor_no=ledger.worker_no)
    assert list(await _start_free_items(ledger)) == [free]


async def test_g2_a_redriven_item_ends_no_other_and_is_ended_by_none(ledger: Ledger) -> None:
    await put_kind_policy(ledger.connection, KindPolicy("acme", ledger.kind, failure_holds=False))
    (parked,) = await _owe(ledger, 1, Overlap.SKIP)
    await ledger.settle((await _start_free_items(ledger))[parked], TransitionEvent.PARKED)
    await redrive_items(ledger.connection, [parked], reason="mended", actor_no=ledger.worker_no)
    (round_,) = await _owe(ledger, 1, Overlap.SKIP, after=timedelta(hours=1))
    runs = await _start_free_items(ledger)
    assert list(runs) == [round_]
    assert await ledger.state_of(parked) is State.SCHEDULED
    await ledger.settle(runs[round_], COMPLETED)
    assert list(await _start_free_items(ledger)) == [parked]


@pytest.mark.parametrize("overlap", [Overlap.BUFFER_ONE, Overlap.CANCEL_OTHER])
async def test_g2_two_claimers_at_once_keep_one_waiting(
    ledger: Ledger, database: str, overlap: Overlap
) -> None:
    (holder,) = await _owe(ledger, 1, overlap)
    runs = await _start_free_items(ledger)
    early, other = [
        (await _owe(ledger, 1, overlap, lane=lane, after=timedelta(hours=1)))[0]
        for lane in ("a", "b")
    ]
    flows = {flow.lane: flow.flow_no for flow in await list_due_flows(ledger.connection, 10)}
    rival = await connect(database, application_name="rival")
    async with rival.transaction():
        assert await claim_serial_items(rival, [flows["a"]], [10], ledger.worker_no) == []
        assert await _start_free_items(ledger) == {}
    await rival.close()
    assert await _start_free_items(ledger) == {}
    states = [await ledger.state_of(item) for item in (early, other)]
    assert sorted(states) == [State.SCHEDULED, State.SKIPPED]
    await ledger.settle(runs[holder], COMPLETED)
    assert len(await _start_free_items(ledger)) == 1
    assert await _start_free_items(ledger) == {}


async def test_g5_the_sweep_wakes_what_no_settlement_woke(ledger: Ledger) -> None:
    await _order_by_key(ledger)
    _, second = await _owe(ledger, 2)
    await _start_free_items(ledger)
    assert await _start_free_items(ledger) == {}
    assert (await release_keys(ledger.connection, None, 100)).unblocked == 0
    await ledger.connection.execute("delete from ledger.held_key")  # as an end unseen would
    assert (await release_keys(ledger.connection, None, 100)).unblocked == 1
    assert list(await _start_free_items(ledger)) == [second]


async def test_the_sweep_wakes_nothing_behind_an_earlier_item_that_is_due(ledger: Ledger) -> None:
    await _order_by_key(ledger)
    holder, second, third = await _owe(ledger, 3)
    runs = await _start_free_items(ledger)
    assert await _start_free_items(ledger) == {}
    await ledger.settle(runs[holder], COMPLETED)  # wakes the second, which nobody has claimed yet
    assert (await release_keys(ledger.connection, None, 100)).unblocked == 0
    runs = await _start_free_items(ledger)
    assert list(runs) == [second]
    await ledger.settle(runs[second], COMPLETED)
    assert list(await _start_free_items(ledger)) == [third]


async def test_upkeep_visits_every_key_some_at_a_time(ledger: Ledger) -> None:
    await _order_by_key(ledger)
    for number in range(5):
        await _owe(ledger, 2, key=f"key-{number}")
    await _start_free_items(ledger)
    assert await _start_free_items(ledger) == {}
    await ledger.connection.execute("delete from ledger.held_key")
    reached: int | None = None
    woken: list[int] = []
    for _ in range(3):
        answer = await release_keys(ledger.connection, reached, 2)
        woken.append(answer.unblocked)
        reached = answer.reached
    assert woken == [2, 2, 1]
    assert reached is None


async def test_one_pass_of_upkeep_wakes_many_keys_and_reads_few_that_are_held(
    ledger: Ledger, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "KEYS_MAX", 1)
    await _order_by_key(ledger)
    keys = upkeep.EMPTY_KEY_BATCHES_MAX + 2
    for number in range(keys):
        await _owe(ledger, 2, key=f"key-{number}")
    await _start_free_items(ledger)
    assert await _start_free_items(ledger) == {}
    async with open_pool(database, application_name="upkeep") as pool:
        keeper = upkeep.Upkeep(pool, actor_no=ledger.worker_no, seconds=1.0, role="test")
        assert (await keeper.tick())["unblocked"] == 0
        # The pass above stopped before the last keys, and the next goes on from there.
        await ledger.connection.execute("delete from ledger.held_key")
        assert (await keeper.tick())["unblocked"] == keys - upkeep.EMPTY_KEY_BATCHES_MAX
        assert (await keeper.tick())["unblocked"] == upkeep.EMPTY_KEY_BATCHES_MAX
