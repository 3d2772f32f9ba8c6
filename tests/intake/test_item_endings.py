"""The result of the events of one key, received in any order."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from dueledger.ledger.intake.apply.item_endings import (
    EventOrder,
    ImpliedItem,
    Withdrawal,
    find_item_endings,
    first_implied,
)
from dueledger.ledger.states import TransitionEvent

BEGINNING = datetime(2027, 1, 1, tzinfo=UTC)
ITEMS = [UUID(int=number) for number in range(1, 5)]


def at(minute: int, name: str = "e") -> EventOrder:
    return EventOrder(BEGINNING + timedelta(minutes=minute), "/insurer", name)


def cancel(minute: int, own: frozenset[UUID] = frozenset(), name: str = "e") -> Withdrawal:
    return Withdrawal(at(minute, name), TransitionEvent.CANCELLED, "PolicyCancelled", own)


def supersede(minute: int, by: UUID, name: str = "e") -> Withdrawal:
    moment = at(minute, name)
    return Withdrawal(moment, TransitionEvent.SUPERSEDED, "PolicyAmended", frozenset({by}), by)


def test_an_item_born_before_a_cancellation_ends_and_one_born_after_it_stays() -> None:
    born = first_implied([ImpliedItem(at(0), ITEMS[0]), ImpliedItem(at(9), ITEMS[1])])
    (ending,) = find_item_endings(born, [cancel(5)])
    assert (ending.item, ending.event) == (ITEMS[0], TransitionEvent.CANCELLED)
    assert ending.replacement is None


def test_a_cancellation_at_the_very_instant_of_the_birth_ends_it() -> None:
    assert find_item_endings(
        first_implied([ImpliedItem(at(5, "z"), ITEMS[0])]), [cancel(5, name="a")]
    )


def test_an_event_does_not_withdraw_what_it_implies_itself() -> None:
    born = first_implied([ImpliedItem(at(5), ITEMS[0])])
    assert find_item_endings(born, [cancel(5, frozenset({ITEMS[0]}))]) == []
    assert find_item_endings(born, [supersede(5, ITEMS[0])]) == []


def test_of_two_amendments_at_one_instant_exactly_one_counts() -> None:
    born = first_implied([ImpliedItem(at(5, "a"), ITEMS[0]), ImpliedItem(at(5, "b"), ITEMS[1])])
    (ending,) = find_item_endings(born, [supersede(5, ITEMS[0], "a"), supersede(5, ITEMS[1], "b")])
    assert (ending.item, ending.replacement) == (ITEMS[0], ITEMS[1])


def test_the_first_withdrawal_after_the_birth_is_the_one_that_ends_it() -> None:
    born = first_implied([ImpliedItem(at(2), ITEMS[0])])
    (ending,) = find_item_endings(born, [cancel(9), supersede(4, ITEMS[1]), cancel(1)])
    assert ending.event is TransitionEvent.SUPERSEDED


def test_an_item_implied_twice_was_implied_at_the_earlier_time() -> None:
    implied = [ImpliedItem(at(9), ITEMS[0]), ImpliedItem(at(1), ITEMS[0])]
    assert find_item_endings(first_implied(implied), [cancel(5)])


minutes = st.integers(0, 20)
births = st.builds(
    ImpliedItem, st.builds(at, minutes, st.sampled_from("abc")), st.sampled_from(ITEMS)
)
withdrawals = st.one_of(
    st.builds(cancel, minutes, name=st.sampled_from("abc")),
    st.builds(supersede, minutes, st.sampled_from(ITEMS), st.sampled_from("abc")),
)


@given(st.lists(births, max_size=6), st.lists(withdrawals, max_size=6), st.data())
def test_what_has_ended_stays_ended_however_much_more_is_learned(
    implied: list[ImpliedItem], withdrawn: list[Withdrawal], data: st.DataObject
) -> None:
    """Otherwise an item that was ended early could not be corrected, since an end is final."""
    some_births = data.draw(st.permutations(implied))[: data.draw(st.integers(0, len(implied)))]
    some = data.draw(st.permutations(withdrawn))[: data.draw(st.integers(0, len(withdrawn)))]
    early = {ending.item for ending in find_item_endings(first_implied(some_births), some)}
    late = {ending.item for ending in find_item_endings(first_implied(implied), withdrawn)}
    assert early <= late
