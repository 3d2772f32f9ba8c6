"""The shares of a claim: within the capacity of each topic, and by weight."""

from dueledger.allocator.admission_group import AdmissionGroup, admission_group_of
from dueledger.allocator.choose.topic_shares import (
    COUNTED_FLOWS_MAX,
    MOST_ITEMS,
    next_topic_shares,
    with_spare,
)
from dueledger.ledger.flows.queue import FlowQueue
from dueledger.ledger.flows.shares import FlowLoad, FlowShare
from dueledger.ledger.store.claims import DueFlow


def flow(number: int, weight: int = 1, *, topic: str = "due.Kind") -> DueFlow:
    return DueFlow(number, "acme", "Kind", f"lane-{number}", topic, weight, 60, 30, None, 60)


def queued(*flows: DueFlow) -> FlowQueue[AdmissionGroup]:
    queue = FlowQueue(admission_group_of)
    queue.update(flows, asked_at=0.0)
    return queue


def quotas(shares: list[FlowShare]) -> list[tuple[int, int]]:
    return [(share.flow.flow_no, share.quota) for share in shares]


def test_a_topic_has_no_more_than_its_capacity_and_that_by_weight() -> None:
    queue = queued(flow(1, topic="a"), flow(2, 3, topic="a"), flow(3, topic="b"))

    shares = next_topic_shares(
        queue, FlowLoad.LIGHT, 100, 10, lambda group: 4 if group.topic == "a" else 1000
    )

    assert quotas(shares) == [(1, 1), (2, 3), (3, 20)]


def test_a_capacity_smaller_than_the_number_of_flows_goes_to_those_that_are_next() -> None:
    queue = queued(*(flow(number) for number in range(1, 6)))

    first = next_topic_shares(queue, FlowLoad.LIGHT, 100, 10, lambda _: 2)
    full = {share.flow.flow_no: share.quota for share in first}
    assert queue.requeue_at_end(first, full, now=1.0) == []
    second = next_topic_shares(queue, FlowLoad.LIGHT, 100, 10, lambda _: 2)

    assert quotas(first) == [(1, 1), (2, 1)]
    assert quotas(second) == [(3, 1), (4, 1)]


def test_few_counted_flows_are_admitted_at_once_and_the_others_pass_them() -> None:
    counted = [flow(number)._replace(is_limited=True, is_counted=True) for number in range(100)]
    queue = queued(*counted, flow(100), flow(101))

    first = [
        number
        for number, _ in quotas(
            next_topic_shares(queue, FlowLoad.LIGHT, 1000, 500, lambda _: 1_000_000)
        )
    ]
    second = [
        number
        for number, _ in quotas(
            next_topic_shares(queue, FlowLoad.LIGHT, 1000, 500, lambda _: 1_000_000)
        )
    ]

    assert first == [*range(COUNTED_FLOWS_MAX), 100, 101]
    assert second == [*range(COUNTED_FLOWS_MAX, 2 * COUNTED_FLOWS_MAX)]


def test_limited_flows_share_the_capacity_of_their_topic_with_the_others() -> None:
    queue = queued(
        *(
            flow(number)._replace(is_limited=number % 2 == 0, is_counted=number % 2 == 0)
            for number in range(6)
        )
    )

    shares = next_topic_shares(queue, FlowLoad.LIGHT, 100, 10, lambda _: 3)

    assert quotas(shares) == [(0, 1), (1, 1), (2, 1)]


def test_a_topic_without_capacity_does_not_block_the_others() -> None:
    queue = queued(*(flow(number, topic="dry") for number in range(9)), flow(9, topic="wet"))

    def capacity(group: AdmissionGroup) -> int:
        return 0 if group.topic == "dry" else 10

    assert {group.topic for group in queue.waiting_groups([FlowLoad.LIGHT])} == {"dry", "wet"}
    shares = next_topic_shares(queue, FlowLoad.LIGHT, 100, 5, capacity)
    assert [number for number, _ in quotas(shares)] == [9]
    assert {group.topic for group in queue.waiting_groups([FlowLoad.LIGHT])} == {"dry"}
    assert not queue.waiting_groups([FlowLoad.HEAVY])


def test_small_shares_may_grow_by_weight_but_not_those_of_limited_flows() -> None:
    limited = flow(3)._replace(is_limited=True)
    shares = next_topic_shares(
        queued(flow(1), flow(2, 3), limited), FlowLoad.LIGHT, 40, 10, lambda _: 1000
    )

    assert [(share.quota, share.most) for share in with_spare(shares)] == [
        (8, 38),
        (24, 115),
        (8, 8),
    ]


def test_shares_do_not_grow_beyond_what_is_large_nor_into_the_capacity_of_another_topic() -> None:
    for *flows, items in (
        (flow(1), flow(2), 2 * MOST_ITEMS),
        (flow(1), flow(2, topic="due.Other"), 20),
        (flow(1), flow(2)._replace(has_serial=True), 20),
        (flow(1), flow(2)._replace(is_limited=True, settled_by_topic=True), 20),
    ):
        shares = next_topic_shares(queued(*flows), FlowLoad.LIGHT, items, 10, lambda _: 1000)

        assert len(shares) == 2
        assert with_spare(shares) == shares
