"""Triggers of Quartz and schedules of Spring, from the files that programs have."""

from pathlib import Path
from typing import Any

import pytest

from dueledger.importers.import_result import ImportResult, OpenQuestion
from dueledger.importers.java_cron import JavaDialect
from dueledger.importers.quartz import import_quartz
from dueledger.importers.source_job import NewDefinitionFields
from dueledger.ledger.errors import InvalidInput
from tests.cheap import check_cheap

FILES = Path(__file__).parent / "files/quartz"
"""Written for these tests."""
ANEW = NewDefinitionFields("jvm", zone="Europe/Berlin")


def documents(found: ImportResult) -> dict[str, Any]:
    return {one.definition.definition: one.document for one in found.jobs}


def read(path: Path, name: str, text: str, anew: NewDefinitionFields = ANEW) -> ImportResult:
    (path / name).write_text(text, encoding="utf-8")
    return import_quartz(path / name, anew)


def test_triggers_have_their_job_its_data_and_its_misfire_policy() -> None:
    found = import_quartz(FILES / "quartz_data.xml", ANEW)
    read = documents(found)
    last = read["finance.lastWeekday"]
    assert last["when"]["cron"] == "0 22 lw * *"
    assert last["catch_up"] == {"policy": "latest"}
    assert last["payload"]["class"] == "com.example.finance.CloseBooksJob"
    quarter = read["finance.beforeQuarterEnd"]
    assert quarter["when"] == {
        "cron": "0 0/15 8-17 l-3 3,6,9,12 * 2027-2029",
        "timezone": "Europe/London",
        "start": "2027-01-01T00:00",
        "end": "2030-01-01T00:00:01",
        "gap": "shift_forward",
        "fold": "first",
    }
    assert quarter["catch_up"] == {"policy": "skip"}
    assert read["pollEveryTenSeconds"]["when"] == {
        "every": "PT10S",
        "anchor": "2026-12-31T23:00:05Z",
    }
    assert read["thirdFriday"]["when"]["cron"] == "15 10 ? * 5#3"
    left_out = {one.text: one.reason for one in found.skipped}
    assert set(left_out) == {"pollThrice", "notOnHolidays", "everyOtherMonth"}
    assert "bankHolidays" in left_out["notOnHolidays"]
    assert "some months lack" in left_out["everyOtherMonth"]
    secret = {
        n
        for n, q in ((j.definition.definition, j.known.questions) for j in found.jobs)
        if OpenQuestion.SECRET in q
    }
    assert secret == {"finance.lastWeekday", "finance.beforeQuarterEnd"}
    assert "hunter2" not in repr(found.skipped)


def test_annotations_are_read_with_their_class_and_method() -> None:
    found = import_quartz(FILES / "ReportJobs.java", ANEW)
    read = documents(found)
    assert read["ReportJobs.weekly"]["when"]["cron"] == "0 7 * * 1"
    assert read["ReportJobs.weekly"]["when"]["timezone"] == "Europe/Paris"
    assert read["ReportJobs.weekly"]["overlap"] == "skip"
    assert read["ReportJobs.refresh"]["when"]["every"] == "PT5M"
    assert read["ReportJobs.drain"]["when"] == {"after_completion": "PT1M30S"}
    twice = [one for one in read.values() if one["payload"] == {"method": "ReportJobs.twice"}]
    assert [one["when"]["cron"] for one in twice] == ["0 9 1w * *", "0 18 l * *"]
    assert {one.where for one in found.skipped} == {"ReportJobs.java:32", "ReportJobs.java:36"}
    assert len(read) == 5, "none of a comment"


def test_settings_with_cron_values_are_read_with_the_zone_beside_them() -> None:
    found = import_quartz(FILES / "application.properties", ANEW)
    read = documents(found)
    assert set(read) == {"billing.dunning", "billing.statement"}
    assert {one.text for one in found.skipped} == {
        "billing.archive",
        "billing.purge",
        "billing.broken",
    }
    yaml = documents(import_quartz(FILES / "application.yml", ANEW))
    assert {name: one["when"]["cron"] for name, one in yaml.items()} == {
        "jobs.reminders": "*/10 8-17 * * 1-5",
        "jobs.cron.heartbeat": "*/30 * * * * *",
        "jobs.cron.monthly": "@monthly",
    }


def test_a_plain_list_may_be_of_quartz(tmp_path: Path) -> None:
    (tmp_path / "jobs.properties").write_text("close.cron=0 0 22 ? * 2-6\n", encoding="utf-8")
    spring = documents(import_quartz(tmp_path, ANEW))
    quartz = documents(import_quartz(tmp_path, ANEW, JavaDialect.QUARTZ))
    assert spring["close"]["when"]["cron"] == "0 22 ? * 2-6"
    assert quartz["close"]["when"]["cron"] == "0 22 ? * 1-5"


def test_without_a_zone_nothing_is_guessed(tmp_path: Path) -> None:
    found = read(tmp_path, "a.properties", "x.cron=0 0 1 * * *", NewDefinitionFields("jvm"))
    assert found.jobs == []
    assert found.skipped[0].accepted == "--timezone Europe/Berlin"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>', "document type"),
        ('<!DOCTYPE x SYSTEM "file:///etc/passwd"><x/>', "document type"),
        ("<a>" * 100, "too deep"),
        ("<a>", "not XML"),
        ("", "not XML"),
        ("<a>&undeclared;</a>", "not XML"),
    ],
)
def test_xml_that_could_do_harm_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(tmp_path, "x.xml", text)
    assert reason in refused.value.problems[0].reason


def test_another_xml_document_is_counted(tmp_path: Path) -> None:
    assert read(tmp_path, "pom.xml", "<project/>").passed_over == {"XML document project": 1}


@pytest.mark.parametrize(
    "text",
    [
        "/*" * 400_000,
        '"' * 800_000,
        "@Scheduled(" * 80_000,
        '@Scheduled("' + "a" * 500_000 + '") void x() {}',
        "@Scheduled() " * 60_000,
        '@Scheduled(cron = "0 0 1 * * *")' + " " * 500_000,
        "class A" * 100_000,
        '@Scheduled(cron="0 0 1 * * *") ' + "@A " * 200_000,
    ],
)
def test_no_source_file_hangs(tmp_path: Path, text: str) -> None:
    check_cheap(lambda: read(tmp_path, "A.java", text), seconds=3)
