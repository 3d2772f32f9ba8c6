"""Windows that definitions share are expanded once, and none is used for another."""

from datetime import UTC, datetime, timedelta

from dueledger.ledger.schedule import Cron, Rrule, expand

START = datetime(2027, 3, 27, tzinfo=UTC)
END = START + timedelta(days=2)


def daily(**fields: object) -> Cron:
    return Cron.model_validate({"cron": "30 2 * * *", "timezone": "Europe/Berlin", **fields})


def test_definitions_of_one_expression_share_its_short_windows() -> None:
    first, second = (expand(daily(), START, END).occurrences for _ in range(2))
    assert len(first) == 2
    assert all(one is other for one, other in zip(first, second, strict=True))


def test_recurrence_rules_share_them_too() -> None:
    rules = [Rrule(rrule="FREQ=HOURLY", start=START.replace(tzinfo=None), timezone="UTC")] * 2
    first, second = (expand(rule.model_copy(), START, END).occurrences for rule in rules)
    assert len(first) == 48
    assert all(one is other for one, other in zip(first, second, strict=True))


def test_what_differs_in_zone_policy_or_bounds_is_expanded_by_itself() -> None:
    windows = [
        expand(daily(), START, END),
        expand(daily(gap="skip"), START, END),
        expand(daily(timezone="UTC"), START, END),
        expand(daily(start="2027-03-28T00:00"), START, END),
        expand(daily(end="2027-03-28T00:00"), START, END),
        expand(daily(), START, END - timedelta(days=1)),
    ]
    assert [len(each.occurrences) for each in windows] == [2, 1, 2, 1, 1, 1]
    assert [len(each.skipped) for each in windows] == [0, 1, 0, 0, 0, 0]


def test_a_long_window_is_not_kept() -> None:
    often = Cron(cron="* * * * *", timezone="UTC")
    first, second = (expand(often, START, END).occurrences for _ in range(2))
    assert first == second
    assert first[0] is not second[0]
