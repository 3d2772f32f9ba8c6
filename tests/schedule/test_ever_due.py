"""A schedule of any kind that can never fall due is refused when it is defined; others are not."""

from datetime import UTC, datetime
from typing import Any

import pytest

from dueledger.ledger.definitions.parsing import Definition, parse_definition
from dueledger.ledger.errors import InvalidDefinition
from dueledger.ledger.schedule import RECURRING
from dueledger.ledger.schedule.falls_due import ever_due

CLOSED = {"weekend": ["sat", "sun"], "roll": "skip"}
HOLIDAYS = {"weekend": [], "holidays": [f"2027-01-{day:02}" for day in range(1, 21)]}
NEAREST = HOLIDAYS | {"roll": "nearest"}
T = "2026-01-01T00:00:00Z"
PARIS = {"timezone": "Europe/Paris"}


def definition(when: dict[str, Any], calendar: dict[str, Any] | None = None) -> Definition:
    named = {"definition": "d", "tenant": "acme", "kind": "D", "business_key": "d", "when": when}
    document = named | ({} if calendar is None else {"calendar": calendar})
    return parse_definition(document, calendars=None)


@pytest.mark.parametrize(
    ("when", "calendar", "field"),
    [
        (
            {
                "every": "P365D",
                "anchor": "2026-01-01T00:00:00Z",
                "start": "2026-01-02T00:00:00Z",
                "end": "2026-02-01T00:00:00Z",
            },
            None,
            "when.end",
        ),
        ({"every": "P7D", "anchor": "2027-01-02T00:00:00Z"}, CLOSED, "calendar.roll"),
        (
            {"business": "last", "at": "09:00", "end": "2027-01-10T00:00", **PARIS}
            | {"start": "2027-01-01T00:00"},
            None,
            "when.end",
        ),
        ({"cron": "0 9 * * sat", **PARIS}, CLOSED, "calendar.roll"),
        ({"cron": "* * * * * sat", **PARIS}, CLOSED, "calendar.roll"),
        (
            {"rrule": "FREQ=WEEKLY;BYDAY=SU", "start": "2027-01-01T00:00", **PARIS},
            CLOSED,
            "calendar.roll",
        ),
        (
            {"rrule": "FREQ=DAILY;COUNT=2", "start": "2027-01-02T00:00", **PARIS},
            CLOSED,
            "calendar.roll",
        ),
        ({"at": "2027-03-28T02:30", "gap": "skip", **PARIS}, None, "when"),
        ({"at": "2027-03-27T02:30", **PARIS}, CLOSED, "calendar.roll"),
        (
            {"at": "2027-03-26T02:30", **PARIS},
            CLOSED | {"first_day": "2027-03-29"},
            "calendar.roll",
        ),
        (
            {"cron": "30 2 25-31 3 sun", "day_rule": "all", "gap": "skip", **PARIS},
            None,
            "when",
        ),
    ],
)
def test_what_can_never_fall_due_is_refused(
    when: dict[str, Any], calendar: dict[str, Any] | None, field: str
) -> None:
    with pytest.raises(InvalidDefinition) as refused:
        definition(when, calendar)
    [problem] = refused.value.problems
    assert problem.field == field
    assert "never falls due" in problem.reason


@pytest.mark.parametrize(
    ("when", "calendar"),
    [
        ({"every": "P3650D", "anchor": T, "start": "2026-01-02T00:00:00Z"}, None),
        ({"every": "PT1S", "anchor": "2027-01-02T00:00:00Z"}, CLOSED),
        ({"cron": "* * * * * *", **PARIS}, CLOSED),
        ({"cron": "0 9 * * sat", **PARIS}, CLOSED | {"workdays": ["2027-05-01"]}),
        ({"cron": "0 9 * * sat", **PARIS}, CLOSED | {"roll": "following"}),
        ({"cron": "0 9 * * sat", **PARIS}, CLOSED | {"last_day": "2027-12-31"}),
        ({"cron": "0 9 * * sat", **PARIS}, {"name": "paris", "roll": "skip"}),
        ({"cron": "0 0 30 2 *", "sparse": True, **PARIS}, None),
        ({"rrule": "FREQ=DAILY;COUNT=3", "start": "2027-01-02T00:00", **PARIS}, CLOSED),
        ({"business": {"nth": 23}, "at": "09:00", **PARIS}, None),
        ({"at": "1999-01-01T00:00", **PARIS}, None),
        # It rolls to the year before, long before the start.
        ({"at": "2027-01-09T09:00", **PARIS}, HOLIDAYS | {"roll": "preceding"}),
        ({"rrule": "FREQ=DAILY;COUNT=1", "start": "2027-01-09T09:00", **PARIS}, NEAREST),
    ],
)
def test_what_may_fall_due_one_day_is_accepted(
    when: dict[str, Any], calendar: dict[str, Any] | None
) -> None:
    assert definition(when, calendar).is_schedule


@pytest.mark.parametrize(
    ("when", "since", "due"),
    [
        ({"at": "2027-01-01T09:00", **PARIS}, "2027-01-01T08:00", True),
        ({"at": "2027-01-01T09:00", **PARIS}, "2027-01-01T08:00:01", False),
        ({"cron": "0 9 * * *", "end": "2027-01-02T00:00", **PARIS}, "2027-01-01T08:00", True),
        ({"cron": "0 9 * * *", "end": "2027-01-02T00:00", **PARIS}, "2027-01-01T08:01", False),
        ({"business": "first", "at": "09:00", **PARIS}, "2190-01-01T08:01", True),
    ],
)
def test_what_is_over_is_known_to_be(when: dict[str, Any], since: str, due: bool) -> None:  # noqa: FBT001 - a case
    read = definition(when).when
    assert isinstance(read, RECURRING)
    assert ever_due(read, None, datetime.fromisoformat(since).replace(tzinfo=UTC)) is due
