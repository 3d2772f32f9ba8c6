"""Schedules of EventBridge in the documents that its tools make."""

import json
from pathlib import Path
from typing import Any

import pytest

from dueledger.importers.eventbridge import import_eventbridge
from dueledger.importers.import_result import ImportResult, OpenQuestion
from dueledger.importers.source_job import NewDefinitionFields

FILES = Path(__file__).parent / "files/eventbridge"
"""Written for these tests in the form that the tools print, with invented accounts."""
ANEW = NewDefinitionFields("aws", source="eventbridge:files")


def documents(found: ImportResult) -> dict[str, Any]:
    return {one.definition.definition: one.document for one in found.jobs}


def read(path: Path, **fields: object) -> ImportResult:
    schedule = {"Name": "s", "ScheduleExpression": "rate(1 hour)", **fields}
    (path / "s.json").write_text(json.dumps(schedule), encoding="utf-8")
    return import_eventbridge(path / "s.json", ANEW)


def test_each_document_has_its_schedules() -> None:
    found = import_eventbridge(FILES, ANEW)
    read = documents(found)
    assert set(read) == {
        *("billing/dunning-run", "heartbeat", "MonthEndClose", "ThirdFriday", "Reminder"),
        *("purge-expired", "weekly-report", "quarter_end"),
    }
    assert read["billing/dunning-run"]["when"] == {
        "cron": "30 6 ? * 1-5",
        "timezone": "Europe/Berlin",
        "start": "2027-01-01T00:00",
        "end": "2028-01-01T00:00",
        "gap": "skip",
        "fold": "first",
    }
    assert read["billing/dunning-run"]["smear"] == "PT15M"
    assert read["billing/dunning-run"]["payload"]["input"] == {"mode": "letters", "dry_run": False}
    assert read["MonthEndClose"]["when"]["cron"] == "0 22 lw * *"
    assert read["ThirdFriday"]["when"]["cron"] == "0 15 10 ? * 5#3 2027-2029"
    assert read["Reminder"]["when"] == {"at": "2027-11-20T13:00", "timezone": "America/New_York"}
    assert read["purge-expired"]["when"]["anchor"] == "2027-02-01T03:00:00Z"
    assert read["purge-expired"]["smear"] == "PT1H"
    frequencies = {one.definition.definition: one.inventory()["frequency"] for one in found.jobs}
    assert frequencies["Reminder"] == "once"
    assert frequencies["heartbeat"] == "every 5 min"
    assert frequencies["quarter_end"] == "4 a year"
    assert read["quarter_end"]["when"]["cron"] == "0 18 l-2 3,6,9,12 *"
    assert {one["source"] for one in read.values()} == {"eventbridge:files"}
    left_out = {one.text: one.reason for one in found.skipped}
    assert set(left_out) == {"archive", "old-report", "Templated"}
    assert "without its expression" in left_out["archive"]
    assert "disabled" in left_out["old-report"]
    assert found.passed_over == {"rule that events trigger": 1}
    secret = [one for one in found.jobs if OpenQuestion.SECRET in one.known.questions]
    assert [one.definition.definition for one in secret] == ["purge-expired"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"ScheduleExpression": "rate(0 minutes)"}, "not a number of"),
        ({"ScheduleExpression": "rate(5 weeks)"}, "not a number of"),
        ({"ScheduleExpression": "every day"}, "not cron(…)"),
        ({"ScheduleExpression": "${expression}"}, "not cron(…)"),
        ({"ScheduleExpression": 5}, "not cron(…)"),
        ({"ScheduleExpression": "cron(0 0 * * * *)"}, "needs `?`"),
        ({"ScheduleExpression": "at(2027-02-30T00:00:00)"}, "not of the form"),
        ({"ScheduleExpression": "cron(0 0 * * ? *)", "StartDate": "soon"}, "not of the form"),
        (
            {
                "ScheduleExpressionTimezone": "Europe/Berln",
                "ScheduleExpression": "cron(0 0 * * ? *)",
            },
            "unknown",
        ),
        ({"StartDate": "0001-01-01T00:00:00+14:00"}, "too far"),
        ({"State": "DISABLED"}, "disabled"),
    ],
)
def test_a_schedule_that_cannot_be_is_left_out(
    tmp_path: Path, fields: dict[str, object], reason: str
) -> None:
    found = read(tmp_path, **fields)
    assert found.jobs == []
    assert reason in found.skipped[0].reason


def test_a_window_longer_than_the_rate_is_cut_and_noted(tmp_path: Path) -> None:
    window = {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 600}
    [one] = read(tmp_path, FlexibleTimeWindow=window).jobs
    assert one.document["smear"] == "PT1H"
    assert "not over PT10H" in one.known.notes[0]


def test_a_rate_without_a_start_has_a_phase_by_its_name(tmp_path: Path) -> None:
    [one] = read(tmp_path).jobs
    assert OpenQuestion.PHASE in one.known.questions
