"""Whose turn it is: by weight, nobody forgotten, nobody starved."""

from hypothesis import given
from hypothesis import strategies as st

from allocator.rotation import Rotation, split
from ledger.store.claims import DueFlow


def flow(number: int, weight: int = 1) -> DueFlow:
    return DueFlow(number, "acme", "Kind", f"lane-{number}", "due.Kind", weight, 60)


@given(st.integers(1, 20_000), st.lists(st.integers(1, 1000), min_size=1, max_size=500))
def test_a_split_gives_everybody_something_and_wastes_nothing(
    items: int, weights: list[int]
) -> None:
    quotas = split(items, weights)

    assert len(quotas) == len(weights)
    assert min(quotas) >= 1
    assert items <= sum(quotas) <= items + len(weights)


def test_a_split_follows_the_weights() -> None:
    assert split(100, [1, 1, 2]) == [25, 25, 50]
    assert split(10, [1, 1, 1]) == [4, 3, 3]
    assert split(2, [1, 1000]) == [1, 1]


def test_a_flow_that_used_its_quota_comes_again_after_the_others() -> None:
    rotation = Rotation()
    rotation.relist([flow(1), flow(2), flow(3)])

    first = rotation.next_shares(10, 2)
    rotation.served(first, {1: 5, 2: 4})

    assert [(share.flow.flow_no, share.quota) for share in first] == [(1, 5), (2, 5)]
    assert [share.flow.flow_no for share in rotation.next_shares(10, 3)] == [3, 1]


def test_what_an_emptied_flow_leaves_goes_to_those_that_have_more() -> None:
    rotation = Rotation()
    rotation.relist([flow(1), flow(2)])
    rotation.served(rotation.next_shares(100, 10), {1: 50, 2: 3})

    [share] = rotation.next_shares(100, 10)

    assert (share.flow.flow_no, share.quota) == (1, 100)


def test_a_new_list_keeps_places_drops_what_is_no_longer_due_and_takes_new_policy() -> None:
    rotation = Rotation()
    rotation.relist([flow(1), flow(2), flow(3)])

    rotation.relist([flow(4), flow(3, weight=7), flow(1)])

    shares = rotation.next_shares(9, 10)
    assert [share.flow.flow_no for share in shares] == [1, 3, 4]
    assert shares[1].flow.weight == 7
    assert len(rotation) == 0
