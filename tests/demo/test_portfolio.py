"""The insurer's portfolio is the same for the same seed, and its faults are the ones it says."""

from collections import Counter
from datetime import date

from dueledger.examples.insurer.portfolio import NOTICE, make_portfolio

DAY = date(2027, 3, 1)


def test_the_same_seed_makes_the_same_portfolio() -> None:
    assert make_portfolio(300, seed=7, day=DAY) == make_portfolio(300, seed=7, day=DAY)
    assert make_portfolio(300, seed=7, day=DAY) != make_portfolio(300, seed=8, day=DAY)


def test_exactly_the_events_of_the_policies_that_are_said_to_be_lost_are_lost() -> None:
    portfolio = make_portfolio(2_000, seed=7, day=DAY)
    lost = {event.policy_number for event in portfolio.book if event.copies == 0}
    assert lost == {number for number, fault in portfolio.faults.items() if fault == "event_lost"}
    assert all(event.copies for event in portfolio.changes)


def test_faults_befall_policies_that_are_renewed_on_the_day_and_that_nothing_else_befell() -> None:
    portfolio = make_portfolio(2_000, seed=7, day=DAY)
    changed = {e.policy_number for e in portfolio.book if e.type != "PolicyActivated"}
    changed |= {event.policy_number for event in portfolio.changes}
    due = {p.number for p in portfolio.policies if p.expires_on == DAY + NOTICE}
    assert set(portfolio.faults) <= due - changed
    assert Counter(portfolio.faults.values()) == {"event_lost": 3, "premium_not_booked": 3}


def test_some_news_overtakes_the_policy_it_is_about() -> None:
    portfolio = make_portfolio(2_000, seed=7, day=DAY)
    order = [(event.policy_number, event.type) for event in portfolio.book]
    overtaken = [e for e in portfolio.book if e.type != "PolicyActivated"]
    assert overtaken
    for event in overtaken:
        own = order.index((event.policy_number, "PolicyActivated"))
        assert order.index((event.policy_number, event.type)) < own
