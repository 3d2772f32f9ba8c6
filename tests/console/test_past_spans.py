"""Which sums of the past load are read for a time: the longest that are whole in it."""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from dueledger.past_load import PastDays, spans_of

UNTIL = datetime(2027, 3, 3, 12, 15, tzinfo=UTC)


def test_days_of_utc_are_read_by_day_and_the_last_one_by_hour_and_quarter_hour() -> None:
    begins = [*PastDays.of(date(2027, 3, 1), 2, UTC).begins, UNTIL]
    noon, midnight = UNTIL.replace(minute=0), begins[2]
    assert spans_of(begins, (1440, 60, 15)) == [
        (1440, begins[0], midnight), (60, midnight, noon), (15, noon, UNTIL),
    ]  # fmt: skip


def test_days_of_another_zone_are_read_by_hour_and_where_they_begin_within_one_by_quarter() -> None:
    berlin = PastDays.of(date(2027, 3, 27), 3, ZoneInfo("Europe/Berlin")).begins
    assert spans_of(berlin, (1440, 60, 15)) == [(60, berlin[0], berlin[-1])]
    kolkata = PastDays.of(date(2027, 3, 1), 2, ZoneInfo("Asia/Kolkata")).begins
    spans = spans_of(kolkata, (1440, 60, 15))
    assert [each.minutes for each in spans] == [15, 60, 15, 60, 15]
    assert [each.begins for each in spans[1:]] == [each.ends for each in spans[:-1]]
    assert (spans[0].begins, spans[-1].ends) == (kolkata[0], kolkata[-1])
    assert kolkata[1] == spans[2].begins.replace(minute=30)
