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

HOURLY = {"ScheduleExpression": "rate(1 hour)"}
TERRAFORM = {"schedule_expression": "rate(1 hour)"}


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
        *("billing/dunning-run", "heartbeat", "MonthEndClose", "ThirdFriday/settle"),
        *("CloseFunctionReminder",),
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
    assert read["ThirdFriday/settle"]["when"]["cron"] == "0 15 10 ? * 5#3 2027-2029"
    assert read["CloseFunctionReminder"]["when"] == {
        "at": "2027-11-20T13:00",
        "timezone": "America/New_York",
    }
    assert read["purge-expired"]["when"]["anchor"] == "2027-02-01T03:00:00Z"
    assert read["purge-expired"]["smear"] == "PT1H"
    frequencies = {one.definition.definition: one.inventory()["frequency"] for one in found.jobs}
    assert frequencies["CloseFunctionReminder"] == "once"
    assert frequencies["heartbeat"] == "every 5 min"
    assert frequencies["quarter_end"] == "4 a year"
    assert read["quarter_end"]["when"]["cron"] == "0 18 l-2 3,6,9,12 *"
    assert {one["source"] for one in read.values()} == {"eventbridge:files"}
    left_out = {one.text: one.reason for one in found.skipped}
    assert set(left_out) == {"archive", "old-report", "CloseFunctionTemplated"}
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
        ({"ScheduleExpression": "${expression}"}, "expression is a template"),
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
        ({"State": {"!Ref": "State"}}, "its State is a template"),
        ({"State": "${state}"}, "its State is a template"),
        ({"Enabled": False}, "disabled"),
        ({"Enabled": "false"}, "disabled"),
        ({"Enabled": {"Fn::If": ["Prod", True, False]}}, "its Enabled is a template"),
        ({"IsEnabled": False}, "disabled"),
        ({"ScheduleExpression": ""}, "not cron(…)"),
        ({"ScheduleExpression": {"!Sub": "rate(${M} minutes)"}}, "expression is a template"),
        ({"ScheduleExpression": {"Fn::Sub": "rate(5 minutes)"}}, "expression is a template"),
        ({"ScheduleExpression": {"Ref": "Expression"}}, "expression is a template"),
        ({"ScheduleExpressionTimezone": {"!Ref": "Zone"}}, "its zone is a template"),
        ({"ScheduleExpressionTimezone": "${var.zone}"}, "its zone is a template"),
        ({"StartDate": {"!Ref": "Start"}}, "not of the form"),
        ({"EndDate": True}, "not of the form"),
        ({"EndDate": 1e300}, "not of the form"),
        ({"Targets": {"Fn::If": ["Prod", "a", "b"]}}, "its targets are a template"),
        ({"FlexibleTimeWindow": {"!Ref": "Window"}}, "its FlexibleTimeWindow is a template"),
        (
            {"FlexibleTimeWindow": {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": {"Ref": "M"}}},
            "its FlexibleTimeWindow is a template",
        ),
        (
            {"FlexibleTimeWindow": {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": "1441"}},
            "not of 1 to 1,440 minutes",
        ),
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


@pytest.mark.parametrize("minutes", [15, "15"])
def test_a_window_may_be_a_text(tmp_path: Path, minutes: object) -> None:
    window = {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": minutes}
    [one] = read(tmp_path, FlexibleTimeWindow=window).jobs
    assert one.document["smear"] == "PT15M"


@pytest.mark.parametrize(
    "fields",
    [
        {"FlexibleTimeWindow": {"Mode": "OFF"}},
        {"FlexibleTimeWindow": {"Mode": False}},
        {"flexible_time_window": [{"mode": "OFF", "maximum_window_in_minutes": None}]},
        {"State": None, "IsEnabled": None, "StartDate": None, "EndDate": None},
        {"State": "ENABLED_WITH_ALL_CLOUDTRAIL_MANAGEMENT_EVENTS"},
        {"Enabled": True, "IsEnabled": "true", "ScheduleExpressionTimezone": ""},
    ],
)
def test_a_field_of_no_effect_is_read(tmp_path: Path, fields: dict[str, object]) -> None:
    [one] = read(tmp_path, **fields).jobs
    assert "smear" not in one.document
    assert one.known.notes == ()


def test_a_rule_has_a_definition_for_each_of_its_targets(tmp_path: Path) -> None:
    first = {"Id": "first", "Arn": "arn:aws:sqs:eu:1:a", "Input": '{"a": 1}'}
    second = {"Id": "second", "Arn": "arn:aws:sqs:eu:1:b"}
    nameless = {"Arn": {"Fn::GetAtt": ["Queue", "Arn"]}}
    [alone] = read(tmp_path, Targets=[second]).jobs
    found = read(tmp_path, Targets=[first, second, nameless, {"Id": "first"}])
    names = [one.definition.definition for one in found.jobs]
    assert names[:2] == ["s/first", "s/second"]
    assert names[2].startswith("s/target-")
    assert alone.document == found.jobs[1].document
    assert [one.document["payload"] for one in found.jobs] == [
        {"schedule": "s", "target": "arn:aws:sqs:eu:1:a", "input": {"a": 1}},
        {"schedule": "s", "target": "arn:aws:sqs:eu:1:b"},
        {"schedule": "s"},
    ]
    assert "Arn of its target is a template" in found.jobs[2].known.notes[0]
    assert [one.text for one in found.skipped] == ["s/first"]
    phases = {str(one.document["when"]) for one in found.jobs}
    assert len(phases) == 1, "a rule starts its targets together"


@pytest.mark.parametrize(
    ("fields", "note"),
    [
        ({"RetryPolicy": {"MaximumRetryAttempts": "3"}}, "up to 3 retries"),
        ({"RetryPolicy": {"MaximumEventAgeInSeconds": 60}}, "older than 60 s is dropped"),
        ({"RetryPolicy": {"MaximumRetryAttempts": {"Ref": "N"}}}, "an unknown number of retries"),
        ({"RetryPolicy": {"Ref": "Policy"}}, "its RetryPolicy is a template"),
        ({"Target": {"Arn": "a", "RetryPolicy": {"MaximumRetryAttempts": 3}}}, "up to 3 retries"),
        ({"Target": {"Arn": "a", "Input": {"Ref": "I"}}}, "its Input is a template"),
        ({"Targets": [{"Arn": "a", "InputPath": "$.x"}]}, "InputPath is not converted"),
        ({"Targets": [{"Arn": "a", "InputTransformer": None, "Input": None}]}, None),
        ({"DeadLetterConfig": {"Arn": "a"}}, "go to a queue there"),
        ({"GroupName": {"Ref": "Group"}}, "its GroupName is a template"),
        ({"EventPattern": "{}"}, "events trigger it, too"),
        ({"EventPattern": None}, None),
    ],
)
def test_a_field_that_is_not_converted_is_noted(
    tmp_path: Path, fields: dict[str, object], note: str | None
) -> None:
    [one] = read(tmp_path, **fields).jobs
    assert [note in each for each in one.known.notes] == [True] if note else one.known.notes == ()


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("2027-01-01T00:00:00", "2027-01-01T01:00"),
        ("2027-01-01T00:00:00+02:00", "2026-12-31T23:00"),
        (1798761600.0, "2027-01-01T01:00"),
    ],
)
def test_dates_are_utc_whatever_the_zone_is(tmp_path: Path, text: object, start: str) -> None:
    zone = {"ScheduleExpressionTimezone": "Europe/Berlin"}
    expression = {"ScheduleExpression": "cron(0 0 * * ? *)", "StartDate": text}
    [one] = read(tmp_path, **expression, **zone).jobs
    assert one.document["when"]["start"] == start  # type: ignore[index]


SAM = """\
Parameters:
  Rate: {Type: String, Default: rate(1 day)}
Resources:
  Jobs:
    Type: AWS::Serverless::Function
    Properties:
      Events:
        Nightly:
          Type: Schedule
          Properties:
            Schedule: rate(5 minutes)
            Input: '{"a": 1}'
            RetryPolicy: {MaximumRetryAttempts: 2}
        Idle:
          Type: Schedule
          Properties: {Schedule: rate(1 hour), Enabled: false}
        Named:
          Type: ScheduleV2
          Properties:
            Name: named
            GroupName: g
            ScheduleExpression: rate(1 hour)
            FlexibleTimeWindow: {Mode: FLEXIBLE, MaximumWindowInMinutes: "15"}
        Templated:
          Type: Schedule
          Properties: {Schedule: !Sub "rate(${Minutes} minutes)"}
        Empty: {Type: Schedule}
        Queue: {Type: SQS, Properties: {Queue: a}}
  More:
    Type: AWS::Serverless::StateMachine
    Properties:
      Events:
        Nightly: {Type: Schedule, Properties: {Schedule: cron(0 6 * * ? *)}}
  Backup:
    Type: AWS::Glue::Trigger
    Properties: {Schedule: cron(0 7 * * ? *)}
"""


def test_events_of_sam_are_named_for_their_functions(tmp_path: Path) -> None:
    (tmp_path / "sam.yaml").write_text(SAM, encoding="utf-8")
    found = import_eventbridge(tmp_path / "sam.yaml", ANEW)
    read = documents(found)
    assert set(read) == {"JobsNightly", "g/named", "MoreNightly"}
    assert read["JobsNightly"]["when"]["every"] == "PT5M"
    assert read["JobsNightly"]["payload"] == {
        "schedule": "JobsNightly",
        "target": "Jobs",
        "input": {"a": 1},
    }
    assert found.jobs[0].known.notes == ("up to 2 retries",)
    assert read["g/named"]["smear"] == "PT15M"
    assert {one.text: one.reason for one in found.skipped} == {
        "Rate.Default": "is an expression outside a schedule",
        "JobsIdle": "is disabled: nothing of it is due",
        "JobsTemplated": "its expression is a template",
        "JobsEmpty": "is listed without its expression",
        "Backup.Schedule": "is an expression outside a schedule",
    }


def test_a_schedule_without_a_name_in_a_list_is_named_by_what_it_says(tmp_path: Path) -> None:
    def names(*expressions: str) -> list[str]:
        members = [{"ScheduleExpression": each} for each in expressions]
        (tmp_path / "s.json").write_text(json.dumps(members), encoding="utf-8")
        found = import_eventbridge(tmp_path / "s.json", ANEW)
        return [one.definition.definition for one in found.jobs]

    assert names("rate(1 hour)", "rate(2 hours)")[1:] == names("rate(2 hours)")


def test_a_plan_of_terraform_is_read_once(tmp_path: Path) -> None:
    values = {"name": "s", "schedule_expression": "rate(1 hour)"}
    resource = {"name": "r", "values": values}
    plan = {
        "planned_values": {"root_module": {"resources": [resource]}},
        "resource_changes": [{"change": {"before": None, "after": values}}],
    }
    (tmp_path / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    found = import_eventbridge(tmp_path / "plan.json", ANEW)
    assert list(documents(found)) == ["s"]
    assert found.skipped == []


def test_what_a_list_of_another_partition_has_is_listed(tmp_path: Path) -> None:
    listed: dict[str, Any] = {
        "Arn": "arn:aws-cn:scheduler:cn:1:schedule/default/a",
        "Name": "a",
        "Target": {},
    }
    (tmp_path / "s.json").write_text(json.dumps({"Schedules": [listed]}), encoding="utf-8")
    [one] = import_eventbridge(tmp_path / "s.json", ANEW).skipped
    assert "without its expression" in one.reason


@pytest.mark.parametrize(
    ("document", "of"),
    [
        (
            {"Resources": {"R": {"Type": "AWS::SSM::Association", "Properties": HOURLY}}},
            "AWS::SSM::Association",
        ),
        (
            {"values": {"resources": [{"type": "aws_ssm_association", "values": TERRAFORM}]}},
            "aws_ssm_association",
        ),
        ({"resource": {"aws_ssm_association": {"r": TERRAFORM}}}, "aws_ssm_association"),
    ],
)
def test_an_expression_of_another_service_is_left_out(
    tmp_path: Path, document: dict[str, object], of: str
) -> None:
    (tmp_path / "s.json").write_text(json.dumps(document), encoding="utf-8")
    found = import_eventbridge(tmp_path / "s.json", ANEW)
    assert found.jobs == []
    assert [one.reason for one in found.skipped] == [f"is of {of}, not of EventBridge"]
