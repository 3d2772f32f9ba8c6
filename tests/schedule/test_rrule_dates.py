"""`rdate` and `exdate` compared with dateutil's rruleset, and at the end of a counted rule."""

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise, takewhile

import pytest
from dateutil.rrule import rruleset, rrulestr
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dueledger.ledger.schedule import Rrule, expand
from dueledger.ledger.schedule.falls_due import ever_due

START = datetime(2027, 1, 1, 18)  # noqa: DTZ001 - nominal times are naive
END = datetime(2029, 1, 1)  # noqa: DTZ001
RULES = (
    "FREQ=DAILY;INTERVAL=3",
    "FREQ=DAILY;BYHOUR=9,18",
    "FREQ=WEEKLY;BYDAY=MO,FR",
    "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
    "FREQ=MONTHLY;BYMONTHDAY=-1",
    "FREQ=YEARLY;BYMONTH=3;BYDAY=2SU",
)
DATES = st.lists(st.datetimes(START, END - timedelta(days=1)), max_size=4).map(
    lambda dates: [each.replace(microsecond=0) for each in dates]
)
ENDS = ("", ";COUNT=5", ";COUNT=30", ";UNTIL=20270601T120000", ";UNTIL=20270601T120000Z")


def rrule(rule: str, **fields: object) -> Rrule:
    return Rrule.model_validate({"rrule": rule, "start": START, "timezone": "UTC", **fields})


def nominals(when: Rrule, cut: timedelta) -> list[datetime]:
    """Expand in two windows, which compose."""
    bounds = [each.replace(tzinfo=UTC) for each in (START, START + cut, END)]
    windows = [expand(when, low, high) for low, high in pairwise(bounds)]
    return [found.nominal for window in windows for found in window.occurrences]


@settings(max_examples=100)
@given(
    st.sampled_from(RULES),
    st.sampled_from(ENDS),
    DATES,
    DATES,
    st.lists(st.integers(0, 60), max_size=4),
    st.booleans(),
    st.timedeltas(timedelta(days=1), timedelta(days=700)),
)
def test_dates_beside_a_rule_are_those_of_an_rruleset(
    rule: str,
    end: str,
    added: list[datetime],
    stray: list[datetime],
    removed: list[int],
    remove_added: bool,  # noqa: FBT001 - hypothesis gives it by position
    cut: timedelta,
) -> None:
    own = list(islice(rrulestr(rule + end.removesuffix("Z"), dtstart=START), 80))
    excluded = [own[place] for place in removed if place < len(own)] + stray
    excluded += added[:1] if remove_added else []
    oracle = rrulestr(rule + end.removesuffix("Z"), dtstart=START, forceset=True)
    assert isinstance(oracle, rruleset)
    for each in added:
        oracle.rdate(each)
    for each in excluded:
        oracle.exdate(each)
    expected = list(takewhile(lambda nominal: nominal < END, oracle))
    when = rrule(rule + end, rdate=added, exdate=excluded, sparse=True)
    assert nominals(when, cut) == expected
    assert Rrule.model_validate(when.model_dump(mode="json", exclude_none=True)) == when
    assert ever_due(when, None) == bool(expected)


def test_a_removed_time_counts_and_an_added_one_does_not() -> None:
    when = rrule(
        "FREQ=DAILY;COUNT=3", rdate=["2027-02-01T09:00"], exdate=["2027-01-02T18:00"], gap="skip"
    )
    assert [each.isoformat() for each in nominals(when, timedelta(days=1))] == [
        "2027-01-01T18:00:00",
        "2027-01-03T18:00:00",
        "2027-02-01T09:00:00",
    ]


def test_an_added_time_is_resolved_as_those_of_the_rule() -> None:
    when = rrule("FREQ=YEARLY;COUNT=1", timezone="America/New_York", rdate=["2027-03-14T02:30"])
    window = expand(when, datetime(2027, 3, 1, tzinfo=UTC), datetime(2027, 4, 1, tzinfo=UTC))
    assert [each.due_at.hour for each in window.occurrences] == [7]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"rdate": ["2026-12-31T18:00"]}, "before `start`"),
        ({"rdate": ["2027-05-01T18:00"], "end": "2027-05-01T18:00"}, "not before `end`"),
        ({"rdate": ["2027-05-01"]}, "without a time of day"),
        ({"exdate": ["2027-05-01T18:00Z"]}, "no offset"),
        ({"rdate": ["2027-05-01T18:00"], "fold": "both"}, "between two instants"),
    ],
)
def test_dates_that_mean_nothing_are_refused(fields: dict[str, object], reason: str) -> None:
    with pytest.raises(ValidationError) as refused:
        rrule("FREQ=DAILY;COUNT=2", **fields)
    assert reason in str(refused.value)


def test_so_many_dates_are_refused() -> None:
    dates = [START + timedelta(hours=number) for number in range(1_001)]
    with pytest.raises(ValidationError, match="at most 1000"):
        rrule("FREQ=DAILY", exdate=dates)
