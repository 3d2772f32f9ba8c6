"""Which sums of the past load are read for a time: the longest that are whole in it."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Final
from zoneinfo import ZoneInfo

from dueledger.ledger.store.past_load import SumMinutes, SumSpan
from dueledger.past_load import PastDays, spans_of

SIZES: Final[tuple[SumMinutes, ...]] = (1440, 360, 60, 15)
UNTIL = datetime(2027, 3, 3, 13, 15, tzinfo=UTC)


def test_days_of_utc_are_read_by_day_and_the_last_one_by_the_longest_sums_that_are_whole() -> None:
    begins = [*PastDays.of(date(2027, 3, 1), 2, UTC).begins, UNTIL]
    hour = UNTIL.replace(minute=0)
    noon, midnight = hour.replace(hour=12), begins[2]
    assert spans_of(tuple(begins), SIZES) == [
        (1440, begins[0], midnight), (360, midnight, noon), (60, noon, hour), (15, hour, UNTIL),
    ]  # fmt: skip


def test_days_of_another_zone_are_read_by_the_longest_sums_that_are_whole_in_one_day() -> None:
    berlin = PastDays.of(date(2027, 3, 27), 3, ZoneInfo("Europe/Berlin")).begins
    spans = spans_of(tuple(berlin), SIZES)
    assert [each.minutes for each in spans] == [60, 360, 60, 360, 60, 360, 60]
    _assert_joined(spans, berlin)
    kolkata = PastDays.of(date(2027, 3, 1), 2, ZoneInfo("Asia/Kolkata")).begins
    spans = spans_of(tuple(kolkata), SIZES)
    assert [each.minutes for each in spans] == [15, 60, 360, 15, 60, 360, 15]
    _assert_joined(spans, kolkata)
    assert kolkata[1] == spans[3].begins.replace(minute=30)


def _assert_joined(spans: Sequence[SumSpan], begins: Sequence[datetime]) -> None:
    assert [each.begins for each in spans[1:]] == [each.ends for each in spans[:-1]]
    assert (spans[0].begins, spans[-1].ends) == (begins[0], begins[-1])
