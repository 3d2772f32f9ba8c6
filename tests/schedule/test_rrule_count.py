"""COUNT counts occurrences that fall due: where it ends, and that counting takes little time."""

from datetime import datetime
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dueledger.ledger.schedule import Fold, Gap, Occurrence, Rrule, load_zone, resolve
from tests.examples import examples
from tests.work_bound import check_lines

from .minute_scan import INTERESTING

EACH = ",".join(map(str, range(60)))
IN_THE_GAP = "FREQ=YEARLY;BYMONTH=3;BYDAY=2SU;BYHOUR=2;BYMINUTE=" + EACH


def rrule(rule: str, start: str = "2027-01-01T18:00", **fields: object) -> Rrule:
    document = {"rrule": rule, "start": start, "timezone": "America/New_York", **fields}
    return Rrule.model_validate(document)


@pytest.mark.parametrize(
    ("rule", "start", "sparse", "reason"),
    [
        (f"{IN_THE_GAP};COUNT=1", "2027-01-01T00:00", False, "has no occurrence within"),
        (IN_THE_GAP, "2027-01-01T00:00", False, "has no occurrence within"),
        (f"{IN_THE_GAP};COUNT=1", "2027-01-01T00:00", True, "too few occurrences"),
        (f"{IN_THE_GAP};BYSECOND={EACH};COUNT=1", "2027-01-01T00:00", False, "too few occurrences"),
        # Until 2006 the clocks went forward in April.
        (f"{IN_THE_GAP};COUNT=121", "2005-01-01T00:00", False, "too few occurrences"),
    ],
)
def test_a_counted_rule_whose_times_gaps_skip_is_refused_fast(
    rule: str, start: str, *, sparse: bool, reason: str
) -> None:
    def refuse() -> ValidationError:
        with pytest.raises(ValidationError) as refused:
            rrule(rule, start, gap="skip", sparse=sparse)
        return refused.value

    errors = check_lines(refuse, lines_max=200_000).errors()  # it was killed after 15 s once
    assert reason in errors[0].get("ctx", {})["reason"]


@pytest.mark.parametrize(
    "rule",
    ["FREQ=MINUTELY;COUNT=10000", "FREQ=DAILY;COUNT=10000", "FREQ=MONTHLY;COUNT=2000"],
)
def test_a_long_count_is_counted_once_and_fast(rule: str) -> None:
    when = check_lines(lambda: rrule(rule), lines_max=2_000_000)
    last = check_lines(lambda: when.ruling.last_instant, lines_max=2_000_000)
    assert last is not None
    assert check_lines(lambda: when.ruling.last_instant, lines_max=100) == last


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=DAILY;BYHOUR=1;BYSETPOS=2",
        "FREQ=HOURLY;BYMINUTE=1;BYSETPOS=-3",
        f"FREQ=MINUTELY;BYSECOND={EACH};BYSETPOS=61",
        "FREQ=WEEKLY;BYDAY=MO;BYSETPOS=2",
        "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6",
        "FREQ=YEARLY;BYDAY=MO;BYSETPOS=54",
        "FREQ=HOURLY;INTERVAL=24;BYHOUR=3",
        "FREQ=MINUTELY;INTERVAL=1440;BYHOUR=3",
        "FREQ=MINUTELY;INTERVAL=2;BYMINUTE=1,3,5,7,9,11",
        f"FREQ=MINUTELY;INTERVAL=90;BYMINUTE=15;BYSECOND={EACH}",
    ],
)
@pytest.mark.parametrize("gap", list(Gap))
def test_a_counted_rule_without_any_time_is_known_by_arithmetic(rule: str, gap: Gap) -> None:
    def last() -> datetime | None:
        when = rrule(f"{rule};COUNT=1", gap=gap.value, sparse=True)
        return when.ruling.last_instant

    assert check_lines(last, lines_max=20_000) is None  # each day up to 2200 was searched once


@settings(max_examples=examples(25, full=60))
@given(
    st.sampled_from(
        [
            "FREQ=MINUTELY;INTERVAL=13",
            "FREQ=HOURLY;BYMINUTE=0,30",
            "FREQ=DAILY;BYHOUR=0,1,2,3",
            "FREQ=DAILY;BYHOUR=2;BYMINUTE=30",
            "FREQ=WEEKLY;BYDAY=SA,SU,MO;BYHOUR=0,2,3",
            "FREQ=MONTHLY;BYMONTHDAY=-1,14,29;BYHOUR=1,2",
        ]
    ),
    st.integers(1, 700),
    st.sampled_from(INTERESTING),
    st.sampled_from(list(Gap)),
    st.sampled_from(list(Fold)),
    st.datetimes(datetime(2008, 1, 1), datetime(2012, 1, 1)),  # noqa: DTZ001 - local times
)
def test_count_ends_where_counting_every_instant_ends(
    rule: str, count: int, zone: str, gap: Gap, fold: Fold, start: datetime
) -> None:
    start = start.replace(second=0, microsecond=0)
    when = Rrule(rrule=f"{rule};COUNT={count}", start=start, timezone=zone, gap=gap, fold=fold)
    nominal = islice(when.nominals(start, datetime(2199, 1, 1)), 2 * count + 300)  # noqa: DTZ001
    found = {
        each.due_at
        for one in nominal
        for each in resolve(one, load_zone(zone), gap, fold)
        if isinstance(each, Occurrence)
    }
    assert when.ruling.last_instant == sorted(found)[count - 1]
