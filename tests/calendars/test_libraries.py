"""Calendars out of libraries, which are asked once and never while anything runs."""

import sys
from datetime import date

import pytest

from dueledger.calendars.exchange_source import read_exchange
from dueledger.calendars.holidays_source import read_holidays
from dueledger.calendars.ics_file import read_ics
from dueledger.calendars.source_calendar import DayRange
from dueledger.ledger.errors import InvalidInput, MissingExtra

YEAR = DayRange(date(2025, 1, 1), date(2025, 12, 31))


def test_a_countrys_holidays_come_with_their_names_and_its_weekend() -> None:
    found = read_holidays("US-NY", None, YEAR)
    document = found.document
    assert document.names[date(2025, 7, 4)] == "Independence Day"
    assert date(2025, 2, 12) in document.holidays, "Lincoln's, of New York alone"
    assert date(2025, 2, 12) not in read_holidays("US", None, YEAR).document.holidays
    assert document.weekend == ("sat", "sun")
    assert (document.first_day, document.last_day) == (YEAR.first, YEAR.last)
    assert read_holidays("US", ("fri",), YEAR).document.weekend == ("fri",)


def test_a_day_of_the_weekend_that_is_worked_instead_is_a_workday() -> None:
    document = read_holidays("CN", None, YEAR).document
    assert date(2025, 1, 26) in document.workdays
    assert document.calendar("cn").is_business_day(date(2025, 1, 26))


def test_days_that_are_only_estimated_are_reported() -> None:
    found = read_holidays("AE", None, DayRange(date(2030, 1, 1), date(2030, 12, 31)))
    assert "estimated" in found.remarks[0]


@pytest.mark.parametrize(
    ("place", "span", "said"),
    [
        ("XX", YEAR, "not a known country"),
        ("US-QQ", YEAR, "not a known part"),
        ("US", DayRange(date(2150, 1, 1), date(2150, 12, 31)), "known only for the years"),
    ],
)
def test_what_the_library_does_not_know_is_refused(place: str, span: DayRange, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        read_holidays(place, None, span)


def test_a_day_without_a_session_is_a_holiday_and_half_days_are_reported() -> None:
    found = read_exchange("XNYS", YEAR)
    calendar = found.document.calendar("nyse")
    assert not calendar.is_business_day(date(2025, 1, 9)), "a day of mourning, by no rule"
    assert found.document.names[date(2025, 7, 4)] == "July 4th"
    assert sum(calendar.is_business_day(day) for day in _days(2025)) == 250
    assert found.remarks[0].startswith("not imported: 3 sessions that open late or close early")


def _days(year: int) -> list[date]:
    first = date(year, 1, 1).toordinal()
    return [date.fromordinal(number) for number in range(first, date(year + 1, 1, 1).toordinal())]


def test_an_exchange_that_knows_no_more_years_is_refused() -> None:
    with pytest.raises(InvalidInput, match="only recorded to the year"):
        read_exchange("XKRX", DayRange(date(2025, 1, 1), date(2090, 12, 31)))
    with pytest.raises(InvalidInput, match=r"not a known exchange.*XNYS"):
        read_exchange("XNYZ", YEAR)


def test_a_library_that_is_not_there_is_named_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    for module in ("icalendar", "holidays", "exchange_calendars"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r"pip install 'dueledger\[holidays\]'"):
        read_holidays("US", None, YEAR)
    with pytest.raises(MissingExtra, match=r"pip install 'dueledger\[exchanges\]'"):
        read_exchange("XNYS", YEAR)
    with pytest.raises(MissingExtra, match=r"pip install 'dueledger\[ics\]'"):
        read_ics(tmp_path, (), None, date(2025, 1, 1))  # pyright: ignore[reportArgumentType] - never opened
