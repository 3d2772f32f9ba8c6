"""The flow queue: no flow is forgotten or starved, and none is queried without a reason."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from dueledger.allocator.admission_group import AdmissionGroup, admission_group_of
from dueledger.allocator.choose.topic_shares import next_topic_shares
from dueledger.ledger.flows.queue import FLOOR_RAISE_ITEMS, KNOWN_SECONDS, FlowQueue
from dueledger.ledger.flows.queued_flow import (
    BUCKET_SECONDS_MAX,
    EMPTY_RETRY_SECONDS_MAX,
    LIGHT_ITEMS_MAX,
    LIMIT_RETRY_SECONDS_MAX,
)
from dueledger.ledger.flows.shares import (
    FlowLoad,
    FlowShare,
    NextDueQuery,
    ScannedFlows,
    reached_shares,
    split_by_demand,
)
from dueledger.ledger.store.claims import FLOOR_MIN, OVERLAP_SECONDS, DueFlow, NextDue, PendingFloor
from dueledger.ledger.store.flow_limits import FlowAllowance

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def flow(number: int, weight: int = 1, *, topic: str = "due.Kind") -> DueFlow:
    return DueFlow(number, "acme", "Kind", f"lane-{number}", topic, weight, 60, 30, None, 60)


def next_due(number: int, seconds: float | None, *, block: int = 0) -> NextDue:
    return NextDue(
        number, plain=True, serial=False, due_seconds=seconds, floor_at=NOON, floor_block=block
    )


def plenty(group: AdmissionGroup) -> int:
    del group
    return 1_000_000


def relist(queue: FlowQueue[AdmissionGroup], flows: Iterable[DueFlow], *, asked_at: float) -> None:
    queue.update(flows, asked_at=asked_at)
    queue.remove_unlisted(asked_at=asked_at)


def listed(*flows: DueFlow) -> FlowQueue[AdmissionGroup]:
    queue = FlowQueue(admission_group_of)
    relist(queue, flows, asked_at=0.0)
    return queue


def take(
    queue: FlowQueue[AdmissionGroup],
    items: int = 100,
    load: FlowLoad = FlowLoad.LIGHT,
    *,
    now: float = 1.0,
) -> list[FlowShare]:
    queue.move_due(now)
    return next_topic_shares(queue, load, items, 500, plenty)


def serve(
    queue: FlowQueue[AdmissionGroup], shares: list[FlowShare], *, now: float = 1.0, **taken: int
) -> list[NextDueQuery]:
    """Requeue shares: with their full quota taken, or with the count given, as in `f1=3`."""
    got = {share.flow.flow_no: taken.get(f"f{share.flow.flow_no}", share.quota) for share in shares}
    return queue.requeue_at_end(shares, got, now=now)


def quotas(shares: list[FlowShare]) -> list[tuple[int, int]]:
    return [(share.flow.flow_no, share.quota) for share in shares]


def split_evenly(items: int, weights: list[int]) -> list[int]:
    """Split between flows that all want everything."""
    return split_by_demand(items, weights, [items] * len(weights))


@given(st.integers(1, 20_000), st.lists(st.integers(1, 1000), min_size=1, max_size=500))
def test_a_split_gives_each_at_least_one_and_leaves_nothing(items: int, weights: list[int]) -> None:
    quotas = split_evenly(items, weights)

    assert len(quotas) == len(weights)
    assert min(quotas) >= 1
    assert sum(quotas) == max(items, len(weights))


def test_a_split_follows_the_weights() -> None:
    assert split_evenly(100, [1, 1, 2]) == [25, 25, 50]
    assert split_evenly(10, [1, 1, 1]) == [4, 3, 3]
    assert split_evenly(2, [1, 1000]) == [1, 1]
    assert split_evenly(10, [1, 1, 1000]) == [1, 1, 8]


def test_a_flow_that_used_its_quota_is_served_again_after_the_others() -> None:
    queue = listed(flow(1), flow(2), flow(3))

    first = next_topic_shares(queue, FlowLoad.LIGHT, 10, 2, plenty)
    serve(queue, first)

    assert quotas(first) == [(1, 5), (2, 5)]
    assert [number for number, _ in quotas(take(queue))] == [3, 1, 2]


@given(
    st.dictionaries(st.integers(1, 60), st.integers(0, 3000), min_size=1),
    st.integers(1, 500),
    st.integers(1, 20),
)
def test_g12_every_flow_with_rows_is_served_to_its_end(
    rows: Mapping[int, int], items: int, flows_max: int
) -> None:
    queue = listed(*map(flow, rows))
    left = Counter(rows)

    for _ in range(2 * sum(rows.values()) + 2 * len(rows) + 2):
        for load in FlowLoad:
            shares = next_topic_shares(queue, load, items, flows_max, plenty)
            got = {
                share.flow.flow_no: min(share.quota, left[share.flow.flow_no]) for share in shares
            }
            left.subtract(got)
            queries = queue.requeue_at_end(shares, got, now=1.0)
            answers = [next_due(number, 0.0 if left[number] else None) for number, _, _ in queries]
            queue.update_next_due(queries, answers, asked_at=1.0)
        if not any(left.values()):
            break

    assert not any(left.values())


@given(st.integers(1, 40), st.integers(1, 300))
def test_between_two_shares_of_a_flow_each_other_flow_has_one(flows: int, claims: int) -> None:
    queue = listed(*map(flow, range(flows)))
    served: list[int] = []

    for _ in range(claims):
        shares = next_topic_shares(queue, FlowLoad.LIGHT, 70, 7, plenty)
        served += [share.flow.flow_no for share in shares]
        queue.requeue_at_end(
            shares, {share.flow.flow_no: share.quota // 2 + 1 for share in shares}, now=1.0
        )

    for start in range(len(served) - flows + 1):
        assert len(set(served[start : start + flows])) == flows


def test_g12_a_flood_is_served_with_the_heavy_flows_and_is_light_again_once_it_is_drained() -> None:
    queue = listed(flow(1), flow(2))

    serve(queue, take(queue, 2 * LIGHT_ITEMS_MAX), f2=3)

    assert quotas(take(queue, 4000, FlowLoad.HEAVY)) == [(1, 4000)]
    assert take(queue) == []
    queue = listed(flow(1))
    serve(queue, take(queue, LIGHT_ITEMS_MAX))
    serve(queue, take(queue, 4000, FlowLoad.HEAVY), f1=100)
    queue.update_next_due([NextDueQuery(1, FLOOR_MIN, 1.0)], [next_due(1, 0.0)], asked_at=1.0)
    assert quotas(take(queue, 1000)) == [(1, LIGHT_ITEMS_MAX)]


def test_of_thousands_of_flows_those_that_fill_small_shares_twice_are_heavy_too() -> None:
    queue = listed(flow(1), flow(2))

    serve(queue, take(queue, 10))
    serve(queue, take(queue, 10), f2=4)

    assert [number for number, _ in quotas(take(queue, 10, FlowLoad.HEAVY))] == [1]
    assert [number for number, _ in quotas(take(queue, 10))] == [2]


def test_flows_that_fill_their_shares_of_one_claim_are_a_flood_together() -> None:
    flows = LIGHT_ITEMS_MAX // 5 + 1
    for one, heavy in ((3, []), (5, list(range(1, flows)))):
        queue = listed(*map(flow, range(flows)))

        serve(queue, take(queue, 5 * flows), f0=3, f1=one)

        assert [number for number, _ in quotas(take(queue, 1000, FlowLoad.HEAVY))] == heavy
        assert 0 in dict(quotas(take(queue, 1000)))


def test_the_share_of_a_light_flow_is_bounded() -> None:
    assert quotas(take(listed(flow(1)), 1000)) == [(1, LIGHT_ITEMS_MAX)]


def test_a_new_list_keeps_the_order_removes_flows_that_are_not_due_and_applies_new_weights() -> (
    None
):
    queue = listed(flow(1), flow(2), flow(3))

    relist(queue, [flow(4), flow(3, weight=7), flow(1)], asked_at=1.0)

    shares = take(queue, 9)
    assert quotas(shares) == [(1, 1), (3, 7), (4, 1)]
    assert len(queue) == 3


def test_a_list_asked_for_before_a_flow_was_served_changes_nothing_of_it() -> None:
    queue = listed(flow(1), flow(2))
    shares = take(queue, now=5.0)
    queries = serve(queue, shares, now=5.0, f1=0, f2=0)
    queue.update_next_due(queries, [next_due(1, 3.0, block=4)], asked_at=5.0)

    relist(queue, [flow(2)], asked_at=4.0)

    assert take(queue, now=7.9) == []
    [share] = take(queue, now=8.0)
    assert (share.flow.flow_no, share.floor) == (1, PendingFloor(NOON, 4))


def test_a_list_that_comes_while_a_claim_is_made_changes_nothing_of_its_flows() -> None:
    queue = listed(flow(1))
    shares = take(queue)

    relist(queue, [], asked_at=2.0)
    serve(queue, shares)

    assert [number for number, _ in quotas(take(queue))] == [1]


def test_a_flow_waits_until_its_next_row_is_due() -> None:
    queue = listed(flow(1)._replace(due_seconds=2.5))

    assert queue.next_due_at() == 2.5
    assert take(queue, now=2.4) == []
    queries = serve(queue, take(queue, now=2.5), now=2.5, f1=1)
    queue.update_next_due(queries, [next_due(1, 0.5)], asked_at=2.6)
    assert queue.next_due_at() == 3.1


def test_a_list_may_leave_out_the_flows_that_are_queued_and_they_stay_in_their_order() -> None:
    """Not one that waits, found nothing, or has serial rows or a lag target."""
    others = [
        flow(3)._replace(due_seconds=9.0),
        flow(4)._replace(has_serial=True),
        flow(5)._replace(lag_target_seconds=0.1),
        flow(6),
    ]
    queue = listed(flow(1), flow(2), *others)
    shares = take(queue, 600)
    queue.return_unserved([share for share in shares if share.flow.flow_no != 6])
    queries = serve(queue, shares[-1:], f6=0)
    queue.update_next_due(queries, [next_due(6, 0)], asked_at=1.0)

    assert queue.known_ready(3, asked_at=2.0) == []
    assert queue.known_ready(2, asked_at=2.0) == [1, 2]

    relist(queue, others[:1], asked_at=2.0)
    assert [number for number, _ in quotas(take(queue, now=2.0))] == [1, 2]


def test_a_claim_that_says_when_the_next_row_is_due_spares_the_query() -> None:
    serial = flow(4)._replace(has_serial=True)
    queue = listed(flow(1), flow(2), flow(3), serial, flow(5), flow(6))
    shares = take(queue, 600)
    taken = {1: 3, 2: 3, 3: 0, 4: 3, 5: 3, 6: 64}

    queries = queue.requeue_at_end(
        shares, taken, now=1.0, scanned=ScannedFlows({1: 9.0, 2: inf, 3: 9.0, 4: 9.0, 6: 9.0})
    )

    # Others may have the rows of the third; rows of the fourth may wait behind a key.
    assert [query.flow_no for query in queries] == [3, 4, 5]
    assert [number for number, _ in quotas(take(queue))] == [6]  # it has more
    assert queue.next_due_at() == 9.0
    assert [number for number, _ in quotas(take(queue, now=9.0))] == [1]


def test_a_flow_with_a_new_item_is_queued_without_a_list() -> None:
    queue = listed(flow(1), flow(2))
    queue.requeue_at_end(take(queue), {1: 1, 2: 1}, now=1.0, scanned=ScannedFlows({1: inf, 2: 9.0}))
    assert take(queue) == []

    relist(queue, [], asked_at=0.9)  # both are kept for a while
    assert [queue.wake(number, NOON, now=0.9) for number in (1, 2, 3)] == [True, True, False]

    shares = take(queue)
    assert [number for number, _ in quotas(shares)] == [1, 2]
    # Their claims may not see what is written now.
    assert [queue.wake(number, NOON, now=0.9) for number in (1, 2)] == [False, False]


def test_a_flow_listed_long_ago_or_with_serial_rows_is_listed_for_its_new_item() -> None:
    queue = listed(flow(1), flow(2)._replace(has_serial=True))
    queue.requeue_at_end(take(queue), {1: 1, 2: 1}, now=1.0, scanned=ScannedFlows({1: inf, 2: inf}))

    assert not queue.wake(2, NOON, now=0.5)
    assert not queue.wake(1, NOON, now=KNOWN_SECONDS + 0.1)


def test_a_new_item_of_a_long_transaction_lowers_the_floor_of_its_flow() -> None:
    floors: list[tuple[datetime, int]] = []
    for since in (NOON, NOON - timedelta(seconds=2)):
        queue = listed(flow(1)._replace(floor_at=NOON - timedelta(seconds=1), floor_block=7))
        queue.requeue_at_end(take(queue), {1: 1}, now=1.0, scanned=ScannedFlows({1: inf}))
        assert queue.wake(1, since, now=0.5)
        [share] = take(queue)
        floors.append((share.floor.at, share.floor.block))

    assert floors == [(NOON - timedelta(seconds=1), 7), (NOON - timedelta(seconds=2), 0)]


def test_a_flow_that_found_nothing_and_waits_for_long_is_queued_when_a_list_has_due_rows() -> None:
    queue = listed(flow(1))
    queries = serve(queue, take(queue), f1=0)  # no due row was left
    queue.update_next_due(queries, [next_due(1, 3600)], asked_at=1.0)
    assert take(queue, now=2.0) == []

    relist(queue, [flow(1)], asked_at=3.0)  # a row emitted since, or woken behind its key

    assert [flow_no for flow_no, _ in quotas(take(queue, now=3.0))] == [1]


def test_a_flow_whose_rows_another_claimer_has_is_tried_less_and_less_often() -> None:
    queue = listed(flow(1))
    now, pauses = 1.0, list[float]()

    for _ in range(12):
        queries = serve(queue, take(queue, now=now), now=now, f1=0)
        queue.update_next_due(queries, [next_due(1, -1.0)], asked_at=now)
        wake_at = queue.next_due_at()
        pauses.append(round(wake_at - now, 3))
        now = wake_at

    assert pauses == sorted(pauses)
    assert pauses[0] == 0.01
    assert pauses[-1] == EMPTY_RETRY_SECONDS_MAX


def test_a_paused_flow_is_idle_until_it_is_listed_again() -> None:
    queue = listed(flow(1))
    queries = serve(queue, take(queue), f1=0)

    queue.update_next_due(queries, [], asked_at=1.0)

    assert queue.next_due_at() == inf
    assert not queue.has_active(FlowLoad.LIGHT)
    relist(queue, [flow(1)], asked_at=2.0)
    assert [number for number, _ in quotas(take(queue, now=2.0))] == [1]


def test_flows_that_could_not_be_served_are_first_again_in_their_order() -> None:
    queue = listed(flow(1), flow(2), flow(3))
    shares = next_topic_shares(queue, FlowLoad.LIGHT, 10, 2, plenty)

    queue.return_unserved(shares)

    assert [number for number, _ in quotas(take(queue))] == [1, 2, 3]


def test_an_ended_share_does_not_return_a_flow_that_has_another_one() -> None:
    queue = listed(flow(1))
    first = take(queue)
    serve(queue, first)
    second = take(queue)

    queue.return_unserved(first)
    assert take(queue) == []
    queue.return_unserved(second)

    assert [number for number, _ in quotas(take(queue))] == [1]


def test_a_served_flow_is_not_returned() -> None:
    queue = listed(flow(1))
    shares = take(queue)
    serve(queue, shares, f1=0)

    queue.return_unserved(shares)

    assert take(queue) == []


def test_an_exhausted_flow_is_left_out_and_checked_less_and_less_often() -> None:
    queue = listed(flow(1)._replace(is_limited=True))
    take(queue)
    queue.defer_limited([1], now=1.0)
    now, pauses = 1.0, list[float]()

    for _ in range(12):
        wake_at = queue.next_limit_check_at()
        pauses.append(round(wake_at - now, 3))
        now = wake_at
        assert take(queue, now=now) == []
        assert queue.limit_checks_due(10, now=now) == [1]
        queue.apply_allowances([1], {1: FlowAllowance(0, None)}, now=now)

    assert pauses == sorted(pauses)
    assert pauses[0] == 0.02
    assert pauses[-1] == LIMIT_RETRY_SECONDS_MAX
    queue.limit_checks_due(10, now=now + LIMIT_RETRY_SECONDS_MAX)
    queue.apply_allowances([1], {1: FlowAllowance(5, None)}, now=now)
    assert [number for number, _ in quotas(take(queue, now=now))] == [1]


def test_a_limited_flow_whose_check_failed_is_checked_again() -> None:
    queue = listed(flow(1)._replace(is_limited=True))
    take(queue)
    queue.defer_limited([1], now=1.0)

    assert queue.limit_checks_due(10, now=2.0) == [1]

    assert queue.limit_checks_due(10, now=2.0) == []
    assert queue.limit_checks_due(10, now=2.0 + LIMIT_RETRY_SECONDS_MAX) == [1]


def test_an_empty_bucket_is_checked_when_it_has_a_token_and_not_before() -> None:
    queue = listed(flow(1)._replace(is_limited=True), flow(2)._replace(is_limited=True))
    take(queue)
    queue.defer_limited([1, 2], now=1.0)
    assert queue.limit_checks_due(10, now=2.0) == [1, 2]

    queue.apply_allowances([1, 2], {1: FlowAllowance(0, 7.0), 2: FlowAllowance(0, 1e6)}, now=2.0)

    assert queue.limit_checks_due(10, now=8.9) == []
    assert queue.limit_checks_due(10, now=9.0) == [1]
    queue.apply_allowances([1], {1: FlowAllowance(5, None)}, now=9.0)
    assert queue.limit_checks_due(10, now=2.0 + BUCKET_SECONDS_MAX) == [2]


def test_a_flow_whose_rate_is_changed_or_removed_is_queued_by_the_next_list() -> None:
    slow = flow(1)._replace(is_limited=True, rate_per_second=0.001)
    queue = listed(slow, slow._replace(flow_no=2), slow._replace(flow_no=3))
    take(queue)
    queue.defer_limited([1, 2, 3], now=1.0)
    assert queue.limit_checks_due(10, now=1.2) == [1, 2, 3]
    queue.apply_allowances([1, 2, 3], dict.fromkeys([1, 2, 3], FlowAllowance(0, 1000.0)), now=1.2)

    relist(queue, [slow, slow._replace(flow_no=2, rate_per_second=5.0), flow(3)], asked_at=1.5)

    assert [number for number, _ in quotas(take(queue, now=1.5))] == [2, 3]


def test_a_serial_flow_is_queried_each_time() -> None:
    queue = listed(flow(1)._replace(has_plain=False, has_serial=True))

    queries = serve(queue, take(queue, 10))

    assert [query.flow_no for query in queries] == [1]
    queue.update_next_due(queries, [next_due(1, 0.0)], asked_at=1.0)
    [share] = take(queue)
    assert (share.flow.has_plain, share.flow.has_serial) == (True, False)


def test_floors_follow_a_flood_closely_and_a_light_flow_at_a_distance() -> None:
    queue = listed(flow(1), flow(2))
    serve(queue, take(queue, 2 * LIGHT_ITEMS_MAX), f2=0)

    queries = serve(queue, take(queue, FLOOR_RAISE_ITEMS, FlowLoad.HEAVY))

    assert queries == [NextDueQuery(1, FLOOR_MIN, 0.0)]
    queue.update_next_due(queries, [next_due(1, -1.0, block=7)], asked_at=1.0)
    [share] = take(queue, FLOOR_RAISE_ITEMS, FlowLoad.HEAVY)
    assert share.floor == PendingFloor(NOON, 7)
    light = listed(flow(2))
    assert serve(light, take(light), f2=0) == [NextDueQuery(2, FLOOR_MIN, OVERLAP_SECONDS)]


def test_a_flood_is_scanned_from_the_last_row_taken_if_it_filled_its_share() -> None:
    queue = listed(flow(1), flow(2))
    serve(queue, take(queue, 2 * LIGHT_ITEMS_MAX))

    shares = take(queue, 2 * FLOOR_RAISE_ITEMS, FlowLoad.HEAVY)
    last_rows = {1: (NOON, 7), 2: (NOON, 9)}
    taken = {1: FLOOR_RAISE_ITEMS, 2: FLOOR_RAISE_ITEMS - 300}
    queries = queue.requeue_at_end(
        shares, taken, now=1.0, scanned=ScannedFlows(last_rows=last_rows)
    )

    # The second may have left rows that another claimer had locked.
    assert queries == []
    floors = [share.floor for share in take(queue, 2, FlowLoad.HEAVY)]
    assert floors == [PendingFloor(NOON, 7), FLOOR_MIN]


def test_a_share_that_may_grow_is_over_once_the_claim_says_that_no_more_is_due() -> None:
    queue = listed(flow(1), flow(2), flow(3), flow(4))
    shares = [share._replace(spare=30) for share in take(queue, 40)]
    taken = {1: 35, 2: 40, 3: 3}

    reached = reached_shares(shares, taken)
    queries = queue.requeue_at_end(reached, taken, now=1.0, scanned=ScannedFlows({1: 9.0, 3: 9.0}))
    queue.return_unserved(shares)

    assert queries == []
    # The claim was full in the third, and did not reach the fourth, which keeps its place.
    assert [number for number, _ in quotas(take(queue))] == [4, 2, 3]
    assert [number for number, _ in quotas(take(queue, now=9.0))] == [1]


def test_all_shares_are_reached_without_spare_items_and_by_a_claim_that_found_none() -> None:
    shares = take(listed(flow(1), flow(2), flow(3)), 30)
    growing = [share._replace(spare=30) for share in shares]

    assert reached_shares(shares, {1: 10}) == shares
    assert reached_shares(growing, {}) == growing
    assert reached_shares(growing, {1: 40, 2: 2}) == [growing[0], shares[1]._replace(quota=2)]
    assert reached_shares([], {}) == []
