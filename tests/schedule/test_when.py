from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from dueledger.ledger.errors import InvalidInput, InvalidItem, UnknownZone, WindowTooLarge
from dueledger.ledger.schedule import (
    Cron,
    Decision,
    Every,
    Occurrence,
    Relative,
    SkipReason,
    When,
    due_for,
    expand,
    load_zone,
    tzdata_version,
    zone_names,
)
from dueledger.ledger.schedule.expressions import parse_offset, parse_period, period_text
from tests.cheap import check_cheap

ANCHOR = datetime(2026, 10, 31, 13, tzinfo=UTC)
HOUR = timedelta(hours=1)
WHEN: TypeAdapter[When] = TypeAdapter(When)
INSTANTS = st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


def relative(offset: str, **fields: str) -> Relative:
    document = {"relative": offset, "at": "09:00", "timezone": "America/New_York", **fields}
    return Relative.model_validate(document)


@given(st.integers(60, 10_000_000), INSTANTS, st.integers(0, 200))
def test_every_is_the_anchor_and_whole_periods_of_elapsed_time(
    seconds: int, start: datetime, periods: int
) -> None:
    every = Every(every=timedelta(seconds=seconds), anchor=ANCHOR)
    end = start + periods * every.every
    found = [each.due_at for each in expand(every, start, end).occurrences]
    assert all(start <= due_at < end and due_at >= ANCHOR for due_at in found)
    assert all((due_at - ANCHOR) % every.every == timedelta(0) for due_at in found)
    assert len(found) == periods or start < ANCHOR


@given(INSTANTS, st.lists(st.integers(0, 500_000), min_size=2, max_size=4))
def test_windows_of_a_fixed_rate_compose(start: datetime, cuts: list[int]) -> None:
    every = Every.model_validate({"every": "4h30m", "anchor": "2026-10-31T13:00:00Z"})
    bounds = [start + timedelta(seconds=cut) for cut in sorted(cuts)]
    whole = expand(every, bounds[0], bounds[-1]).occurrences
    parts = [
        each for low, high in pairwise(bounds) for each in expand(every, low, high).occurrences
    ]
    assert list(whole) == parts


def test_a_day_of_elapsed_time_is_24_hours_where_the_clock_changes() -> None:
    every = Every.model_validate({"every": "PT24H", "anchor": "2026-10-31T13:00:00Z"})
    window = expand(every, ANCHOR, ANCHOR + timedelta(days=3))
    assert [each.due_at.hour for each in window.occurrences] == [13, 13, 13]


@pytest.mark.parametrize(
    ("bounds", "hours"),
    [
        ({}, [13, 14, 15, 16]),
        ({"start": "2026-10-31T14:00:00Z"}, [14, 15, 16]),
        ({"start": "2026-10-31T14:00:01Z"}, [15, 16]),
        ({"end": "2026-10-31T15:00:00Z"}, [13, 14]),
        ({"end": "2026-10-31T15:00:01Z"}, [13, 14, 15]),
        ({"start": "2026-10-31T14:00:00Z", "end": "2026-10-31T15:00:00Z"}, [14]),
        ({"start": "2026-10-30T14:00:00Z"}, [13, 14, 15, 16]),
    ],
)
def test_a_fixed_rate_owes_from_its_start_and_before_its_end(
    bounds: dict[str, str], hours: list[int]
) -> None:
    document = {"every": "PT1H", "anchor": "2026-10-31T13:00:00Z", **bounds}
    window = expand(Every.model_validate(document), ANCHOR - 2 * HOUR, ANCHOR + 4 * HOUR)
    assert [each.due_at.hour for each in window.occurrences] == hours


def test_nothing_is_owed_before_the_anchor() -> None:
    every = Every.model_validate({"every": "PT1H", "anchor": "2026-10-31T13:00:00Z"})
    window = expand(every, ANCHOR - timedelta(days=2), ANCHOR + timedelta(hours=1))
    assert [each.due_at for each in window.occurrences] == [ANCHOR]


@pytest.mark.parametrize(
    ("offset", "effective", "nominal"),
    [
        ("P-30D", date(2027, 3, 1), date(2027, 1, 30)),
        ("-P30D", date(2027, 3, 1), date(2027, 1, 30)),
        ("P0D", date(2027, 3, 1), date(2027, 3, 1)),
        ("P1M", date(2027, 1, 31), date(2027, 2, 28)),
        ("P1M", date(2028, 1, 31), date(2028, 2, 29)),
        ("P-1M", date(2027, 3, 31), date(2027, 2, 28)),
        ("P1Y", date(2028, 2, 29), date(2029, 2, 28)),
        ("P-1M-1D", date(2027, 3, 31), date(2027, 2, 27)),
        ("P2W", date(2027, 12, 25), date(2028, 1, 8)),
    ],
)
def test_relative_moves_months_first_clamped_then_days(
    offset: str, effective: date, nominal: date
) -> None:
    occurrence = due_for(relative(offset), effective)
    assert occurrence.nominal == datetime.combine(nominal, datetime.min.time()).replace(hour=9)


def test_relative_is_a_local_time_of_day_on_both_sides_of_a_change() -> None:
    assert due_for(relative("P0D"), date(2027, 1, 4)).due_at.hour == 14
    assert due_for(relative("P0D"), date(2027, 7, 5)).due_at.hour == 13


def test_relative_in_a_gap_or_fold_says_what_was_decided() -> None:
    skipped = due_for(relative("P0D", at="02:30"), date(2027, 3, 14))
    assert skipped == Occurrence(
        datetime(2027, 3, 14, 7, 30, tzinfo=UTC),
        datetime(2027, 3, 14, 2, 30),  # noqa: DTZ001 - nominal times are naive
        timedelta(hours=-4),
        Decision.GAP_SHIFTED_FORWARD,
    )
    repeated = due_for(relative("P0D", at="01:30", fold="second"), date(2027, 11, 7))
    assert repeated.due_at == datetime(2027, 11, 7, 6, 30, tzinfo=UTC)
    assert repeated.decision == Decision.FOLD_SECOND


def test_relative_beyond_the_calendar_is_refused_by_name() -> None:
    with pytest.raises(InvalidItem) as refused:
        due_for(relative("P90Y"), date(9950, 1, 1))
    assert refused.value.problems[0].field == "effective_date"


@pytest.mark.parametrize("policy", [{"gap": "skip"}, {"fold": "both"}])
def test_an_item_owed_once_is_neither_skipped_nor_doubled(policy: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        relative("P-30D", **policy)


def test_collapsed_instants_are_one_item_and_the_exact_time_wins() -> None:
    cron = Cron(cron="30 2,3 * * *", timezone="America/New_York")
    start = datetime(2027, 3, 14, 5, tzinfo=UTC)
    found = expand(cron, start, start + timedelta(hours=12))
    (owed,) = found.occurrences
    assert (owed.nominal.hour, owed.decision) == (3, Decision.EXACT)
    (merged,) = found.skipped
    assert (merged.nominal.hour, merged.reason) == (2, SkipReason.MERGED)
    assert (merged.at, merged.into) == (owed.due_at, owed)


def test_a_window_without_bound_is_refused_before_it_is_expanded() -> None:
    cron = Cron(cron="* * * * * *", timezone="UTC")
    with pytest.raises(WindowTooLarge, match="shorter window"):
        expand(cron, ANCHOR, ANCHOR + timedelta(days=366))
    every = Every.model_validate({"every": "PT1S", "anchor": "2026-10-31T13:00:00Z"})
    with pytest.raises(WindowTooLarge):
        expand(every, ANCHOR, datetime.max.replace(tzinfo=UTC))


@pytest.mark.parametrize(
    ("expression", "year", "years", "count"),
    [
        ("* * * * L5", 2027, 4, 48 * 1440),
        ("* * * * fri#5", 2027, 1, 5 * 1440),
        ("0 0 L * *", 2027, 1, 12),
        ("0 0 * * *", 2027, 1, 365),
        ("0 0 1-30 1 *", 2027, 1, 30),
    ],
)
def test_the_estimate_of_an_expression_counts_its_days(
    expression: str, year: int, years: int, count: int
) -> None:
    cron = Cron(cron=expression, timezone="UTC")
    window = (datetime(year, 1, 1, tzinfo=UTC), datetime(year + years, 1, 1, tzinfo=UTC))
    assert cron.estimate(*window) == count == len(expand(cron, *window).occurrences)


def test_an_expression_that_is_dense_in_one_month_is_not_expanded_without_bound() -> None:
    cron = Cron(cron="* * * 1-30 1 *", timezone="UTC")
    with pytest.raises(WindowTooLarge):
        expand(cron, datetime(2027, 1, 1, tzinfo=UTC), datetime(2027, 2, 1, tzinfo=UTC))
    hour = (datetime(2027, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, 1, tzinfo=UTC))
    assert cron.estimate(*hour) == 3600


def test_a_window_needs_instants() -> None:
    with pytest.raises(InvalidInput, match="without an offset"):
        expand(Cron(cron="@daily", timezone="UTC"), ANCHOR.replace(tzinfo=None), ANCHOR)


def test_nothing_is_owed_outside_the_years_a_ledger_keeps() -> None:
    cron = Cron(cron="@yearly", timezone="UTC")
    low, high = datetime(1960, 1, 1, tzinfo=UTC), datetime(2300, 1, 1, tzinfo=UTC)
    years = [each.due_at.year for each in expand(cron, low, high).occurrences]
    assert years == list(range(1970, 2200))
    assert expand(cron, high, low).occurrences == ()


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("PT24H", "PT24H"),
        ("24h", "PT24H"),
        ("4h30m", "PT4H30M"),
        ("90m", "PT1H30M"),
        ("P7D", "PT168H"),
        ("P1W", "PT168H"),
        ("P1DT30S", "PT24H30S"),
    ],
)
def test_a_period_has_one_spelling_in_the_end(text: str, iso: str) -> None:
    assert period_text(parse_period(text)) == iso
    assert parse_period(iso) == parse_period(text)


@pytest.mark.parametrize("text", ["", "P", "PT", "P1M", "P1Y", "PT0S", "-PT1H", "1d", "5", 5, None])
def test_what_is_no_period_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"period|fixed length"):
        parse_period(text)


LONG = "9" * 100_000
LONG_TEXTS: list[dict[str, object]] = [
    {"every": "P" + "1Y" * 50_000 + "!", "anchor": "2027-01-01T00:00:00Z"},
    {"every": LONG, "anchor": "2027-01-01T00:00:00Z"},
    {"every": "PT1H", "anchor": LONG},
    {"at": LONG, "timezone": "UTC"},
    {"at": "2027-01-01T00:00", "timezone": "Europe/" + "n" * 100_000},
    {"relative": f"P{LONG}D", "at": "09:00", "timezone": "UTC"},
    {"business": LONG, "at": "09:00", "timezone": "UTC"},
    {"cron": LONG, "timezone": "UTC"},
    {"rrule": f"FREQ=DAILY;INTERVAL={LONG}", "start": "2027-01-01T00:00", "timezone": "UTC"},
]


@pytest.mark.parametrize("document", LONG_TEXTS)
def test_a_text_of_any_length_is_refused_fast(document: dict[str, object]) -> None:
    def refuse() -> None:
        with pytest.raises(ValidationError):
            WHEN.validate_python(document)

    check_cheap(refuse, seconds=0.1)


@pytest.mark.parametrize("text", ["", "P", "30D", "PT1H", "P1DT1H", "P40000D", "P9999Y", 30])
def test_what_is_no_distance_in_dates_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"distance"):
        parse_offset(text)


@pytest.mark.parametrize(
    "anchor", ["2026-10-31T13:00:00", "2026-10-31", "2026-13-01T00:00:00Z", "1969-12-31T00:00:00Z"]
)
def test_an_anchor_is_an_instant(anchor: str) -> None:
    with pytest.raises(ValidationError):
        Every.model_validate({"every": "PT1H", "anchor": anchor})


def test_a_when_reads_back_as_it_was_written() -> None:
    for when in (
        Cron(cron="30 2 * * *", timezone="America/New_York"),
        Every.model_validate({"every": "PT24H", "anchor": "2026-10-31T15:00:00+02:00"}),
        relative("P1Y-2W", gap="gap_end"),
    ):
        assert WHEN.validate_python(WHEN.dump_python(when, mode="json")) == when


def test_the_pinned_database_is_named_and_each_of_its_zones_is_read_once() -> None:
    assert tzdata_version()[:2] == "20"
    assert {"UTC", "America/New_York", "Pacific/Apia"} <= zone_names()
    assert load_zone("Europe/Berlin") is load_zone("Europe/Berlin")


@pytest.mark.parametrize("name", ["europe/berlin", "Mars/Olympus", "", "../../etc/passwd", "/UTC"])
def test_an_unknown_zone_is_refused_by_name(name: str) -> None:
    with pytest.raises(UnknownZone) as refused:
        load_zone(name)
    assert refused.value.fields["zone"] == name


def test_the_error_for_a_misspelt_zone_has_the_right_spelling() -> None:
    with pytest.raises(UnknownZone, match="Europe/Berlin"):
        load_zone("europe/berlin")
