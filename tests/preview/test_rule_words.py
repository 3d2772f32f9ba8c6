"""What a definition's rule says in words: right, without signs, and different where it differs."""

import re
from datetime import date, datetime, timedelta
from itertools import islice
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dueledger.ledger.definitions.parsing import load_definitions, parse_definition
from dueledger.ledger.schedule import Cron, Rrule
from dueledger.preview.cron_words import cron_words
from dueledger.preview.rrule_words import rrule_words
from dueledger.preview.rule_words import rule_words
from tests.definition_documents import LETTERS, RENEWAL
from tests.examples import examples

SIGNS = re.compile(r"[*/#?@;=]|(?<!\d{4}-)\b\d\d?-\d|\bL\b|\dW")
START = datetime(2027, 1, 4, 9)  # noqa: DTZ001 -- a local time
BERLIN = "Europe/Berlin"

CRONS = [
    ("* * * * *", "Every minute"),
    ("*/5 * * * *", "Every 5 minutes"),
    ("10/20 * * * *", "Every 20 minutes from minute 10 of the hour"),
    ("*/15 8-17 * * mon-fri", "Every 15 minutes from 08:00 to 17:45 on Monday to Friday"),
    ("*/15 8,12 * * *", "Every 15 minutes in hours 8 and 12"),
    ("*/7 * * * *", "At every 7th minute from 0 to 56 of every hour"),
    ("@hourly", "Every hour at minute 0"),
    ("30 */2 * * *", "Every 2 hours from 00:30"),
    ("0 8-17 * * *", "Every hour from 08:00 to 17:00"),
    ("50-2/5 0 * * *", "At 00:00, 00:50 and 00:55 every day"),
    ("0 6 * * *", "At 06:00 every day"),
    (
        "0,30 9 * 1,3-5 *",
        "At 09:00 and 09:30 every day in January and March to May",
    ),
    ("*/10 * * * * *", "Every 10 seconds"),
    ("15,40 * * * * *", "At seconds 15 and 40 of every minute"),
    ("15 30 6 * * *", "At 06:30:15 every day"),
    ("30 2 1,15 * *", "At 02:30 on the 1st and the 15th of each month"),
    ("0 9 */2 * *", "At 09:00 on every 2nd day from the 1st to the 31st of each month"),
    ("0 9 L,L-3 * *", "At 09:00 on the last day and the 3rd day before the last of each month"),
    ("0 9 15W * *", "At 09:00 on the weekday (Monday to Friday) nearest to the 15th of each month"),
    ("0 9 LW 6 *", "At 09:00 on the last weekday (Monday to Friday) of June"),
    (
        "0 9 L-2W * *",
        (
            "At 09:00 on the weekday (Monday to Friday) nearest to the 2nd day before the last"
            " of each month"
        ),
    ),
    ("0 9 * * fri#2,mon#1", "At 09:00 on the 1st Monday and the 2nd Friday of each month"),
    ("0 9 * 3 L5", "At 09:00 on the last Friday of March"),
    ("0 9 * * sat-tue", "At 09:00 on Monday, Tuesday, Saturday and Sunday"),
    ("0 0 9 1 1 ? 2045", "At 09:00 on the 1st of January in 2045"),
]
RULES = [
    ("FREQ=DAILY", "At 09:00 every day"),
    ("FREQ=DAILY;INTERVAL=3", "At 09:00 every day, in every 3rd day counted from 2027-01-04"),
    ("FREQ=WEEKLY", "At 09:00 on Monday"),
    (
        "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR;COUNT=10",
        (
            "At 09:00 on Monday and Friday, in every 2nd week counted from the week of 2027-01-04"
            " (weeks begin on Monday), 10 times"
        ),
    ),
    ("FREQ=MONTHLY", "At 09:00 on the 4th of each month"),
    ("FREQ=MONTHLY;BYMONTHDAY=-1", "At 09:00 on the last day of each month"),
    (
        "FREQ=MONTHLY;BYDAY=2TU,-1FR",
        "At 09:00 on the 2nd Tuesday and the last Friday of each month",
    ),
    (
        "FREQ=MONTHLY;BYMONTHDAY=13;BYDAY=FR",
        "At 09:00 on the 13th of each month, if it is also a Friday",
    ),
    (
        "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=18",
        "At 18:00 on Monday to Friday, only the last of these times in each month",
    ),
    (
        "FREQ=MONTHLY;INTERVAL=3;BYMONTHDAY=1",
        "At 09:00 on the 1st of the month, in every 3rd month counted from January 2027",
    ),
    ("FREQ=YEARLY", "At 09:00 on the 4th of January"),
    ("FREQ=YEARLY;BYYEARDAY=-1", "At 09:00 on the last day of the year"),
    ("FREQ=YEARLY;BYDAY=20MO", "At 09:00 on the 20th Monday of the year"),
    ("FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", "At 09:00 on Monday of the 20th week of the year"),
    ("FREQ=HOURLY;BYMINUTE=15", "Every hour at minute 15"),
    ("FREQ=HOURLY;INTERVAL=5", "Every 5 hours counted from 2027-01-04 09:00"),
    ("FREQ=MINUTELY;INTERVAL=7", "Every 7 minutes counted from 2027-01-04 09:00"),
    (
        "FREQ=DAILY;UNTIL=20271231T235959Z",
        "At 09:00 every day, the last not after 2027-12-31 23:59:59 UTC",
    ),
]
DEFINITIONS: list[tuple[dict[str, Any], str]] = [
    (
        {"when": {"business": "last", "at": "06:00", "timezone": BERLIN}},
        "At 06:00 on the last business day (Monday to Friday) of each month, Europe/Berlin",
    ),
    (
        {
            "when": {
                "business": {"day_of_month": 31, "roll": "modified_following"},
                "at": "09:00",
                "timezone": BERLIN,
            },
            "calendar": {"weekend": ["sat", "sun"], "holidays": ["2027-05-31"]},
        },
        (
            "At 09:00 on the 31st of each month that has it, Europe/Berlin; if that is not a"
            " business day (Monday to Friday except 2027-05-31), on the next one, or the one before"
            " if the next is in another month"
        ),
    ),
    (
        {
            "when": {"cron": "0 6 L * *", "timezone": BERLIN, "gap": "skip"},
            "calendar": {"weekend": [], "roll": "preceding"},
        },
        (
            "At 06:00 on the last day of each month, Europe/Berlin; if that is not a business day"
            " (every day), on the one before; a time that a clock change skips is skipped"
        ),
    ),
    (
        {
            "when": {
                "cron": "0 0 13 * fri",
                "day_rule": "any",
                "timezone": "UTC",
                "start": "2027-01-01T00:00",
                "end": "2028-01-01T00:00",
            },
            "smear": "PT10M",
        },
        (
            "At 00:00 on the 13th of each month and also on every Friday, UTC; from 2027-01-01"
            " 00:00 on; before 2028-01-01 00:00; each delayed by up to 10 minutes"
        ),
    ),
    (
        {"when": {"cron": "0 0 13 6 mon-fri", "day_rule": "all", "timezone": "UTC"}},
        "At 00:00 on the 13th of June if it is one of Monday to Friday, UTC",
    ),
    (
        {
            "when": {
                "rrule": "FREQ=YEARLY",
                "start": "2027-01-04T09:00",
                "exdate": ["2028-01-04T09:00"],
                "timezone": "UTC",
            }
        },
        "At 09:00 on the 4th of January, UTC; from 2027-01-04 09:00 on; not at 2028-01-04 09:00",
    ),
    (
        {"when": {"every": "PT90M", "anchor": "2026-10-31T13:00:00Z"}},
        "Every 1 hour 30 minutes counted from 2026-10-31 13:00 UTC",
    ),
    (
        {"when": {"at": "2027-11-07T01:30", "timezone": "UTC", "fold": "second"}},
        "Once, at 2027-11-07 01:30, UTC; a time that a clock change repeats is due the second time",
    ),
    (
        {"when": {"after_completion": "PT10M", "timezone": BERLIN}},
        "10 minutes after the end of the item before, Europe/Berlin",
    ),
]


def definition(**changes: object) -> str:
    return rule_words(
        parse_definition(
            {"definition": "x", "tenant": "acme", "kind": "X", "business_key": "x"} | changes
        )
    )


def cron(expression: str, **fields: object) -> Cron:
    return Cron.model_validate({"cron": expression, "timezone": "UTC", "sparse": True, **fields})


def rrule(text: str) -> Rrule:
    return Rrule(rrule=text, start=START, timezone="UTC", sparse=True)


@pytest.mark.parametrize(("expression", "words"), CRONS)
def test_a_cron_expression_is_said_in_words(expression: str, words: str) -> None:
    assert cron_words(cron(expression)) == words


@pytest.mark.parametrize(("text", "words"), RULES)
def test_a_recurrence_rule_is_said_in_words(text: str, words: str) -> None:
    assert rrule_words(rrule(text)) == words


@pytest.mark.parametrize(("changes", "words"), DEFINITIONS)
def test_a_definition_is_said_in_words(changes: dict[str, Any], words: str) -> None:
    assert definition(**changes) == words


def test_an_event_rule_names_its_event_and_a_declared_kind_has_no_words() -> None:
    [renewal], [letters] = (load_definitions(text, source="test") for text in (RENEWAL, LETTERS))
    assert rule_words(renewal) == (
        "For each PolicyActivated: at 17:00, 30 days before the effective date, America/New_York"
    )
    assert rule_words(letters) == ""


def field(low: int, high: int) -> st.SearchStrategy[str]:
    """Draw a field of a cron expression: a star, a number, a range, a step, or a list of these."""
    number = st.integers(low, high)
    part = st.one_of(
        st.just("*"),
        number.map(str),
        st.tuples(number, number).map(lambda ends: f"{min(ends)}-{max(ends)}"),
        st.integers(2, (high - low) // 2 + 1).map(lambda step: f"*/{step}"),
        st.tuples(number, number, st.integers(2, 9)).map(
            lambda drawn: f"{min(drawn[:2])}-{max(drawn[:2])}/{drawn[2]}"
        ),
    )
    return st.lists(part, min_size=1, max_size=3).map(",".join)


DAYS = st.one_of(
    st.just("*"),
    field(1, 31),
    st.sampled_from(["L", "L-1", "15W", "1W", "LW", "L-2W", "L,1", "1,L-5"]),
)
WEEKDAYS = st.one_of(
    st.just("*"), field(0, 6), st.sampled_from(["fri#2", "L5", "mon#1,mon#3", "fri#2,L5", "sun#5"])
)
FIELDS = (field(0, 59), field(0, 23), DAYS, field(1, 12), WEEKDAYS)
SECONDS = st.one_of(st.just("0"), field(0, 59))


def due_by(when: Cron) -> tuple[object, list[date]]:
    """Return the times of day and the days of three years, one of them a leap year."""
    return when.times_on(date(2028, 1, 1)), list(when.days(date(2027, 1, 1), date(2029, 12, 31)))


@settings(max_examples=examples(60, full=2_000))
@given(st.tuples(SECONDS, *FIELDS), st.data())
def test_words_of_cron_expressions_have_no_signs_and_differ_where_the_times_do(
    texts: tuple[str, ...], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(texts) - 1))
    other = list(texts)
    other[place] = data.draw((SECONDS, *FIELDS)[place])
    rules = [data.draw(st.sampled_from(["any", "all"])) for _ in range(2)]
    try:
        one, two = (
            cron(" ".join(each), day_rule=rule)
            for each, rule in zip((texts, other), rules, strict=True)
        )
    except ValidationError:
        assume(False)  # noqa: FBT003 -- as hypothesis has it
        raise
    words = [cron_words(each) for each in (one, two)]
    assert all(words)
    assert not any(SIGNS.search(each) for each in words)
    assert words[0] != words[1] or due_by(one) == due_by(two)


PARTS = {
    "INTERVAL": st.integers(1, 6).map(str),
    "BYMONTH": field(1, 12),
    "BYMONTHDAY": st.sampled_from(["1", "15", "-1", "1,-2", "31"]),
    "BYDAY": st.sampled_from(["MO", "TU,FR", "MO,TU,WE,TH,FR", "2TU", "-1FR", "1MO,-1MO"]),
    "BYHOUR": st.sampled_from(["9", "9,17", "0,1,2,3"]),
    "BYMINUTE": st.sampled_from(["0", "0,30", "15"]),
    "BYSECOND": st.sampled_from(["0", "30"]),
    "BYYEARDAY": st.sampled_from(["1", "-1", "100"]),
    "BYWEEKNO": st.sampled_from(["1", "20", "-1"]),
    "BYSETPOS": st.sampled_from(["1", "-1", "1,2"]),
    "WKST": st.sampled_from(["MO", "SU"]),
    "COUNT": st.sampled_from(["1", "5"]),
}
FREQUENCIES = st.sampled_from(["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY"])


@settings(max_examples=examples(60, full=2_000))
@given(FREQUENCIES, st.sets(st.sampled_from(sorted(PARTS)), max_size=4), st.data())
def test_words_of_recurrence_rules_have_no_signs_and_differ_where_the_times_do(
    frequency: str, names: set[str], data: st.DataObject
) -> None:
    parts = {name: data.draw(PARTS[name]) for name in sorted(names)}
    if "BYMONTH" in parts:
        parts["BYMONTH"] = data.draw(st.sampled_from(["1", "1,7", "3,4,5"]))
    changed = data.draw(st.sampled_from(sorted(set(PARTS) - {"BYMONTH"})))
    other = parts | {changed: data.draw(PARTS[changed])}
    written = [
        ";".join([f"FREQ={frequency}", *(f"{name}={value}" for name, value in each.items())])
        for each in (parts, other)
    ]
    try:
        one, two = map(rrule, written)
    except ValidationError:
        assume(False)  # noqa: FBT003 -- as hypothesis has it
        raise
    words = [rrule_words(each) for each in (one, two)]
    assert all(words)
    assert not any(SIGNS.search(each) for each in words)
    assert words[0] != words[1] or due_until(one) == due_until(two)


def due_until(when: Rrule) -> list[datetime]:
    return [
        at
        for at in islice(when.nominals(START, START + timedelta(days=800)), 3_000)
        if when.ruling.last_instant is None or at <= when.ruling.last_instant.replace(tzinfo=None)
    ]
