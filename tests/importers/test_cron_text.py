"""Day fields compared with what each scheduler's own source says of them, day by day.

The oracle knows the sets from which an expression was written, and never reads the expression.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dueledger.importers.cron_text import Scheduler, read_cron
from dueledger.importers.source_job import TranslatedSchedule
from dueledger.ledger.schedule import Cron, expand

START = datetime(2027, 1, 1, tzinfo=UTC)
DAYS = 120


@dataclass(frozen=True)
class Field:
    """A day field as text, its numbers, and which programs read it as unrestricted."""

    text: str
    numbers: frozenset[int]
    free_to: frozenset[Scheduler]


EVERYONE = frozenset(Scheduler)


def field(low: int, high: int) -> st.SearchStrategy[Field]:
    everything = range(low, high + 1)
    star = st.just(Field("*", frozenset(everything), EVERYONE))
    # Vixie cron and robfig/cron v2 check only the star, v3 its step as well.
    stepped = st.integers(2, 4).map(
        lambda step: Field(
            f"*/{step}",
            frozenset(everything[::step]),
            frozenset({Scheduler.CRON, Scheduler.PROW}),
        )
    )
    numbers = st.sets(st.integers(low, high), min_size=1, max_size=4).map(
        lambda chosen: Field(",".join(map(str, sorted(chosen))), frozenset(chosen), frozenset())
    )
    ranged = st.tuples(st.integers(low, high), st.integers(low, high)).map(
        lambda ends: Field(
            f"{min(ends)}-{max(ends)}", frozenset(range(min(ends), max(ends) + 1)), frozenset()
        )
    )
    whole = st.just(Field(f"{low}-{high}", frozenset(everything), frozenset()))
    return st.one_of(star, stepped, numbers, ranged, whole)


def owed(day: datetime, days: Field, weekdays: Field, scheduler: Scheduler) -> bool:
    by_day, by_weekday = day.day in days.numbers, day.isoweekday() % 7 in weekdays.numbers
    if scheduler in days.free_to | weekdays.free_to:
        return by_day and by_weekday
    return by_day or by_weekday


@pytest.mark.parametrize("scheduler", Scheduler)
@settings(max_examples=60)
@given(days=field(1, 31), weekdays=field(0, 6))
def test_day_fields_mean_what_their_scheduler_means(
    scheduler: Scheduler, days: Field, weekdays: Field
) -> None:
    read = read_cron(f"0 6 {days.text} * {weekdays.text}", "UTC", scheduler)
    assert isinstance(read, TranslatedSchedule)
    window = expand(Cron.model_validate(read.when), START, START + timedelta(days=DAYS))
    every_day = (START + timedelta(days=number) for number in range(DAYS))
    expected = [day for day in every_day if owed(day, days, weekdays, scheduler)]
    assert [one.due_at.replace(hour=0) for one in window.occurrences] == expected


NEW_YORK = "America/New_York"
FORWARD = datetime(2027, 3, 14, tzinfo=UTC)
BACK = datetime(2027, 11, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "scheduler", "day", "due"),
    [
        # robfig/cron's own tests: "2am nightly job (skipped)", "1am nightly job (runs twice)"
        ("30 2 * * *", Scheduler.KUBERNETES, FORWARD, []),
        ("0 1 * * *", Scheduler.KUBERNETES, BACK, ["05:00", "06:00"]),
        # cron(8): jobs in the gap run right after it; jobs in the fold do not run again
        ("30 2 * * *", Scheduler.CRON, FORWARD, ["07:00"]),
        ("0 1 * * *", Scheduler.CRON, BACK, ["05:00"]),
        # and what has a star for its hour follows the clock
        ("30 */2 * * *", Scheduler.CRON, FORWARD, ["05:30", "08:30", "10:30"]),
    ],
)
def test_changes_of_the_clocks_do_what_they_did(
    text: str, scheduler: Scheduler, day: datetime, due: list[str]
) -> None:
    read = read_cron(text, NEW_YORK, scheduler)
    assert isinstance(read, TranslatedSchedule)
    window = expand(
        Cron.model_validate(read.when), day + timedelta(hours=5), day + timedelta(hours=12)
    )
    assert [f"{one.due_at:%H:%M}" for one in window.occurrences] == due
