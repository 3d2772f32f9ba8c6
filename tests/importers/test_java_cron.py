"""Expressions of Quartz, Spring and EventBridge: as each reads them, or refused."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dueledger.importers.import_result import ImportRefusal
from dueledger.importers.java_cron import JavaDialect, read_java_cron
from dueledger.importers.source_job import TranslatedSchedule
from dueledger.ledger.schedule import Cron, expand

QUARTZ, SPRING, AWS = JavaDialect.QUARTZ, JavaDialect.SPRING, JavaDialect.EVENTBRIDGE
START = datetime(2027, 1, 1, tzinfo=UTC)
DAYS = 800


def cron(text: str, dialect: JavaDialect, zone: str = "UTC") -> Cron:
    read = read_java_cron(text, zone, dialect)
    assert isinstance(read, TranslatedSchedule), read
    return Cron.model_validate(read.when)


@pytest.mark.parametrize(
    ("dialect", "text", "expression"),
    [
        (QUARTZ, "0 0 12 * * ?", "0 12 * * *"),
        (QUARTZ, "0 15 10 ? * 6#3", "15 10 ? * 5#3"),
        (QUARTZ, "0 15 10 ? * 6L 2027-2029", "0 15 10 ? * l5 2027-2029"),
        (QUARTZ, "0 15 10 ? * FRIL", "15 10 ? * l5"),
        (QUARTZ, "0 15 10 L-2 * ?", "15 10 l-2 * *"),
        (QUARTZ, "0 15 10 LW * ? *", "15 10 lw * *"),
        (QUARTZ, "0 0 12 1/5 * ?", "0 12 1/5 * *"),
        (QUARTZ, "0 0/5 14,18 * * ?", "0/5 14,18 * * *"),
        (QUARTZ, "0 0 22-2 ? * 2-6", "0 22-2 ? * 1-5"),
        (QUARTZ, "0 11 11 11 11 ?", "11 11 11 11 *"),
        (QUARTZ, "30 0 0 ? * L", "30 0 0 ? * 6"),
        (SPRING, "0 0 8-10 * * *", "0 8-10 * * *"),
        (SPRING, "0 0/30 8-10 * * *", "0/30 8-10 * * *"),
        (SPRING, "0 0 0 L-3 * *", "0 0 l-3 * *"),
        (SPRING, "0 0 0 * * 5L", "0 0 * * l5"),
        (SPRING, "0 0 0 ? * MON#1", "0 0 ? * 1#1"),
        (SPRING, "0 0 9 * * 0,7", "0 9 * * 0,7"),
        (SPRING, "@daily", "@daily"),
        (AWS, "15 10 ? * 6L 2027-2028", "0 15 10 ? * l5 2027-2028"),
        (AWS, "0 18 ? * MON-FRI *", "0 18 ? * 1-5"),
        (AWS, "0/15 * * * ? *", "0/15 * * * *"),
        (AWS, "0 8 3W * ? *", "0 8 3w * *"),
    ],
)
def test_examples_of_each_documentation(dialect: JavaDialect, text: str, expression: str) -> None:
    assert cron(text, dialect).cron == expression


@pytest.mark.parametrize(
    ("dialect", "text", "reason"),
    [
        (QUARTZ, "0 0 12 * * *", "needs `?`"),
        (QUARTZ, "0 0 12 ? * ?", "needs `?`"),
        (QUARTZ, "0 0 12 15 * 2", "needs `?`"),
        (QUARTZ, "0 0 12 * *", "has 5 fields"),
        (QUARTZ, "0 0 12 31W * ?", "may run into the next month"),
        (QUARTZ, "0 0 12 L-30 * ?", "not in every month"),
        (QUARTZ, "0 0 12 ? * 0", "not accepted by Quartz"),
        (QUARTZ, "0 0 12 ? * 8", "not accepted by Quartz"),
        (QUARTZ, "0 0 12 ? * MONDAY", "not accepted by Quartz"),
        (QUARTZ, "0 0 12 15C * ?", "not understood"),
        (QUARTZ, "? 0 12 * * ?", "belongs in a day field"),
        (SPRING, "0 0 12 28W * *", "may run into the next month"),
        (SPRING, "0 0 22-2 * * *", "is descending"),
        (SPRING, "0 0 12 * * *  2027", "has 7 fields"),
        (SPRING, "0 0 12 * * L", "not accepted by Spring"),
        (SPRING, "0 0 12 * * 8", "not accepted by Spring"),
        (SPRING, "0 0/90 * * * *", "matches only the first"),
        (AWS, "0 12 * * * *", "needs `?`"),
        (AWS, "0 12 * * ?", "has 5 fields"),
        (AWS, "0 12 ? * 0 *", "not accepted by EventBridge"),
        (AWS, "0 12 * * ? 2300", "outside"),
        (AWS, "0 " * 1_000, "longer than"),
    ],
)
def test_what_a_scheduler_refuses_or_reads_in_its_own_way_is_left_out(
    dialect: JavaDialect, text: str, reason: str
) -> None:
    refused = read_java_cron(text, "UTC", dialect)
    assert isinstance(refused, ImportRefusal)
    assert reason in refused.reason
    assert refused.accepted


@settings(max_examples=60)
@given(
    st.sampled_from([QUARTZ, SPRING, AWS]),
    st.sets(st.sampled_from(["sun", "mon", "tue", "wed", "thu", "fri", "sat"]), min_size=1),
    st.booleans(),
    st.sampled_from(["plain", "nth", "last"]),
    st.integers(1, 4),
)
def test_weekdays_are_those_that_the_scheduler_counts(
    dialect: JavaDialect,
    days: set[str],
    named: bool,  # noqa: FBT001 - hypothesis gives it by position
    form: str,
    nth: int,
) -> None:
    order = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
    first = 0 if dialect is SPRING else 1
    ending = {"plain": "", "nth": f"#{nth}", "last": "L"}[form]
    chosen = [order.index(day) for day in days]
    words = [(order[day].upper() if named else str(day + first)) + ending for day in chosen]
    text = f"0 0 9 ? * {','.join(words)}" if dialect is not AWS else f"0 9 ? * {','.join(words)} *"

    def matches(day: datetime) -> bool:
        if day.isoweekday() % 7 not in chosen:
            return False
        if form == "nth":
            return (day.day - 1) // 7 + 1 == nth
        return form == "plain" or (day + timedelta(days=7)).month != day.month

    found = expand(cron(text, dialect), START, START + timedelta(days=DAYS)).occurrences
    expected = [
        day for day in (START + timedelta(days=number) for number in range(DAYS)) if matches(day)
    ]
    assert [each.due_at - timedelta(hours=9) for each in found] == expected


def test_both_day_fields_must_match_in_spring() -> None:
    assert cron("0 0 0 13 * FRI", SPRING).day_rule == "all"


AUTUMN = datetime(2027, 10, 30, 22, tzinfo=UTC)
SPRING_DAY = datetime(2027, 3, 27, 23, tzinfo=UTC)
NIGHT = timedelta(hours=6)


@pytest.mark.parametrize(
    ("dialect", "text", "autumn", "spring"),
    [
        (QUARTZ, "0 30 2 * * ?", "01:30", ""),
        (QUARTZ, "0 0,30 1-2 * * ?", "23:00 23:30 01:00 01:30", "00:00 00:30"),
        (
            QUARTZ,
            "0 0 * * * ?",
            "22:00 23:00 01:00 02:00 03:00",
            "23:00 00:00 01:00 02:00 03:00 04:00",
        ),
        (QUARTZ, "0 0 0/2 * * ?", "22:00 01:00 03:00", "23:00 02:00 04:00"),
        (SPRING, "0 30 2 * * *", "00:30 01:30", ""),
        (SPRING, "0 0,30 1-2 * * *", "23:00 23:30 00:00 00:30 01:00 01:30", "00:00 00:30"),
        (SPRING, "0 0 0/2 * * *", "22:00 00:00 01:00 03:00", "23:00 02:00 04:00"),
        (AWS, "30 2 * * ? *", "00:30", ""),
        (
            AWS,
            "0 * * * ? *",
            "22:00 23:00 00:00 02:00 03:00",
            "23:00 00:00 01:00 02:00 03:00 04:00",
        ),
    ],
)
def test_at_a_clock_change_it_is_due_when_its_scheduler_starts_it(
    dialect: JavaDialect, text: str, autumn: str, spring: str
) -> None:
    """The times are what Quartz 2.2.3, 2.3.2 and 2.5.2 and Spring 5.3.39, 6.1.14 and 6.2.0 answer.

    On Java 17. Those of EventBridge are what it documents.
    """
    read = cron(text, dialect, "Europe/Berlin")
    for start, expected in ((AUTUMN, autumn), (SPRING_DAY, spring)):
        found = expand(read, start, start + NIGHT).occurrences
        assert " ".join(f"{each.due_at:%H:%M}" for each in found) == expected
