"""Recurrence rules compared with other implementations, on naive times.

Those by the day or longer against dateutil, those by the hour or minute, where it may search for
hours, against a count of every one.
"""

import warnings
from calendar import isleap, monthrange
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise, takewhile

import pytest
from dateutil.rrule import rrulestr
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dueledger.ledger.schedule import Decision, Rrule, expand
from dueledger.ledger.schedule.local_times import nominals_of
from dueledger.ledger.schedule.recurrence import Recurrence
from dueledger.ledger.schedule.rrule_text import parse_rrule
from tests.work_bound import check_lines

MINUTE = timedelta(minutes=1)
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
STARTS = st.datetimes(datetime(2020, 1, 1), datetime(2029, 12, 31, 23, 59)).map(  # noqa: DTZ001 - nominal times are naive
    lambda start: start.replace(microsecond=0)
)


def listed(name: str, values: Sequence[object]) -> list[str]:
    return [f"{name}={','.join(map(str, values))}"] if values else []


def some(low: int, high: int, *, most: int = 3, back: bool = False) -> st.SearchStrategy[list[int]]:
    number = st.integers(low, high)
    either = number | number.map(lambda value: -value) if back else number
    return st.lists(either, max_size=most, unique=True)


@st.composite
def rules(draw: st.DrawFn) -> str:
    """Draw a rule that RFC 5545 allows and that dateutil reads as it says."""
    frequency = draw(
        st.sampled_from(["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY"])
    )
    parts = [f"FREQ={frequency}", f"INTERVAL={draw(st.integers(1, 8))}"]
    parts += listed("BYMONTH", draw(some(1, 12)))
    counted = frequency in {"YEARLY", "MONTHLY"} and draw(st.booleans())
    days = draw(st.lists(st.sampled_from(WEEKDAYS), max_size=3, unique=True))
    if frequency != "WEEKLY":
        parts += listed("BYMONTHDAY", draw(some(1, 31, back=True, most=2)))
    if frequency in {"YEARLY", "HOURLY", "MINUTELY"}:
        parts += listed("BYYEARDAY", draw(some(1, 366, back=True, most=1)))
    if counted:
        parts += listed("BYDAY", [f"{draw(st.integers(1, 5))}{day}" for day in days])
    else:
        parts += listed("BYDAY", days)
        if frequency == "YEARLY" and days:
            parts += listed("BYWEEKNO", draw(some(1, 53, most=2, back=True)))
    parts += listed("BYHOUR", draw(some(0, 23)))
    parts += listed("BYMINUTE", draw(some(0, 59)))
    parts += listed("BYSECOND", draw(some(0, 59, most=1)))
    week_start = draw(st.sampled_from(["MO", "SU", "WE"]))
    parts.append(f"WKST={week_start}")
    if len(parts) > 3 and draw(st.booleans()):
        parts += listed("BYSETPOS", draw(some(1, 4, back=True, most=2)))
    return ";".join(parts)


def by_dateutil(rule: str, start: datetime, end: datetime) -> list[datetime]:
    # It checks UNTIL only if something matches, and else continues to the end of the calendar.
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr("dateutil.rrule.datetime.MAXYEAR", end.year + 1)
        series = rrulestr(f"{rule};UNTIL={end:%Y%m%dT%H%M%S}", dtstart=start)
        return list(takewhile(lambda nominal: nominal < end, islice(series, 2000)))


def by_counting(rule: str, start: datetime, end: datetime) -> list[datetime]:
    """Check every hour or minute from the start on, as RFC 5545 says."""
    parts = dict(part.split("=") for part in rule.split(";"))
    named = {
        name: [int(value) for value in text.split(",")]
        for name, text in parts.items()
        if name not in {"FREQ", "WKST", "BYDAY"}
    }
    hourly = parts["FREQ"] == "HOURLY"
    period = start.replace(minute=0, second=0) if hourly else start.replace(second=0)
    step = timedelta(hours=1) if hourly else MINUTE
    minutes = sorted(named.get("BYMINUTE", [start.minute])) if hourly else [None]
    found: list[datetime] = []
    while period < end:
        length = monthrange(period.year, period.month)[1]
        days = 366 if isleap(period.year) else 365
        number = period.timetuple().tm_yday
        fits = (
            period.month in named.get("BYMONTH", [period.month])
            and {period.day, period.day - length - 1} & {*named.get("BYMONTHDAY", [period.day])}
            and {number, number - days - 1} & {*named.get("BYYEARDAY", [number])}
            and WEEKDAYS[period.weekday()] in parts.get("BYDAY", WEEKDAYS[period.weekday()])
            and period.hour in named.get("BYHOUR", [period.hour])
            and (hourly or period.minute in named.get("BYMINUTE", [period.minute]))
        )
        if fits:
            of_period = [
                period.replace(minute=period.minute if minute is None else minute, second=second)
                for minute in minutes
                for second in sorted(named.get("BYSECOND", [start.second]))
            ]
            places = named.get("BYSETPOS", [])
            last = len(of_period)
            found += [
                each
                for index, each in enumerate(of_period)
                if not places or index + 1 in places or index - last in places
            ]
        period += step * named["INTERVAL"][0]
    return [each for each in found if start <= each < end]


def check_rule(rule: str, start: datetime, skip_days: int, days: int) -> None:
    by_day = "FREQ=MINUTELY" not in rule and "FREQ=HOURLY" not in rule
    if not by_day:
        skip_days, days = skip_days % 9, days % 9 + 1
    low = start + timedelta(days=skip_days)
    high = low + timedelta(days=days)
    if "FREQ=WEEKLY" in rule and "BYSETPOS" in rule:
        # dateutil cuts the first week at the start before it chooses; RFC 5545 does not.
        assume(low >= start + timedelta(days=7))
    whole = by_dateutil(rule, start, high) if by_day else by_counting(rule, start, high)
    assume(not by_day or len(whole) < 2000)
    expected = [nominal for nominal in whole if nominal >= low]
    found = list(nominals_of(Recurrence(parse_rrule(rule), start), low, high))
    assert found == expected


@settings(max_examples=60)
@given(rules(), STARTS, st.integers(0, 900), st.integers(1, 500))
def test_a_rule_equals_its_oracle_in_any_window_of_naive_time(
    rule: str, start: datetime, skip_days: int, days: int
) -> None:
    check_rule(rule, start, skip_days, days)


@pytest.mark.full
@settings(max_examples=5000)
@given(rules(), STARTS, st.integers(0, 3000), st.integers(1, 1500))
def test_many_rules_equal_their_oracle_in_any_window_of_naive_time(
    rule: str, start: datetime, skip_days: int, days: int
) -> None:
    check_rule(rule, start, skip_days, days)


def rrule(rule: str, start: str = "2027-01-01T18:00", **fields: object) -> Rrule:
    document = {"rrule": rule, "start": start, "timezone": "America/New_York", **fields}
    return Rrule.model_validate(document)


def nominals(when: Rrule, since: date, until: date) -> list[str]:
    low, high = (datetime(day.year, day.month, day.day, tzinfo=UTC) for day in (since, until))
    return [each.nominal.isoformat() for each in expand(when, low, high).occurrences]


YEAR = (date(2027, 1, 1), date(2028, 1, 1))


def test_the_last_working_day_of_each_month_is_one_rule() -> None:
    when = rrule("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1")
    assert nominals(when, *YEAR)[:3] == [
        "2027-01-29T18:00:00",
        "2027-02-26T18:00:00",
        "2027-03-31T18:00:00",
    ]


def test_the_start_falls_due_only_where_the_rule_says_so() -> None:
    assert nominals(rrule("FREQ=WEEKLY;BYDAY=MO"), *YEAR)[0] == "2027-01-04T18:00:00"  # a Friday
    assert nominals(rrule("FREQ=WEEKLY"), *YEAR)[0] == "2027-01-01T18:00:00"


def test_what_the_rule_leaves_open_is_that_of_the_start() -> None:
    when = rrule("FREQ=YEARLY;INTERVAL=2", "2027-03-14T02:30:15")
    low, high = datetime(2027, 1, 1, tzinfo=UTC), datetime(2029, 1, 1, tzinfo=UTC)
    (first,) = expand(when, low, high).occurrences
    assert first.nominal == datetime(2027, 3, 14, 2, 30, 15)  # noqa: DTZ001
    assert first.decision == Decision.GAP_SHIFTED_FORWARD
    assert first.due_at == datetime(2027, 3, 14, 7, 30, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("policy", "last"),
    [
        ({"gap": "skip"}, "2027-03-16T02:30:00"),  # occurrences that the gap skips are not counted
        ({"gap": "shift_forward"}, "2027-03-15T02:30:00"),
        ({"gap": "gap_end"}, "2027-03-15T02:30:00"),
    ],
)
def test_count_counts_what_falls_due(policy: dict[str, str], last: str) -> None:
    when = rrule("FREQ=DAILY;COUNT=3", "2027-03-13T02:30", **policy)
    assert nominals(when, *YEAR)[-1] == last


def test_count_counts_both_instants_of_a_repeated_time_and_collided_ones_once() -> None:
    both = rrule("FREQ=DAILY;COUNT=3", "2027-11-06T01:30", fold="both")
    assert nominals(both, *YEAR) == ["2027-11-06T01:30:00", *["2027-11-07T01:30:00"] * 2]
    collided = rrule("FREQ=HOURLY;COUNT=4", "2027-03-14T01:30")
    assert nominals(collided, *YEAR)[-1] == "2027-03-14T05:30:00"


def test_windows_of_a_counted_rule_compose() -> None:
    when = rrule("FREQ=HOURLY;INTERVAL=5;COUNT=40", "2027-03-12T00:30", gap="gap_end", fold="both")
    days = [datetime(2027, 3, 10, tzinfo=UTC) + timedelta(days=n) for n in range(14)]
    parts = [each for low, high in pairwise(days) for each in expand(when, low, high).occurrences]
    assert tuple(parts) == expand(when, days[0], days[-1]).occurrences
    assert len(parts) == 40


def test_until_is_included_be_it_local_or_an_instant() -> None:
    local = rrule("FREQ=DAILY;UNTIL=20270103T180000")
    assert len(nominals(local, *YEAR)) == 3
    instant = rrule("FREQ=DAILY;UNTIL=20270103T225959Z")  # a second before 18:00 in New York
    assert len(nominals(instant, *YEAR)) == 2


def test_a_bound_of_its_own_ends_a_rule_before_its_count() -> None:
    when = rrule("FREQ=DAILY;COUNT=9", end="2027-01-03T18:00")
    assert nominals(when, *YEAR) == ["2027-01-01T18:00:00", "2027-01-02T18:00:00"]


def test_a_window_far_from_the_start_costs_no_more_than_one_beside_it() -> None:
    when = rrule("FREQ=MINUTELY;INTERVAL=7", "1970-01-01T00:00")
    low = datetime(2199, 6, 1, tzinfo=UTC)
    # 17 million occurrences lie between.
    found = check_lines(lambda: expand(when, low, low + timedelta(days=1)), lines_max=20_000)
    assert len(found.occurrences) in {205, 206}


def test_a_rule_has_one_spelling_and_reads_back_as_it_was_written() -> None:
    when = rrule("rrule:freq=weekly; byday=mo,fr")
    assert when.rrule == "FREQ=WEEKLY;BYDAY=MO,FR"
    assert Rrule.model_validate(when.model_dump(mode="json", exclude_none=True)) == when


@pytest.mark.parametrize(
    ("rule", "about"),
    [
        ("FREQ=MINUTELY;INTERVAL=15", 35_040),
        ("FREQ=HOURLY;BYHOUR=9,10;BYMINUTE=0,30", 1460),
        ("FREQ=DAILY;INTERVAL=2", 182),
        ("FREQ=WEEKLY;BYDAY=MO,TU", 104),
        ("FREQ=WEEKLY", 52),
        ("FREQ=MONTHLY", 12),
        ("FREQ=MONTHLY;BYDAY=2TU", 12),
        ("FREQ=MONTHLY;BYMONTHDAY=1,15", 24),
        ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", 12),
        ("FREQ=YEARLY;BYMONTH=3,6", 2),
        ("FREQ=YEARLY;BYMONTH=3;BYDAY=1MO,2MO", 2),
        ("FREQ=YEARLY;BYDAY=MO", 52),
        ("FREQ=YEARLY", 1),
    ],
)
def test_the_estimate_is_about_right(rule: str, about: int) -> None:
    year = (datetime(2027, 1, 2, tzinfo=UTC), datetime(2028, 1, 2, tzinfo=UTC))
    assert rrule(rule).estimate(*year) == pytest.approx(about, rel=0.15)
    assert len(expand(rrule(rule), *year).occurrences) == pytest.approx(about, rel=0.15)


REFUSED = [
    ("", "NAME=value", "FREQ="),
    ("INTERVAL=2", "no FREQ", "YEARLY"),
    ("FREQ=SECONDLY", "finer than a minute", "every: PT30S"),
    ("FREQ=FORTNIGHTLY", "not a frequency", "WEEKLY"),
    ("FREQ=DAILY;INTERVAL=0", "outside its range", "INTERVAL=1"),
    ("FREQ=DAILY;INTERVAL=-1", "outside its range", "INTERVAL=1"),
    ("FREQ=DAILY;INTERVAL=99999999999999999999", "outside its range", "999999"),
    ("FREQ=DAILY;COUNT=0", "outside its range", "COUNT=1"),
    ("FREQ=DAILY;COUNT=1000000000", "outside its range", "UNTIL or `end:`"),
    ("FREQ=DAILY;COUNT=2;UNTIL=20280101T000000", "at once", "one of the two"),
    ("FREQ=DAILY;UNTIL=20280101", "without a time of day", "T235959"),
    ("FREQ=DAILY;UNTIL=20280230T000000", "not an existing date and time", "UNTIL="),
    ("FREQ=DAILY;UNTIL=tomorrow", "not understood", "UNTIL="),
    ("FREQ=DAILY;UNTIL=99990101T000000", "1970 to 2199", "UNTIL="),
    ("FREQ=DAILY;UNTIL=20260101T000000", "before `start`", "after the start"),
    ("FREQ=DAILY;UNTIL=20270101T225959Z", "before `start`", "after the start"),
    ("FREQ=DAILY;FREQ=WEEKLY", "given twice", "one FREQ"),
    ("FREQ=DAILY;BYEASTER=1", "not a part of a rule", "FREQ="),
    ("FREQ=DAILY;BYHOURS=1", "not a part of a rule", "BYHOUR"),
    ("FREQ=DAILY;SKIP=FORWARD", "RFC 7529", "business"),
    ("DTSTART:20270101T000000\nRRULE:FREQ=DAILY", "several lines", "start:"),
    ("FREQ=DAILY;BYHOUR=24", "outside its range", "0 to 23"),
    ("FREQ=DAILY;BYMINUTE=60", "outside its range", "0 to 59"),
    ("FREQ=DAILY;BYSECOND=60", "outside its range", "0 to 59"),
    ("FREQ=DAILY;BYMONTH=13", "outside its range", "1 to 12"),
    ("FREQ=DAILY;BYMONTH=-1", "outside its range", "1 to 12"),
    ("FREQ=MONTHLY;BYMONTHDAY=0", "outside its range", "-31 to -1"),
    ("FREQ=MONTHLY;BYMONTHDAY=32", "outside its range", "1 to 31"),
    ("FREQ=YEARLY;BYYEARDAY=367", "outside its range", "1 to 366"),
    ("FREQ=YEARLY;BYWEEKNO=54;BYDAY=MO", "outside its range", "1 to 53"),
    ("FREQ=YEARLY;BYWEEKNO=1", "without BYDAY is ambiguous", "with BYDAY"),
    ("FREQ=MONTHLY;BYWEEKNO=1;BYDAY=MO", "does not go with FREQ=MONTHLY", "YEARLY"),
    ("FREQ=YEARLY;BYWEEKNO=1;BYDAY=1MO", "beside BYWEEKNO", "plain"),
    ("FREQ=DAILY;BYYEARDAY=1", "does not go with FREQ=DAILY", "YEARLY"),
    ("FREQ=WEEKLY;BYMONTHDAY=1", "does not go with FREQ=WEEKLY", "MONTHLY"),
    ("FREQ=WEEKLY;BYDAY=1MO", "does not go with FREQ=WEEKLY", "BYDAY=TU"),
    ("FREQ=MONTHLY;BYDAY=6MO", "four or five", "-5"),
    ("FREQ=MONTHLY;BYDAY=0MO", "not understood", "2TU"),
    ("FREQ=MONTHLY;BYDAY=MO,2TU", "mixes", "two definitions"),
    ("FREQ=MONTHLY;BYDAY=XX", "not understood", "MO to SU"),
    ("FREQ=WEEKLY;WKST=XX", "not a weekday", "MO to SU"),
    ("FREQ=MONTHLY;BYSETPOS=1", "needs another BY", "BYSETPOS"),
    ("FREQ=MONTHLY;BYDAY=MO;BYSETPOS=0", "outside its range", "-366"),
    ("FREQ=DAILY;BYHOUR=", "NAME=value", "FREQ="),
    ("FREQ=DAILY;BYHOUR=\u0663", "ASCII", "FREQ="),
    ("FREQ=DAILY;BYHOUR=" + "1," * 500 + "1", "longer than", "shorter"),
    ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "has no occurrence", "sparse: true"),
    ("FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=30", "has no occurrence", "sparse: true"),
    ("FREQ=MINUTELY;INTERVAL=2;BYMINUTE=1,3,5,7,9,11", "has no occurrence", "sparse: true"),
    ("FREQ=HOURLY;INTERVAL=24;BYHOUR=3", "has no occurrence", "sparse: true"),
    ("FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6", "has no occurrence", "sparse: true"),
    ("FREQ=YEARLY;INTERVAL=999999;BYMONTH=1;BYMONTHDAY=1;BYHOUR=0", "has no occurrence", "sparse"),
    ("FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=30;COUNT=1", "has no occurrence", "sparse: true"),
    ("FREQ=YEARLY;COUNT=5000", "is too large", "a smaller COUNT"),
    ("FREQ=YEARLY;BYYEARDAY=366;COUNT=9999", "is too large", "a smaller COUNT"),
    ("FREQ=DAILY;INTERVAL=997;COUNT=9999", "is too large", "a smaller COUNT"),
    ("FREQ=MINUTELY;INTERVAL=99991;COUNT=9999", "is too large", "a smaller COUNT"),
]


@pytest.mark.parametrize(("rule", "reason", "accepted"), REFUSED)
def test_a_rule_that_reads_in_two_ways_or_never_falls_due_is_refused_fast(
    rule: str, reason: str, accepted: str
) -> None:
    def refuse() -> ValidationError:
        with pytest.raises(ValidationError) as refused:
            rrule(rule)
        return refused.value

    context = check_lines(refuse, lines_max=400_000).errors()[0].get("ctx", {})
    assert reason in context["reason"]
    assert accepted in context["accepted"]


def test_a_sparse_rule_is_kept() -> None:
    never = rrule("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", sparse=True)
    assert nominals(never, *YEAR) == []
    leap = rrule("FREQ=YEARLY;INTERVAL=20;BYMONTH=2;BYMONTHDAY=29", "2024-03-01T09:00", sparse=True)
    assert nominals(leap, date(2024, 1, 1), date(2070, 1, 1)) == [
        "2044-02-29T09:00:00",
        "2064-02-29T09:00:00",
    ]
