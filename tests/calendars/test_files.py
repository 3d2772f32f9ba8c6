"""Calendars from files: what is imported, what is refused with its line, what is left out."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from unittest.mock import ANY

import pytest

from dueledger.calendars.csv_file import read_csv
from dueledger.calendars.ics_file import read_ics
from dueledger.ledger.errors import InvalidInput

WEEKEND = ("sat", "sun")
LAST = date(2028, 12, 31)
Write = Callable[[str, str], Path]

_DAY = "DTSTART;VALUE=DATE:20271224|"
EVENT = "BEGIN:VEVENT\r\nUID:{uid}\r\nSUMMARY:{name}\r\n{lines}\r\nEND:VEVENT\r\n"


def ics(*events: tuple[str, str]) -> str:
    text = "".join(
        EVENT.format(uid=number, name=name, lines=lines.replace("|", "\r\n"))
        for number, (name, lines) in enumerate(events)
    )
    return f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//test//\r\n{text}END:VCALENDAR\r\n"


def refusal(path: Path, first: date | None = None) -> list[tuple[str, str]]:
    read = read_csv if path.suffix == ".csv" else read_ics
    with pytest.raises(InvalidInput) as refused:
        read(path, WEEKEND, first, LAST)
    return [(problem.field, problem.reason) for problem in refused.value.problems]


def test_a_csv_is_read_whatever_wrote_it(write: Write) -> None:
    text = '\ufeffDate,Name\r\n2027-05-31,"Memorial Day, observed"\r\n\r\n2027-01-01,\r\n'
    document = read_csv(write("us.csv", text), WEEKEND, None, LAST).document
    assert document.holidays == (date(2027, 1, 1), date(2027, 5, 31))
    assert document.names == {date(2027, 5, 31): "Memorial Day, observed"}
    assert (document.first_day, document.last_day) == (date(2027, 1, 1), LAST)


def test_a_csv_of_dates_alone_is_enough(write: Write) -> None:
    document = read_csv(write("us.csv", "date\n2027-12-24\n"), WEEKEND, None, LAST).document
    assert document.holidays == (date(2027, 12, 24),)


def test_each_bad_line_of_a_csv_is_refused_by_its_number(write: Write) -> None:
    good, bad = "date,name\n2027-01-01,a\n", ("24.12.2027,b", "2027-01-01,c", "2029-01-01,d")
    text = good + "\n".join((*bad, "2027-02-30,e", "2027-05-01"))
    assert refusal(write("us.csv", text)) == [
        ("line 3", "no date"),
        ("line 4", "is given in line 2 already"),
        ("line 5", "is outside the range, 2028-12-31"),
        ("line 6", "no date"),
        ("line 7", "has 1 fields; the header has 2"),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("day,name\n2027-01-01,a\n", "not a known header"),
        ("2027-01-01\n", "not a known header"),
        ("", "has no days"),
        ("date,name\n", "has no days"),
        ('date,name\n2027-01-01,"a\n', "unexpected end of data"),
        ("date\n20270101\n", "no date"),
        ("date\n2027-W01-1\n", "no date"),
    ],
)
def test_what_is_no_list_of_days_is_refused(write: Write, text: str, said: str) -> None:
    ((_, reason),) = refusal(write("us.csv", text))
    assert said in reason


@pytest.mark.parametrize("name", ["us.csv", "us.ics"])
def test_another_encoding_is_refused_and_never_guessed(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes("date,name\n2027-01-01,Fête\n".encode("latin-1"))
    ((_, reason),) = refusal(path)
    assert "is not UTF-8" in reason


def test_all_day_events_are_holidays_and_yearly_ones_repeat_within_the_range(write: Write) -> None:
    text = ics(
        ("New Year", "DTSTART;VALUE=DATE:20200101|RRULE:FREQ=YEARLY|EXDATE;VALUE=DATE:20280101"),
        ("Shutdown", "DTSTART;VALUE=DATE:20271230|DTEND;VALUE=DATE:20280102"),
        ("Long", "DTSTART;VALUE=DATE:20270501|DURATION:P2D"),
        ("Thanksgiving", "DTSTART;VALUE=DATE:20261126|RRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH"),
        ("Gone", "DTSTART;VALUE=DATE:20270704|STATUS:CANCELLED"),
        ("Old", "DTSTART;VALUE=DATE:20190704"),
    )
    found = read_ics(write("us.ics", text), WEEKEND, date(2027, 1, 1), LAST)
    days = [day.isoformat() for day in found.document.holidays]
    assert days == [
        *("2027-01-01", "2027-05-01", "2027-05-02", "2027-11-25", "2027-12-30", "2027-12-31"),
        *("2028-01-01", "2028-11-23"),
    ]
    assert found.document.names[date(2027, 12, 31)] == "Shutdown"
    assert found.remarks == (
        "left out as CANCELLED (1): Gone",
        "left out as outside the range: 1 days",
    )


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("DTSTART;TZID=Europe/Berlin:20271224T090000", "at a time of day"),
        ("DTSTART:20271224T000000Z", "at a time of day"),
        ("DTSTART:20271224T000000", "at a time of day"),
        ("DTSTART;VALUE=DATE:20271224|DTEND;VALUE=DATE:20271224", "not between 1 and"),
        ("DTSTART;VALUE=DATE:20271224|DURATION:PT6H", "not between 1 and"),
        ("DTSTART;VALUE=DATE:20271224|RRULE:FREQ=MONTHLY", "does not repeat yearly"),
        ("DTSTART;VALUE=DATE:20271224|RDATE;VALUE=DATE:20281224", "RDATE is not supported"),
        ("LOCATION:nowhere", "exactly one DTSTART"),
        ("DTSTART;VALUE=DATE:2027122", "cannot be read: "),
        ("DTSTART;VALUE=PERIOD:20271224T000000Z/P1D", "at a time of day"),
        ("DTSTART;VALUE=DATE:20271224|DTEND;VALUE=DATE:x", "cannot be read: "),
        (_DAY + "DTEND;VALUE=DATE:20271225|DTEND;VALUE=DATE:20271226", "more than one DTEND"),
        (_DAY + "DURATION:P1D|DURATION:P2D", "more than one DURATION"),
        (_DAY + "DTEND;VALUE=PERIOD:20271224T000000Z/P1D", "cannot be read: "),
        (_DAY + "DURATION:x", "cannot be read: "),
        (_DAY + "RRULE:FREQ=YEARL", "`YEARL` is not a frequency"),
        (_DAY + "RRULE:FREQ=YEARLY;C1UNT=3", "`C1UNT` is not a part of a rule"),
        (_DAY + "RRULE:FREQ=YEARLY;INTERVAL=0", "INTERVAL `0` is outside its range"),
        (_DAY + "RRULE:FREQ=YEARLY;INTERVAL=1000000", "INTERVAL `1000000` is outside its range"),
        (_DAY + "RRULE:FREQ=YEARLY;COUNT=10001", "COUNT `10001` is outside its range"),
        (_DAY + "RRULE:FREQ=YEARLY;BYMONTHDAY=32", "BYMONTHDAY `32` is outside its range"),
        (_DAY + "RRULE:FREQ=YEARLY;BYEASTER=0", "`BYEASTER` is not a part of a rule"),
        (_DAY + "RRULE:FREQ=YEARLY;BYHOUR=9", "BYHOUR is not supported"),
        (_DAY + "RRULE:FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", "BYWEEKNO is not supported"),
        (_DAY + "RRULE:FREQ=YEARLY;UNTIL=20281231T000000", "UNTIL is a time of day"),
        (_DAY + "RRULE:FREQ=YEARLY;UNTIL=20271331", "UNTIL '20271331' is not a day"),
        (_DAY + "RRULE:FREQ=SECONDLY", "FREQ=SECONDLY is finer than a minute"),
        (_DAY + "RRULE:FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=30", "does not repeat yearly"),
        (_DAY + "RRULE:FREQ=YEARLY|RRULE:FREQ=YEARLY", "more than one RRULE"),
        (_DAY + "RRULE:FREQ=YEARLY|EXDATE:x", "cannot be read: "),
        ("DTSTART;VALUE=DATE:99991231|DURATION:P9D", "cannot be read: "),
        ("DTSTART;VALUE=DATE:00010101|RRULE:FREQ=YEARLY;BYDAY=MO", "more than 100,000 days"),
    ],
)
def test_an_event_that_is_no_whole_days_is_refused_by_its_name(
    write: Write, lines: str, said: str
) -> None:
    ((place, reason),) = refusal(write("us.ics", ics(("Odd", lines))))
    assert place == "Odd"
    assert said in reason


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30;COUNT=3",
        "FREQ=YEARLY;BYMONTH=2;BYDAY=5MO;BYMONTHDAY=30;INTERVAL=999999",
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30;BYSETPOS=-1",
    ],
)
def test_a_rule_that_no_day_matches_has_no_days(write: Write, rule: str) -> None:
    text = ics(("Never", f"DTSTART;VALUE=DATE:16010101|RRULE:{rule}"))
    assert refusal(write("us.ics", text)) == [(ANY, "has no all-day event in the range")]


def test_a_rule_ends_after_its_count_and_on_its_last_day(write: Write) -> None:
    text = ics(
        (
            "Count",
            "DTSTART;VALUE=DATE:20250601|RRULE:FREQ=YEARLY;COUNT=3|EXDATE;VALUE=DATE:20260601",
        ),
        ("Until", "DTSTART;VALUE=DATE:20250701|RRULE:FREQ=YEARLY;UNTIL=20270701"),
        ("Picked", "DTSTART;VALUE=DATE:20200907|RRULE:FREQ=YEARLY;BYMONTH=9;BYDAY=MO;BYSETPOS=1"),
        ("Gone", "DTSTART;VALUE=DATE:19500701|RRULE:FREQ=YEARLY;UNTIL=19600701"),
        ("Over new year", "DTSTART;VALUE=DATE:20201231|DURATION:P2D|RRULE:FREQ=YEARLY"),
    )
    found = read_ics(write("us.ics", text), WEEKEND, date(2027, 1, 1), LAST)
    assert [day.isoformat() for day in found.document.holidays] == [
        *("2027-01-01", "2027-06-01", "2027-07-01", "2027-09-06", "2027-12-31", "2028-01-01"),
        *("2028-09-04", "2028-12-31"),
    ]


def test_a_file_of_more_than_a_calendar_can_have_is_refused_before_it_is_computed(
    write: Write,
) -> None:
    never = "DTSTART;VALUE=DATE:00010101|RRULE:FREQ=YEARLY;COUNT=1;BYMONTH=2;BYMONTHDAY=30"
    reasons = {reason for _, reason in refusal(write("us.ics", ics(*[("Never", never)] * 100)))}
    assert reasons == {"cannot be read: with it the file has rules for more than 100,000 years"}
    lines = ics(("Long", "DTSTART;VALUE=DATE:20271224" + "|X:1" * 60_000))
    ((_, reason),) = refusal(write("us.ics", lines))
    assert reason == "has more than 50,000 lines"


def test_what_is_no_icalendar_is_refused(write: Write) -> None:
    ((_, reason),) = refusal(write("us.ics", "date,name\r\n2027-01-01,a\r\n"))
    assert "not iCalendar" in reason
