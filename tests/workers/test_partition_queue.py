"""Offsets never pass an unsettled item, in whatever order runs end."""

import random

from hypothesis import given
from hypothesis import strategies as st

from dueledger.ledger.store.runs import RunId, StartResult
from dueledger.workers.claim_slices import ClaimSlice, UnreadableItem
from dueledger.workers.open_run import OpenRun
from dueledger.workers.start.partition_queue import PartitionQueue
from dueledger.workers.verdict_outcomes import parked

from .test_claim_slices import claim_id

DONE = parked("done")


def make_slice(fence: int, size: int, first_offset: int) -> ClaimSlice:
    items = [UnreadableItem(str(number)) for number in range(size)]
    suspects_max = 8 if fence % 3 == 0 else None
    return ClaimSlice(claim_id(fence), "Kind", 1, first_offset, list(items), suspects_max)


def start(part: ClaimSlice, run_no: int, *withdrawn: int) -> StartResult:
    return StartResult(
        fence=part.fence,
        from_position=part.from_position,
        to_position=part.to_position,
        run=RunId(run_no, part.claim_id.claimed_at, part.claim_id.claimed_at),
        started_to=part.to_position,
        closed=False,
        withdrawn=withdrawn,
    )


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 2**32))
def test_g5_offsets_stop_at_the_lowest_item_that_is_not_settled(
    sizes: list[int], seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311  # a scramble that can be repeated
    queue = PartitionQueue()
    offset = 100
    for fence, size in enumerate(sizes, 1):
        queue.add([make_slice(fence, size, offset)], offset + size, 1)
        offset += size
    unsettled = set(range(100, offset))
    runs: list[OpenRun] = []
    assert queue.committable_offset() == 100
    while unsettled:
        if queue.has_queued and chance.random() < 0.5:
            suspects = bool(queue.suspects) and (not queue.queued or chance.random() < 0.5)
            part = queue.start_next(chance.randint(1, 9), suspects=suspects)
            match chance.randint(0, 3):
                case 0:
                    queue.requeue(part)
                case 1:
                    queue.drop(part)
                    unsettled -= set(range(part.first_offset, part.end_offset))
                case _:
                    run = OpenRun(start(part, len(runs)), part, lease_until=0)
                    queue.replace_with_runs(part, [run])
                    runs.append(run)
        elif runs:
            run = chance.choice(runs)
            size = len(run.items)
            for index in chance.sample(range(size), chance.randint(1, size)):
                run.end(index, DONE)
            sent = run.take_unsent()
            run.mark_settled(sent)
            unsettled -= {
                run.first_offset + index for index, ending in enumerate(sent) if ending is not None
            }
        assert queue.committable_offset() == min(unsettled, default=offset)


def test_an_item_ends_once_and_a_stopped_run_ends_nothing_more() -> None:
    part = make_slice(7, 3, 0)
    run = OpenRun(start(part, 1, 2), part, lease_until=0)
    assert (run.open_count, run.unsettled_count) == (2, 2)
    run.end(0, DONE)
    run.end(0, parked("again"))
    assert run.take_unsent() == [DONE, None, None]
    run.stop_handlers()
    run.end(2, DONE)
    assert run.unsent_count == 0
    assert not run.is_settled
    run.abandon()
    assert run.is_settled
    run.mark_ended_in_ledger(2)  # a transaction of the handler committed all the same
    assert run.is_settled


def test_suspects_that_wait_leave_the_queue_its_capacity_for_other_items() -> None:
    queue = PartitionQueue()
    queue.add([make_slice(3, 2, 0)], 2, 60)
    for offset in range(2, 10, 2):  # suspects go on waiting
        queue.add([make_slice(1, 2, offset)], offset + 2, 60)
        assert not queue.is_full(3, 100)
        assert queue.buffered() == 2
        queue.drop(queue.start_next(2))
    queue.add([make_slice(1, 1, 10), make_slice(6, 1, 11)], 12, 60)
    assert not queue.is_full(4, 100)
    assert queue.is_full(3, 100)
    assert queue.is_full(4, 90)
    queue.drop(queue.start_next(2, suspects=True))
    assert not queue.is_full(3, 100)


def test_a_feed_is_full_by_items_or_by_bytes_until_nothing_waits_in_it() -> None:
    queue = PartitionQueue()
    assert not queue.is_full(10, 100)
    queue.add([make_slice(1, 2, 0)], 2, 99)
    assert not queue.is_full(10, 100)
    assert queue.is_full(2, 100)
    queue.add([make_slice(2, 1, 2)], 3, 1)
    assert queue.is_full(10, 100)
    while queue.queued:
        queue.drop(queue.start_next(2))
    assert not queue.is_full(10, 100)
    queue.add([make_slice(3, 1, 3)], 4, 99)
    assert not queue.is_full(10, 100)


def test_a_queue_is_behind_until_a_slice_of_an_open_claim_is_first() -> None:
    queue = PartitionQueue()
    queue.add([make_slice(1, 2, 0), make_slice(3, 2, 2)], 4, 1)
    queue.is_behind = True
    queue.drop_closed({claim_id(1): 1, claim_id(3): 0})
    assert queue.is_behind  # what is polled next may be of closed claims, too
    queue.add([make_slice(1, 2, 4), make_slice(2, 2, 6)], 8, 1)
    assert queue.drop_closed({claim_id(1): 1}) == (1, 1)
    assert not queue.is_behind
    assert [each.fence for each in queue.queued_slices()] == [2]
