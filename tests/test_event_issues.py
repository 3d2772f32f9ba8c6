"""What the events of one subject owe together, in whatever order they arrived."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dueledger.ledger.rules.event_issues import (
    FIRST_CYCLE_CHARS_MAX,
    EventOrder,
    ImpliedItem,
    Issue,
    Withdrawal,
    first_cycle,
    is_reinstated,
    issue_cycle,
    sort_withdrawals,
    split_into_issues,
)
from dueledger.ledger.states import TransitionEvent

ITEM, OTHER = b"item", b"other"


def at(minute: int, name: str = "e") -> EventOrder:
    return minute, "/insurer", name


def implied(
    minute: int,
    name: str = "e",
    *,
    received: int = 0,
    is_missed: bool = False,
    reinstates: bool = True,
) -> ImpliedItem[str]:
    return ImpliedItem(at(minute, name), 1, received, is_missed, reinstates, f"{minute}{name}")


def cancel(minute: int, name: str = "c", spared: frozenset[bytes] = frozenset()) -> Withdrawal:
    return Withdrawal(at(minute, name), TransitionEvent.CANCELLED, "PolicyCancelled", spared)


def supersede(minute: int, by: bytes, name: str = "s") -> Withdrawal:
    spared = frozenset({by})
    return Withdrawal(at(minute, name), TransitionEvent.SUPERSEDED, "PolicyAmended", spared, by)


def issues(items: list[ImpliedItem[str]], withdrawals: list[Withdrawal]) -> list[Issue[str]]:
    return split_into_issues(ITEM, items, sort_withdrawals(withdrawals))


def shown(items: list[ImpliedItem[str]], withdrawals: list[Withdrawal]) -> list[str]:
    """Return each issue as what it follows, what gives its terms, and what ends it."""
    return [
        f"{issue.follows.order[0] if issue.follows else ''}"
        f"/{issue.implied[0].owed if issue.implied else ''}"
        f"/{issue.ended_by.order[0] if issue.ended_by else ''}"
        for issue in issues(items, withdrawals)
    ]


@pytest.mark.parametrize(
    ("items", "withdrawals", "owed"),
    [
        pytest.param([implied(9), implied(1)], [], ["/1e/"], id="the earliest gives the terms"),
        pytest.param([implied(0)], [cancel(5)], ["/0e/5"], id="cancelled"),
        pytest.param([implied(9)], [cancel(5)], ["/9e/"], id="cancelled before"),
        pytest.param([implied(5, "z")], [cancel(5, "a")], ["/5z/5"], id="at the same instant"),
        pytest.param([implied(5)], [cancel(5, "e", frozenset({ITEM}))], ["/5e/"], id="spared"),
        pytest.param(
            [implied(2)], [cancel(9), supersede(4, OTHER), cancel(1)], ["/2e/4"], id="the next ends"
        ),
        pytest.param(
            [implied(0), implied(20), implied(40)],
            [cancel(10), cancel(30)],
            ["/0e/10", "10/20e/30", "30/40e/"],
            id="a chain",
        ),
        pytest.param(
            [implied(0), implied(20)],
            [cancel(10), cancel(15), cancel(30)],
            ["/0e/10", "10//15", "15/20e/30"],
            id="cancelled twice",
        ),
        pytest.param(
            [implied(0), implied(20)],
            [supersede(5, OTHER), supersede(20, ITEM, "e")],
            ["/0e/5", "5/20e/"],
            id="amended back",
        ),
        pytest.param(
            [implied(0), implied(20, reinstates=False)], [cancel(10)], ["/0e/10"], id="never"
        ),
        pytest.param(
            [implied(20, reinstates=False)], [cancel(10)], ["/20e/"], id="never, but not before"
        ),
    ],
)
def test_an_item_is_owed_again_after_each_withdrawal(
    items: list[ImpliedItem[str]], withdrawals: list[Withdrawal], owed: list[str]
) -> None:
    assert shown(items, withdrawals) == owed


def test_of_two_amendments_at_one_instant_the_item_of_the_later_in_identity_stays() -> None:
    amendments = sort_withdrawals([supersede(5, ITEM, "a"), supersede(5, OTHER, "b")])
    ended = {
        item: split_into_issues(item, [implied(5, name)], amendments)[0].ended_by
        for item, name in ((ITEM, "a"), (OTHER, "b"))
    }
    assert ended == {ITEM: amendments[1], OTHER: None}


def test_the_event_received_first_decides_whether_all_came_too_late() -> None:
    items = [implied(1, received=9, is_missed=True), implied(5, received=2)]
    assert [issue.is_missed for issue in issues(items, [])] == [False]


def test_a_reinstatement_is_named_for_the_withdrawal_and_no_schedule_or_rule_makes_its_cycle() -> (
    None
):
    longest = "x" * FIRST_CYCLE_CHARS_MAX
    cycle = issue_cycle(longest, "acme", cancel(7))
    assert len(cycle) == 200
    assert cycle == issue_cycle(longest, "acme", cancel(9)), "the event's identity, not its time"
    assert cycle != issue_cycle(longest, "globex", cancel(7))
    assert (first_cycle(cycle), is_reinstated(cycle)) == (longest, True)
    assert issue_cycle("2027", "acme", None) == "2027"
    for other in ("2027", "2027-03-01T09:00~2", "2027-03-01T09:00#2", "~r", "manual-~r12"):
        assert (first_cycle(other), is_reinstated(other)) == (other, False)


minutes = st.integers(0, 12)
some_items = st.lists(
    st.builds(implied, minutes, st.sampled_from("abc"), reinstates=st.booleans()),
    min_size=1,
    max_size=6,
    unique_by=lambda item: item.order,
)
some_withdrawals = st.lists(
    st.one_of(
        st.builds(cancel, minutes, st.sampled_from("def")),
        st.builds(supersede, minutes, st.sampled_from((ITEM, OTHER)), st.sampled_from("gh")),
    ),
    max_size=6,
    unique_by=lambda withdrawal: withdrawal.order,  # an event withdraws once
)


@given(some_items, some_withdrawals, st.data())
def test_what_has_ended_stays_ended_and_nothing_owed_is_forgotten_however_much_more_is_learned(
    items: list[ImpliedItem[str]], withdrawals: list[Withdrawal], data: st.DataObject
) -> None:
    """Otherwise the ledger could not follow: an end is final, and an item never vanishes."""
    early = _live_issues(
        data.draw(st.permutations(items))[: data.draw(st.integers(1, len(items)))],
        data.draw(st.permutations(withdrawals))[: data.draw(st.integers(0, len(withdrawals)))],
    )
    late = _live_issues(items, withdrawals)
    assert not [issue for issue, live in early.items() if not live and late.get(issue)]
    assert not [issue for issue, live in early.items() if live and issue not in late]


def _live_issues(
    items: list[ImpliedItem[str]], withdrawals: list[Withdrawal]
) -> dict[EventOrder | None, bool]:
    return {
        issue.follows.order if issue.follows else None: bool(issue.implied)
        and issue.ended_by is None
        for issue in issues(items, withdrawals)
    }
