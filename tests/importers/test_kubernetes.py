"""CronJobs and Prow's periodic jobs: converted with their meaning, or named with the reason."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import dueledger
from dueledger.importers.import_result import ImportedJob, ImportResult, OpenQuestion, SkippedJob
from dueledger.importers.kubernetes import import_kubernetes
from dueledger.importers.source_job import NewDefinitionFields
from dueledger.ledger.errors import InvalidInput
from dueledger.ledger.schedule import AfterCompletion, Cron, Every, expand

PERIODICS = Path(dueledger.__file__).resolve().parents[1] / "examples/kubernetes/periodics.json"
DAY = datetime(2027, 3, 1, tzinfo=UTC)
ANEW = NewDefinitionFields("acme", DAY)


def cronjob(name: str = "report", **spec: object) -> dict[str, object]:
    metadata = {"name": name, "namespace": "billing"}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": metadata,
        "spec": {"schedule": "30 2 * * *", **spec},
    }


def read(path: Path, *documents: object, zone: str = "UTC") -> ImportResult:
    file = path / "jobs.yaml"
    file.write_text("\n---\n".join(map(json.dumps, documents)), encoding="utf-8")
    return import_kubernetes(file, replace(ANEW, zone=zone))


def job(path: Path, document: object, zone: str = "UTC") -> ImportedJob:
    found = read(path, document, zone=zone)
    assert found.skipped == []
    [one] = found.jobs
    return one


def left_out(path: Path, document: object) -> SkippedJob:
    found = read(path, document)
    assert found.jobs == []
    [one] = found.skipped
    return one


def when(path: Path, schedule: str) -> Any:  # noqa: ANN401 - a document
    return job(path, cronjob(schedule=schedule)).document["when"]


def test_a_cronjob_keeps_its_times_its_zone_and_its_namespace(tmp_path: Path) -> None:
    one = job(tmp_path, cronjob(timeZone="Europe/Berlin"))
    assert one.document == {
        "definition": "billing/report",
        "tenant": "acme",
        "kind": "CronJobDue",
        "business_key": "billing/report",
        "when": {
            "cron": "30 2 * * *",
            "timezone": "Europe/Berlin",
            "gap": "skip",
            "fold": "both",
        },
        "labels": {"namespace": "billing"},
        "lane": "namespace",
        "overlap": "allow",
        "payload": {"cronjob": "billing/report"},
    }
    assert OpenQuestion.CLOCKS in one.known.questions
    assert OpenQuestion.ZONE not in one.known.questions


def test_without_a_zone_the_controllers_is_taken_and_asked_about(tmp_path: Path) -> None:
    one = job(tmp_path, cronjob(), zone="Asia/Tokyo")
    assert isinstance(one.definition.when, Cron)
    assert one.definition.when.timezone == "Asia/Tokyo"
    assert OpenQuestion.ZONE in one.known.questions


@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_zone_is_not_taken_for_the_controllers(tmp_path: Path, empty: str) -> None:
    [one] = read(tmp_path, cronjob(timeZone=empty), zone="Asia/Tokyo").skipped
    assert "empty `timeZone`" in one.reason


@pytest.mark.parametrize("prefix", ["TZ=Asia/Tokyo ", "CRON_TZ=Asia/Tokyo  "])
def test_a_zone_inside_the_schedule_is_taken_out_of_it(tmp_path: Path, prefix: str) -> None:
    assert when(tmp_path, schedule=f"{prefix}30 2 * * *") == {
        "cron": "30 2 * * *",
        "timezone": "Asia/Tokyo",
    }
    both = cronjob(schedule=f"{prefix}30 2 * * *", timeZone="UTC")
    assert "refuses both" in left_out(tmp_path, both).reason


@pytest.mark.parametrize(
    ("policy", "overlap"),
    [(None, "allow"), ("Allow", "allow"), ("Forbid", "skip"), ("Replace", "cancel_other")],
)
def test_what_happens_when_two_meet_is_kept(
    tmp_path: Path, policy: str | None, overlap: str
) -> None:
    assert job(tmp_path, cronjob(concurrencyPolicy=policy)).definition.overlap == overlap


def test_a_suspended_one_is_left_out(tmp_path: Path) -> None:
    assert "suspended" in left_out(tmp_path, cronjob(suspend=True)).reason
    assert job(tmp_path, cronjob(suspend=False))


def test_a_starting_deadline_is_a_catch_up_and_zero_is_named_as_not_converted(
    tmp_path: Path,
) -> None:
    one = job(tmp_path, cronjob(startingDeadlineSeconds=600))
    assert one.document["catch_up"] == {"policy": "latest", "window": "PT10M"}
    assert OpenQuestion.MISSED not in one.known.questions
    none = job(tmp_path, cronjob(startingDeadlineSeconds=0))
    assert "catch_up" not in none.document
    assert OpenQuestion.MISSED in none.known.questions
    assert any("startingDeadlineSeconds: 0 is not converted" in note for note in none.known.notes)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"spec": {"schedule": "@daily", "startingDeadlineSeconds": 10**30}}, "less than or equal"),
        (
            {"status": {"lastScheduleTime": "0001-01-01T00:00:00+14:00"}},
            "too far in the past or future",
        ),
        ({"status": {"lastScheduleTime": "2027-01-01T00:00:00"}}, "timezone"),
        ({"metadata": {"namespace": "x"}}, "name"),
        ({"spec": None}, "spec"),
        ({"spec": {"schedule": "@daily", "concurrencyPolicy": "Never"}}, "Forbid"),
    ],
)
def test_a_cronjob_that_cannot_be_is_left_out(
    tmp_path: Path, fields: dict[str, object], reason: str
) -> None:
    assert reason in left_out(tmp_path, {**cronjob(schedule="@every 1h"), **fields}).reason


def test_every_counts_from_the_last_start_where_the_cluster_tells_it(tmp_path: Path) -> None:
    exported = {
        **cronjob(schedule="@every 90m"),
        "status": {"lastScheduleTime": "2027-02-28T22:10:00Z"},
    }
    one = job(tmp_path, exported)
    assert one.document["when"] == {"every": "PT1H30M", "anchor": "2027-02-28T22:10:00Z"}
    assert OpenQuestion.PHASE not in one.known.questions
    unknown = job(tmp_path, cronjob(schedule="@every 90m"))
    assert isinstance(unknown.definition.when, Every)
    assert OpenQuestion.PHASE in unknown.known.questions


@pytest.mark.parametrize(
    ("schedule", "reason"),
    [
        ("0 0 * * 7", "weekdays from 0 to 6"),
        ("0 0 0 * * *", "6 fields"),
        ("0 0 L * *", "not accepted by Kubernetes"),
        ("0 0 * * sat-mon", "is descending"),
        ("@reboot", "not a time"),
        ("@every 500ms", "not a period"),
        ("TZ=Nowhere/Land 0 0 * * *", "unknown time zone"),
        ("0 0 * * $(X)", "not accepted"),
        ("{{ .Values.schedule }}", "fields"),
        ("0 " * 100_000, "longer than"),
        ("TZ=" + "x" * 100_000 + " 0 0 * * *", "longer than"),
        (5, "schedule"),
        (None, "schedule"),
    ],
)
def test_what_kubernetes_would_not_run_is_left_out(
    tmp_path: Path, schedule: object, reason: str
) -> None:
    one = left_out(tmp_path, cronjob(schedule=schedule))
    assert reason in one.reason
    assert one.text in {"billing/report", "report"}


def test_who_owns_it_is_read_from_labels(tmp_path: Path) -> None:
    document: Any = cronjob()
    document["metadata"] |= {
        "labels": {"acme.io/team": "payments"},
        "annotations": {"criticality": "high", "description": "Monthly report"},
    }
    one = job(tmp_path, document)
    assert (one.known.owner, one.known.criticality) == ("payments", "high")
    assert one.known.description == "Monthly report"


def test_lists_streams_and_folders_are_read_whole(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    listed = {"kind": "List", "items": [cronjob("a"), {"kind": "Deployment"}]}
    (tmp_path / "deep/list.json").write_text(json.dumps(listed), encoding="utf-8")
    named = {"kind": "CronJobList", "items": [cronjob("b")]}
    stream = f"{json.dumps(named)}\n---\n# nothing\n---\n{json.dumps(cronjob('c'))}"
    (tmp_path / "stream.yml").write_text(stream, encoding="utf-8")
    (tmp_path / "chart.yaml").write_text("a: {{ .Values.b }}\n  - c", encoding="utf-8")
    (tmp_path / "readme.md").write_text("{{", encoding="utf-8")
    found = import_kubernetes(tmp_path, ANEW)
    assert [one.definition.definition for one in found.jobs] == [
        "billing/a",
        "billing/b",
        "billing/c",
    ]
    assert [one.where for one in found.skipped] == ["chart.yaml"]
    assert "templates filled in" in str(found.skipped[0].accepted)
    assert found.passed_over == {"Deployment": 1}


def test_a_schedule_of_another_kind_is_listed(tmp_path: Path) -> None:
    workflow = {"kind": "CronWorkflow", "spec": {"schedules": ["0 1 * * *"]}}
    backup = {"kind": "ScheduledBackup", "spec": {"schedule": "0 0 1 * * *"}}
    other = {"kind": "Deployment", "spec": {"replicas": 1}}
    items = {"kind": "List", "items": [workflow, backup, other]}
    (tmp_path / "list.json").write_text(json.dumps(items), encoding="utf-8")
    found = import_kubernetes(tmp_path / "list.json", ANEW)
    assert [one.text for one in found.skipped] == ["CronWorkflow", "ScheduledBackup"]
    assert found.passed_over == {"Deployment": 1}


def test_anchors_and_merges_of_yaml_are_read(tmp_path: Path) -> None:
    text = """
a: &spec {schedule: "0 1 * * *", concurrencyPolicy: Forbid}
---
kind: CronJob
metadata: {name: x}
spec: &other
  schedule: "0 1 * * *"
  jobTemplate: {}
"""
    (tmp_path / "x.yaml").write_text(text, encoding="utf-8")
    assert len(import_kubernetes(tmp_path / "x.yaml", ANEW).jobs) == 1


@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b"a: [", b"[" * 100_000, b"- " * 100_000, b"a: 2027-13-45"]
)
def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.yaml").write_bytes(content)
    with pytest.raises(InvalidInput) as refused:
        import_kubernetes(tmp_path / "x.yaml", ANEW)
    assert "x.yaml" in str(refused.value)


def test_the_same_name_twice_is_converted_once(tmp_path: Path) -> None:
    found = read(tmp_path, cronjob(), cronjob())
    assert len(found.jobs) == 1
    assert "the same name as jobs.yaml:1" in found.skipped[0].reason


def test_every_periodic_job_of_the_kubernetes_project_becomes_a_definition() -> None:
    found = import_kubernetes(PERIODICS, ANEW)
    whens = [one.definition.when for one in found.jobs]
    assert found.skipped == []
    assert len({one.definition.definition for one in found.jobs}) == len(whens) == 1335
    assert sum(isinstance(when, Cron) for when in whens) == 405
    assert sum(isinstance(when, Every) for when in whens) == 902
    assert sum(isinstance(when, AfterCompletion) for when in whens) == 28
    assert {one.definition.overlap for one in found.jobs} == {"skip"}


def test_prows_own_files_are_read(tmp_path: Path) -> None:
    periodic = {
        "name": "ci-build",
        "interval": "1h30m",
        "decoration_config": {"timeout": "1h0m0s"},
        "annotations": {"testgrid-dashboards": "sig-release-master-blocking, other"},
    }
    one = job(tmp_path, {"periodics": [periodic], "presubmits": {}})
    assert isinstance(one.definition.when, Every)
    assert one.known.criticality == "release-blocking"
    assert one.known.notes == ("time limit 1h0m0s",)
    assert OpenQuestion.TIME_LIMIT in one.known.questions


def test_a_fixed_rate_keeps_its_period_and_is_spread_by_name() -> None:
    jobs = json.loads(PERIODICS.read_text("utf-8"))
    hours = {job["name"] for job in jobs if job.get("interval") == "12h"}
    firsts: set[datetime] = set()
    for one in import_kubernetes(PERIODICS, ANEW).jobs:
        if one.definition.definition in hours:
            when = one.definition.when
            assert isinstance(when, Every)
            assert when.every.total_seconds() == 12 * 3600
            firsts.add(when.anchor)
    assert len(firsts) > len(hours) / 2


def test_prows_cron_is_read_in_utc(tmp_path: Path) -> None:
    one = job(tmp_path, {"name": "a", "cron": "30 6 * * *"})
    assert isinstance(one.definition.when, Cron)
    [due] = expand(one.definition.when, DAY, DAY.replace(day=2)).occurrences
    assert due.due_at == DAY.replace(hour=6, minute=30)


@pytest.mark.parametrize(
    ("periodic", "reason"),
    [
        ([{"name": "a"}], "exactly one of cron, interval and minimum_interval"),
        ({"name": "a", "cron": "@daily", "interval": "1h"}, "exactly one of"),
        ({"name": "a", "interval": "1.5h"}, "not a period of elapsed time"),
        ({"name": "a", "cron": "0 0 * * 7"}, "weekdays from 0 to 6"),
        ({"name": "", "cron": "@daily"}, "name"),
        ({"cron": "@daily"}, "name"),
    ],
)
def test_a_periodic_job_that_prow_would_not_run_is_left_out(
    tmp_path: Path, periodic: object, reason: str
) -> None:
    assert reason in left_out(tmp_path, periodic).reason
