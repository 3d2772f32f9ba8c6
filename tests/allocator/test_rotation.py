"""Whose turn it is: by weight, nobody forgotten, nobody starved, and no look without a reason."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from dueledger.allocator.choose.flow_queue import (
    BUCKET_SECONDS_MAX,
    EMPTY_RETRY_SECONDS_MAX,
    FLOOR_RAISE_ITEMS,
    LIGHT_ITEMS_MAX,
    LIMIT_RETRY_SECONDS_MAX,
    FlowQueue,
)
from dueledger.allocator.choose.shares import (
    COUNTED_FLOWS_MAX,
    AdmissionGroup,
    FlowLoad,
    FlowShare,
    NextDueQuery,
    split_by_weight,
)
from dueledger.ledger.store.claims import FLOOR_MIN, OVERLAP_SECONDS, DueFlow, NextDue, PendingFloor
from dueledger.ledger.store.flow_limits import FlowAllowance

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def flow(number: int, weight: int = 1, *, topic: str = "due.Kind") -> DueFlow:
    return DueFlow(number, "acme", "Kind", f"lane-{number}", topic, weight, 60)


def next_due(number: int, seconds: float | None, *, block: int = 0) -> NextDue:
    return NextDue(
        number, plain=True, serial=False, due_seconds=seconds, floor_at=NOON, floor_block=block
    )


def plenty(gate: AdmissionGroup) -> int:
    del gate
    return 1_000_000


def relist(rotation: FlowQueue, flows: Iterable[DueFlow], *, asked_at: float) -> None:
    rotation.update(flows, asked_at=asked_at)
    rotation.remove_unlisted(asked_at=asked_at)


def listed(*flows: DueFlow) -> FlowQueue:
    rotation = FlowQueue()
    relist(rotation, flows, asked_at=0.0)
    return rotation


def take(
    rotation: FlowQueue, items: int = 100, load: FlowLoad = FlowLoad.LIGHT, *, now: float = 1.0
) -> list[FlowShare]:
    return rotation.next_shares(load, items, 500, plenty, now=now)


def serve(
    rotation: FlowQueue, shares: list[FlowShare], *, now: float = 1.0, **taken: int
) -> list[NextDueQuery]:
    """Serve shares: all they asked for, or what is said of a flow, as in `f1=3`."""
    got = {share.flow.flow_no: taken.get(f"f{share.flow.flow_no}", share.quota) for share in shares}
    return rotation.requeue(shares, got, now=now)


def quotas(shares: list[FlowShare]) -> list[tuple[int, int]]:
    return [(share.flow.flow_no, share.quota) for share in shares]


@given(st.integers(1, 20_000), st.lists(st.integers(1, 1000), min_size=1, max_size=500))
def test_a_split_gives_everybody_something_and_wastes_nothing(
    items: int, weights: list[int]
) -> None:
    quotas = split_by_weight(items, weights)

    assert len(quotas) == len(weights)
    assert min(quotas) >= 1
    assert sum(quotas) == max(items, len(weights))


def test_a_split_follows_the_weights() -> None:
    assert split_by_weight(100, [1, 1, 2]) == [25, 25, 50]
    assert split_by_weight(10, [1, 1, 1]) == [4, 3, 3]
    assert split_by_weight(2, [1, 1000]) == [1, 1]
    assert split_by_weight(10, [1, 1, 1000]) == [1, 1, 8]


def test_a_flow_that_used_its_quota_comes_again_after_the_others() -> None:
    rotation = listed(flow(1), flow(2), flow(3))

    first = rotation.next_shares(FlowLoad.LIGHT, 10, 2, plenty, now=1.0)
    serve(rotation, first)

    assert quotas(first) == [(1, 5), (2, 5)]
    assert [number for number, _ in quotas(take(rotation))] == [3, 1, 2]


@given(
    st.dictionaries(st.integers(1, 60), st.integers(0, 3000), min_size=1),
    st.integers(1, 500),
    st.integers(1, 20),
)
def test_g12_every_flow_with_rows_is_served_to_its_end(
    rows: Mapping[int, int], items: int, flows_max: int
) -> None:
    rotation = listed(*map(flow, rows))
    left = Counter(rows)

    for _ in range(2 * sum(rows.values()) + 2 * len(rows) + 2):
        for load in FlowLoad:
            shares = rotation.next_shares(load, items, flows_max, plenty, now=1.0)
            got = {
                share.flow.flow_no: min(share.quota, left[share.flow.flow_no]) for share in shares
            }
            left.subtract(got)
            questions = rotation.requeue(shares, got, now=1.0)
            answers = [
                next_due(number, 0.0 if left[number] else None) for number, _, _ in questions
            ]
            rotation.update_next_due(questions, answers, asked_at=1.0)
        if not any(left.values()):
            break

    assert not any(left.values())


@given(st.integers(1, 40), st.integers(1, 300))
def test_between_two_turns_of_a_flow_each_other_one_has_a_turn(flows: int, rounds: int) -> None:
    rotation = listed(*map(flow, range(flows)))
    turns: list[int] = []

    for _ in range(rounds):
        shares = rotation.next_shares(FlowLoad.LIGHT, 70, 7, plenty, now=1.0)
        turns += [share.flow.flow_no for share in shares]
        rotation.requeue(
            shares, {share.flow.flow_no: share.quota // 2 + 1 for share in shares}, now=1.0
        )

    for start in range(len(turns) - flows + 1):
        assert len(set(turns[start : start + flows])) == flows


def test_g12_a_flood_is_served_among_the_heavy_ones_and_comes_back_once_it_is_drained() -> None:
    rotation = listed(flow(1), flow(2))

    serve(rotation, take(rotation, 2 * LIGHT_ITEMS_MAX), f2=3)

    assert quotas(take(rotation, 4000, FlowLoad.HEAVY)) == [(1, 4000)]
    assert take(rotation) == []
    rotation = listed(flow(1))
    serve(rotation, take(rotation, LIGHT_ITEMS_MAX))
    serve(rotation, take(rotation, 4000, FlowLoad.HEAVY), f1=100)
    rotation.update_next_due([NextDueQuery(1, FLOOR_MIN, 1.0)], [next_due(1, 0.0)], asked_at=1.0)
    assert quotas(take(rotation, 1000)) == [(1, LIGHT_ITEMS_MAX)]


def test_of_thousands_of_flows_those_that_fill_small_shares_twice_are_heavy_too() -> None:
    rotation = listed(flow(1), flow(2))

    serve(rotation, take(rotation, 10))
    serve(rotation, take(rotation, 10), f2=4)

    assert [number for number, _ in quotas(take(rotation, 10, FlowLoad.HEAVY))] == [1]
    assert [number for number, _ in quotas(take(rotation, 10))] == [2]


def test_a_share_is_never_more_than_a_light_flow_may_have() -> None:
    assert quotas(take(listed(flow(1)), 1000)) == [(1, LIGHT_ITEMS_MAX)]


def test_a_new_list_keeps_places_drops_what_is_no_longer_due_and_takes_new_policy() -> None:
    rotation = listed(flow(1), flow(2), flow(3))

    relist(rotation, [flow(4), flow(3, weight=7), flow(1)], asked_at=1.0)

    shares = take(rotation, 9)
    assert quotas(shares) == [(1, 1), (3, 7), (4, 1)]
    assert len(rotation) == 3


def test_a_list_asked_for_before_a_flow_was_served_says_nothing_of_it() -> None:
    rotation = listed(flow(1), flow(2))
    shares = take(rotation, now=5.0)
    questions = serve(rotation, shares, now=5.0, f1=0, f2=0)
    rotation.update_next_due(questions, [next_due(1, 3.0, block=4)], asked_at=5.0)

    relist(rotation, [flow(2)], asked_at=4.0)

    assert take(rotation, now=7.9) == []
    [share] = take(rotation, now=8.0)
    assert (share.flow.flow_no, share.floor) == (1, PendingFloor(NOON, 4))


def test_a_list_that_comes_while_a_claim_is_made_leaves_its_flows_to_it() -> None:
    rotation = listed(flow(1))
    shares = take(rotation)

    relist(rotation, [], asked_at=2.0)
    serve(rotation, shares)

    assert [number for number, _ in quotas(take(rotation))] == [1]


def test_a_flow_rests_until_its_next_row_is_due() -> None:
    rotation = listed(replace(flow(1), due_seconds=2.5))

    assert rotation.next_due_at() == 2.5
    assert take(rotation, now=2.4) == []
    questions = serve(rotation, take(rotation, now=2.5), now=2.5, f1=1)
    rotation.update_next_due(questions, [next_due(1, 0.5)], asked_at=2.6)
    assert rotation.next_due_at() == 3.1


def test_a_flow_that_missed_a_turn_and_rests_for_long_is_awake_as_soon_as_something_is_due() -> (
    None
):
    rotation = listed(flow(1))
    questions = serve(rotation, take(rotation), f1=0)  # what was due had gone
    rotation.update_next_due(questions, [next_due(1, 3600)], asked_at=1.0)
    assert take(rotation, now=2.0) == []

    relist(rotation, [flow(1)], asked_at=3.0)  # a row emitted since, or woken behind its key

    assert [flow_no for flow_no, _ in quotas(take(rotation, now=3.0))] == [1]


def test_a_flow_whose_rows_are_in_anothers_hands_is_asked_for_less_and_less_often() -> None:
    rotation = listed(flow(1))
    now, pauses = 1.0, list[float]()

    for _ in range(12):
        questions = serve(rotation, take(rotation, now=now), now=now, f1=0)
        rotation.update_next_due(questions, [next_due(1, -1.0)], asked_at=now)
        wake_at = rotation.next_due_at()
        assert wake_at is not None
        pauses.append(round(wake_at - now, 3))
        now = wake_at

    assert pauses == sorted(pauses)
    assert pauses[0] == 0.01
    assert pauses[-1] == EMPTY_RETRY_SECONDS_MAX


def test_a_flow_that_is_paused_is_forgotten_until_it_is_listed_again() -> None:
    rotation = listed(flow(1))
    questions = serve(rotation, take(rotation), f1=0)

    rotation.update_next_due(questions, [], asked_at=1.0)

    assert rotation.next_due_at() is None
    assert not rotation.has_active(FlowLoad.LIGHT)
    relist(rotation, [flow(1)], asked_at=2.0)
    assert [number for number, _ in quotas(take(rotation, now=2.0))] == [1]


def test_a_topic_has_no_more_than_its_room_and_that_by_weight() -> None:
    rotation = listed(flow(1, topic="a"), flow(2, 3, topic="a"), flow(3, topic="b"))

    shares = rotation.next_shares(
        FlowLoad.LIGHT, 100, 10, lambda gate: 4 if gate.topic == "a" else 1000, now=1.0
    )

    assert quotas(shares) == [(1, 1), (2, 3), (3, 20)]


def test_a_room_smaller_than_the_number_of_flows_goes_to_those_whose_turn_it_is() -> None:
    rotation = listed(*(flow(number) for number in range(1, 6)))

    first = rotation.next_shares(FlowLoad.LIGHT, 100, 10, lambda _: 2, now=1.0)
    serve(rotation, first)
    second = rotation.next_shares(FlowLoad.LIGHT, 100, 10, lambda _: 2, now=1.0)

    assert quotas(first) == [(1, 1), (2, 1)]
    assert quotas(second) == [(3, 1), (4, 1)]


def test_few_counted_flows_are_let_through_at_once_and_the_others_pass_them() -> None:
    counted = [replace(flow(number), is_limited=True, is_counted=True) for number in range(100)]
    rotation = listed(*counted, flow(100), flow(101))

    first = [number for number, _ in quotas(take(rotation, 1000))]
    second = [number for number, _ in quotas(take(rotation, 1000))]

    assert first == [*range(COUNTED_FLOWS_MAX), 100, 101]
    assert second == [*range(COUNTED_FLOWS_MAX, 2 * COUNTED_FLOWS_MAX)]


def test_limited_flows_share_the_room_of_their_topic_with_the_others() -> None:
    rotation = listed(
        *(
            replace(flow(number), is_limited=number % 2 == 0, is_counted=number % 2 == 0)
            for number in range(6)
        )
    )

    shares = rotation.next_shares(FlowLoad.LIGHT, 100, 10, lambda _: 3, now=1.0)

    assert quotas(shares) == [(0, 1), (1, 1), (2, 1)]


def test_a_topic_without_room_does_not_hold_up_the_others() -> None:
    rotation = listed(*(flow(number, topic="dry") for number in range(9)), flow(9, topic="wet"))

    def room(gate: AdmissionGroup) -> int:
        return 0 if gate.topic == "dry" else 10

    assert rotation.has_ready(FlowLoad.LIGHT, room, now=1.0)
    shares = rotation.next_shares(FlowLoad.LIGHT, 100, 5, room, now=1.0)
    assert [number for number, _ in quotas(shares)] == [9]
    assert not rotation.has_ready(FlowLoad.LIGHT, room, now=1.0)
    assert {gate.topic for gate in rotation.waiting_groups()} == {"dry"}


def test_flows_that_could_not_be_served_come_first_again_and_in_their_order() -> None:
    rotation = listed(flow(1), flow(2), flow(3))
    shares = rotation.next_shares(FlowLoad.LIGHT, 10, 2, plenty, now=1.0)

    rotation.return_unserved(shares)

    assert [number for number, _ in quotas(take(rotation))] == [1, 2, 3]


def test_a_flow_whose_turn_is_over_is_not_given_back_from_its_next_one() -> None:
    rotation = listed(flow(1))
    first = take(rotation)
    serve(rotation, first)
    second = take(rotation)

    rotation.return_unserved(first)
    assert take(rotation) == []
    rotation.return_unserved(second)

    assert [number for number, _ in quotas(take(rotation))] == [1]


def test_what_is_served_is_not_given_back() -> None:
    rotation = listed(flow(1))
    shares = take(rotation)
    serve(rotation, shares, f1=0)

    rotation.return_unserved(shares)

    assert take(rotation) == []


def test_an_exhausted_flow_is_left_out_and_looked_at_less_and_less_often() -> None:
    rotation = listed(replace(flow(1), is_limited=True))
    take(rotation)
    rotation.defer_limited([1], {}, now=1.0)
    now, pauses = 1.0, list[float]()

    for _ in range(12):
        wake_at = rotation.next_due_at()
        assert wake_at is not None
        pauses.append(round(wake_at - now, 3))
        now = wake_at
        assert take(rotation, now=now) == []
        assert rotation.limit_checks_due(10, now=now) == [1]
        rotation.apply_allowances([1], {1: FlowAllowance(0, None)}, now=now)

    assert pauses == sorted(pauses)
    assert pauses[0] == 0.02
    assert pauses[-1] == LIMIT_RETRY_SECONDS_MAX
    rotation.limit_checks_due(10, now=now + LIMIT_RETRY_SECONDS_MAX)
    rotation.apply_allowances([1], {1: FlowAllowance(5, None)}, now=now)
    assert [number for number, _ in quotas(take(rotation, now=now))] == [1]


def test_an_empty_bucket_is_looked_at_when_it_has_a_token_and_not_before() -> None:
    rotation = listed(replace(flow(1), is_limited=True), replace(flow(2), is_limited=True))
    take(rotation)
    rotation.defer_limited([1, 2], {}, now=1.0)
    assert rotation.limit_checks_due(10, now=2.0) == [1, 2]

    rotation.apply_allowances([1, 2], {1: FlowAllowance(0, 7.0), 2: FlowAllowance(0, 1e6)}, now=2.0)

    assert rotation.limit_checks_due(10, now=8.9) == []
    assert rotation.limit_checks_due(10, now=9.0) == [1]
    assert rotation.limit_checks_due(10, now=2.0 + BUCKET_SECONDS_MAX) == [2]


def test_a_flow_whose_rate_is_changed_or_lifted_is_free_with_the_next_list() -> None:
    slow = replace(flow(1), is_limited=True, rate_per_second=0.001)
    rotation = listed(slow, replace(slow, flow_no=2), replace(slow, flow_no=3))
    take(rotation)
    rotation.defer_limited([1, 2, 3], {1: 1000.0, 2: 1000.0, 3: 1000.0}, now=1.0)

    relist(rotation, [slow, replace(slow, flow_no=2, rate_per_second=5.0), flow(3)], asked_at=1.5)

    assert [number for number, _ in quotas(take(rotation, now=1.5))] == [2, 3]


def test_a_serial_flow_is_asked_of_each_time() -> None:
    rotation = listed(replace(flow(1), has_plain=False, has_serial=True))

    questions = serve(rotation, take(rotation, 10))

    assert [question.flow_no for question in questions] == [1]
    rotation.update_next_due(questions, [next_due(1, 0.0)], asked_at=1.0)
    [share] = take(rotation)
    assert (share.flow.has_plain, share.flow.has_serial) == (True, False)


def test_floors_follow_a_flood_closely_and_a_calm_flow_at_a_distance() -> None:
    rotation = listed(flow(1), flow(2))
    serve(rotation, take(rotation, 2 * LIGHT_ITEMS_MAX), f2=0)

    questions = serve(rotation, take(rotation, FLOOR_RAISE_ITEMS, FlowLoad.HEAVY))

    assert questions == [NextDueQuery(1, FLOOR_MIN, 0.0)]
    rotation.update_next_due(questions, [next_due(1, -1.0, block=7)], asked_at=1.0)
    [share] = take(rotation, FLOOR_RAISE_ITEMS, FlowLoad.HEAVY)
    assert share.floor == PendingFloor(NOON, 7)
    calm = listed(flow(2))
    assert serve(calm, take(calm), f2=0) == [NextDueQuery(2, FLOOR_MIN, OVERLAP_SECONDS)]
