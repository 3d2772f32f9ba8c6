"""A long window in slices is the window itself, and each slice is small."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dueledger.ledger.errors import WindowTooLarge
from dueledger.ledger.schedule import Cron, Every, Fold, Gap, Rrule, expand
from dueledger.ledger.schedule.when import Recurring, expand_in_slices
from tests.examples import examples

from .minute_scan import INTERESTING

EACH = ",".join(map(str, range(60)))
START = datetime(2027, 3, 1, tzinfo=UTC)
NEAR_CHANGE = datetime(2027, 3, 13, 20, tzinfo=UTC)


def check(when: Recurring, start: datetime, end: datetime) -> int:
    slices = list(expand_in_slices(when, start, end))
    whole = expand(when, start, end)
    assert tuple(each for one in slices for each in one.occurrences) == whole.occurrences
    assert tuple(each for one in slices for each in one.skipped) == whole.skipped
    return max((len(one.occurrences) for one in slices), default=0)


@settings(max_examples=examples(12, full=25))
@given(
    st.sampled_from(["*/5 * * * *", "* 2 * * *", "0 0 1 1 *", "30 1,2,3 * * *"]),
    st.sampled_from(INTERESTING),
    st.sampled_from(list(Gap)),
    st.sampled_from(list(Fold)),
    st.datetimes(datetime(2009, 1, 1), datetime(2012, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    st.integers(0, 400),
)
def test_slices_compose_to_the_window(
    text: str, zone: str, gap: Gap, fold: Fold, start: datetime, days: int
) -> None:
    cron = Cron(cron=text, timezone=zone, gap=gap, fold=fold)
    check(cron, start, start + timedelta(days=days))


@pytest.mark.parametrize(
    "when",
    [
        Cron(cron="* * * * * *", timezone="America/New_York"),
        Rrule(
            rrule=f"FREQ=MINUTELY;BYSECOND={EACH}",
            start=datetime(2027, 1, 1),  # noqa: DTZ001
            timezone="America/New_York",
        ),
        Every.model_validate({"every": "PT1S", "anchor": "2027-01-01T00:00:00Z"}),
        Cron(cron="* * 5-6 14 3 *", timezone="America/New_York"),  # dense in two hours only
    ],
)
def test_no_slice_is_large(when: Recurring) -> None:
    assert check(when, NEAR_CHANGE, NEAR_CHANGE + timedelta(hours=14)) <= 40_000


def test_too_long_a_window_is_refused_before_its_first_slice() -> None:
    cron = Cron(cron="* * * * * *", timezone="UTC")
    with pytest.raises(WindowTooLarge):
        next(expand_in_slices(cron, START, START + timedelta(days=60)))
