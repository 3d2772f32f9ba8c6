"""The shares of a pool: weights hold over time, beside a flood, and within its capacity."""

from collections import Counter
from math import inf
from operator import attrgetter

from hypothesis import example, given
from hypothesis import strategies as st

from dueledger.ledger.flows.queue import FlowQueue
from dueledger.ledger.flows.shares import FlowShare, ShareResult, split_by_demand
from dueledger.ledger.store.claims import DueFlow, PendingFloor
from dueledger.workers.direct.pool_shares import PoolCapacity, next_pool_shares

KIND = "RenewalDue"


def flow(number: int, weight: int = 1, **changed: object) -> DueFlow:
    listed = DueFlow(
        number, "acme", KIND, f"lane-{number}", "due.RenewalDue", weight, 120, 30, None, 60
    )
    return listed._replace(**changed)


def new_queue() -> FlowQueue[str]:
    return FlowQueue[str](attrgetter("kind"), serial_apart=True)


def relist(queue: FlowQueue[str], flows: list[DueFlow], *, asked_at: float) -> None:
    queue.update(flows, asked_at=asked_at)
    queue.remove_unlisted(asked_at=asked_at)


def is_ready(queue: FlowQueue[str], *, now: float) -> bool:
    queue.move_due(now)
    return KIND in queue.waiting_groups()


def serve(
    queue: FlowQueue[str], capacity: PoolCapacity, owed: dict[int, int], *, items_max: int = 4000
) -> list[FlowShare]:
    """Requeue each share with the items left of its flow."""
    shares = next_pool_shares(queue, KIND, capacity, items_max=items_max, flows_max=500)
    for share in shares:
        taken = min(share.quota, owed[share.flow.flow_no])
        owed[share.flow.flow_no] -= taken
        queue.requeue_by_weight(
            share, ShareResult(taken, has_more=taken >= share.quota), asked_at=0.0
        )
    return shares


def test_g12_weights_hold_where_a_pool_has_capacity_for_one_item_at_a_time() -> None:
    queue = new_queue()
    relist(queue, [flow(1, weight=3), flow(2, weight=1)], asked_at=0.0)
    owed = {1: 1000, 2: 1000}
    for _ in range(80):
        serve(queue, PoolCapacity(1, 1), owed)
    assert owed == {1: 1000 - 60, 2: 1000 - 20}


def test_g12_a_flow_that_had_few_items_gains_nothing_by_that_beside_a_flood() -> None:
    queue = new_queue()
    relist(queue, [flow(1), flow(2)], asked_at=0.0)
    served: Counter[int] = Counter()
    for second in range(2000):
        queue.move_due(float(second))
        for share in next_pool_shares(
            queue, KIND, PoolCapacity(1, 1), items_max=4000, flows_max=500
        ):
            number, has_few = share.flow.flow_no, second < 1000
            served[number] += not has_few
            few = number == 1 and has_few  # one item, the next is due in five seconds
            result = ShareResult(1, has_more=not few, next_seconds=5.0 if few else None)
            queue.requeue_by_weight(share, result, asked_at=float(second))
    assert served == {1: 500, 2: 500}


def test_g12_weights_hold_in_one_claim_where_the_pool_has_less_capacity_than_is_due() -> None:
    queue = new_queue()
    relist(queue, [flow(1, weight=3), flow(2, weight=1)], asked_at=0.0)
    owed = {1: 100_000, 2: 100_000}
    for _ in range(9):
        serve(queue, PoolCapacity(4, 1000), owed)
    shares = serve(queue, PoolCapacity(4, 1000), owed)
    assert {share.flow.flow_no: share.quota for share in shares} == {1: 3000, 2: 1000}


def test_g12_a_light_flow_gets_all_it_needs_beside_a_flood_and_the_flood_smaller_claims() -> None:
    queue = new_queue()
    relist(queue, [flow(1)], asked_at=0.0)
    owed = {1: 1_000_000, 2: 3}
    for _ in range(9):
        serve(queue, PoolCapacity(8, 1000), owed)
    shares = serve(queue, PoolCapacity(8, 1000), owed)
    assert [share.quota for share in shares] == [4000]
    relist(queue, [flow(1), flow(2)], asked_at=0.0)
    shares = serve(queue, PoolCapacity(8, 1000), owed)
    assert owed[2] == 0
    assert sum(share.quota for share in shares) <= 1000


def test_a_flow_that_returns_gains_nothing_by_its_absence() -> None:
    queue = new_queue()
    owed = {1: 1000, 2: 1000}
    relist(queue, [flow(1)], asked_at=0.0)
    for _ in range(50):
        serve(queue, PoolCapacity(1, 1), owed)
    relist(queue, [flow(1), flow(2)], asked_at=0.0)
    for _ in range(20):
        serve(queue, PoolCapacity(1, 1), owed)
    assert 9 <= 1000 - owed[2] <= 11


def test_flows_with_claims_of_their_own_never_have_more_claims_than_there_are_calls() -> None:
    queue = new_queue()
    relist(
        queue,
        [flow(1), flow(2), *(flow(number, is_limited=True) for number in range(3, 9))],
        asked_at=0.0,
    )
    shares = next_pool_shares(queue, KIND, PoolCapacity(3, 100), items_max=4000, flows_max=500)
    apart = [share for share in shares if share.needs_own_claim]
    together = [share for share in shares if not share.needs_own_claim]
    assert [share.flow.flow_no for share in together] == [1, 2]
    assert len(apart) == 2
    assert all(share.quota <= 100 for share in apart)


def test_a_flow_is_ready_again_when_its_next_item_is_due_and_not_before() -> None:
    queue = new_queue()
    relist(queue, [flow(1)], asked_at=0.0)
    (share,) = next_pool_shares(queue, KIND, PoolCapacity(1, 10), items_max=10, flows_max=10)
    queue.requeue_by_weight(share, ShareResult(1, next_seconds=2.5), asked_at=1.0)
    assert not is_ready(queue, now=3.4)
    assert queue.next_due_at() == 3.5
    assert is_ready(queue, now=3.5)
    assert queue.next_due_at() == inf


def test_a_flow_that_is_listed_for_later_waits_for_its_time() -> None:
    queue = new_queue()
    relist(queue, [flow(1, due_seconds=0.5)], asked_at=10.0)
    assert not is_ready(queue, now=10.0)
    assert queue.next_due_at() == 10.5


def test_a_limited_flow_is_tried_less_and_less_often_until_some_of_its_items_end() -> None:
    queue = new_queue()
    relist(queue, [flow(1, is_limited=True)], asked_at=0.0)
    now = 0.0
    pauses: list[float] = []
    for _ in range(12):
        (share,) = next_pool_shares(queue, KIND, PoolCapacity(1, 1), items_max=10, flows_max=10)
        queue.requeue_by_weight(share, ShareResult(0), asked_at=now)
        pauses.append(queue.next_due_at() - now)
        relist(queue, [flow(1, is_limited=True)], asked_at=now)  # changes nothing of it
        now = queue.next_due_at()
        assert is_ready(queue, now=now)
    assert pauses == sorted(pauses)
    assert 1.0 < pauses[-1] < 2.0
    (share,) = next_pool_shares(queue, KIND, PoolCapacity(1, 1), items_max=10, flows_max=10)
    queue.requeue_by_weight(share, ShareResult(0), asked_at=now)
    queue.check_soon(1, now=now)
    assert is_ready(queue, now=now)


def test_a_flow_whose_limits_changed_is_ready_at_once() -> None:
    queue = new_queue()
    relist(queue, [flow(1, is_limited=True)], asked_at=0.0)
    (share,) = next_pool_shares(queue, KIND, PoolCapacity(1, 1), items_max=10, flows_max=10)
    queue.requeue_by_weight(share, ShareResult(0, next_seconds=60.0), asked_at=0.0)
    relist(queue, [flow(1)], asked_at=1.0)
    assert is_ready(queue, now=1.0)


def test_a_flow_that_is_no_longer_listed_is_removed() -> None:
    queue = new_queue()
    relist(queue, [flow(1)], asked_at=0.0)
    relist(queue, [], asked_at=1.0)
    assert not is_ready(queue, now=2.0)


def test_the_floor_moves_as_a_flood_is_claimed_and_a_list_sets_it_back() -> None:
    queue = new_queue()
    listed = flow(1)
    relist(queue, [listed], asked_at=0.0)
    (share,) = next_pool_shares(queue, KIND, PoolCapacity(1, 10), items_max=10, flows_max=10)
    assert share.floor == PendingFloor(listed.floor_at, listed.floor_block)
    moved = PendingFloor(listed.floor_at, 7)
    queue.requeue_by_weight(share, ShareResult(10, has_more=True, floor=moved), asked_at=0.0)
    (share,) = next_pool_shares(queue, KIND, PoolCapacity(1, 10), items_max=10, flows_max=10)
    assert share.floor == moved
    queue.requeue_by_weight(share, ShareResult(10, has_more=True), asked_at=0.5)
    relist(queue, [listed], asked_at=1.0)
    (share,) = next_pool_shares(queue, KIND, PoolCapacity(1, 10), items_max=10, flows_max=10)
    assert share.floor == PendingFloor(listed.floor_at, listed.floor_block)


@given(
    st.lists(st.tuples(st.integers(1, 100), st.integers(1, 5000)), min_size=1, max_size=50),
    st.integers(0, 10_000),
)
def test_a_split_gives_each_at_least_one_and_at_most_what_it_wants_until_all_have_enough(
    flows: list[tuple[int, int]], spare: int
) -> None:
    count = len(flows) + spare
    wanted = [want for _, want in flows]
    parts = split_by_demand(count, [weight for weight, _ in flows], wanted)
    assert all(1 <= part <= want for part, want in zip(parts, wanted, strict=True))
    assert sum(parts) == min(count, sum(wanted))


@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.integers(0, 300), st.booleans()), min_size=1, max_size=30
    ),
    st.integers(1, 20),
    st.integers(1, 50),
    st.integers(1, 400),
)
@example([(1, 0, True), (1, 0, True), (4, 0, False)], 6, 1, 3)
def test_shares_fit_the_capacity_and_everything_owed_is_served_in_the_end(
    flows: list[tuple[int, int, bool]], calls: int, batch_max: int, items_max: int
) -> None:
    queue = new_queue()
    capacity = PoolCapacity(calls, batch_max)
    listed = [flow(no, weight, is_limited=apart) for no, (weight, _, apart) in enumerate(flows)]
    owed = {no: owes for no, (_, owes, _) in enumerate(flows)}
    relist(queue, listed, asked_at=0.0)
    for _ in range(20_000):
        if not is_ready(queue, now=0.0):
            break
        shares = next_pool_shares(queue, KIND, capacity, items_max=items_max, flows_max=10)
        assert shares
        claims: Counter[int | None] = Counter()
        for share in shares:
            claims[share.ticket if share.needs_own_claim else None] += share.quota
        assert sum(-(-items // batch_max) for items in claims.values()) <= calls
        assert sum(claims.values()) <= max(items_max, len(claims))
        for share in shares:
            taken = min(share.quota, owed[share.flow.flow_no])
            owed[share.flow.flow_no] -= taken
            more = taken >= share.quota
            queue.requeue_by_weight(
                share, ShareResult(taken, has_more=more, next_seconds=9e9), asked_at=0.0
            )
    assert sum(owed.values()) == 0
