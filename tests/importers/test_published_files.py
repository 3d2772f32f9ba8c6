"""Files that packages publish, imported whole. `published/README.md` has their sources.

The schedules are counted in the text, without the importer: each one is carried over, left out with
a reason, or reported.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from dueledger.importers.crontab import import_crontab
from dueledger.importers.eventbridge import import_eventbridge
from dueledger.importers.import_result import ImportResult
from dueledger.importers.quartz import import_quartz
from dueledger.importers.source_job import NewDefinitionFields
from dueledger.importers.systemd import import_systemd

FILES = Path(__file__).parent / "published"
README = (FILES / "README.md").read_text("utf-8")
ANEW = NewDefinitionFields("published", zone="Europe/Berlin")
CLOCKS = {"timezone": "Europe/Berlin", "gap": "skip"}


def whens(found: ImportResult) -> dict[str, Any]:
    """Return what each definition says when, by its name without the hash that ends it."""
    named = ((one.definition.definition, one.document["when"]) for one in found.jobs)
    return {re.sub(r"-[0-9a-f]{6}$", "", name): when for name, when in named}


def left_out(found: ImportResult) -> dict[str, str]:
    return {one.text: one.reason for one in found.skipped}


def counted(folder: str, pattern: str) -> int:
    texts = [each.read_text("utf-8") for each in sorted((FILES / folder).iterdir())]
    return sum(len(re.findall(pattern, text, re.MULTILINE)) for text in texts)


def test_each_file_has_its_source_and_licence() -> None:
    named = re.findall(r"`((?:quartz|spring|eventbridge|systemd|crontab)/[^`*]+)`", README)
    files = [str(each.relative_to(FILES)) for each in FILES.glob("*/*")]
    assert sorted(named) == sorted(files)


def test_quartz() -> None:
    found = import_quartz(FILES / "quartz", ANEW)
    assert (len(found.jobs), len(found.skipped)) == (37, 5)
    assert counted("quartz", "<trigger>") == 37 + 4
    assert left_out(found) == {
        "line 2": "has a document type",
        "job1": "its interval is not of whole seconds",
        "job2": "its interval is not of whole seconds",
        "31th_to_last_day_of_month_or_new_offset_feature_in_2_0": "`l-30`: not in every month",
        "GroupOfTestJob2Triggers.TestSimpleTrigger2AtTenSecondIntervalAndFiveRepeats": (
            "ends after a number of starts that is counted from its own"
        ),
    }
    read = whens(found)
    crons = {name: when.get("cron") for name, when in read.items()}
    assert crons["last_FRI_of_month"] == "15 10 ? * l5"
    assert crons["last_day_of_work_OR_SAT"] == "15 10 ? * 6"
    assert crons["third_to_last_day_of_month"] == "15 10 l-3 * *"
    assert crons["every_weekdays_near_last_day_of_month_at_noon_time"] == "0 12 lw * *"
    assert crons["every_4th_TUE_of_month_at_12AM_in_2050"] == "0 0 0 ? * 3#4 2050"
    assert crons["every_inc_of_something"] == "*/15 5/50 5/15 1/3 7/6 *"
    assert crons["QTZ-329"] == "0/30 0-6,12,19-21,22 * * *"
    assert read["every_hour"] == {"cron": "0 * * * *", **CLOCKS, "fold": "second"}
    assert read["TestSimpleTrigger1AtFiveSecondInterval"]["every"] == "PT5S"
    minute = "GroupOfTestJob2Triggers.TestCronTrigger2AtEveryMinute"
    assert read[f"{minute}OnThe45thSecond"] == {
        "cron": "45 * * ? * *",
        "timezone": "America/Los_Angeles",
        "start": "2010-02-09T03:26",
        "end": "2012-02-09T03:26:01",
        "gap": "skip",
        "fold": "second",
    }
    [overriding] = [one for one in found.jobs if one.definition.definition == minute]
    assert overriding.document["payload"] == {
        "job": "GroupOfTestJob2.TestJob2",
        "class": "org.quartz.examples.example10.SimpleJob",
        "data": {"someKey": "overriddenValue", "someOtherKey": "someOtherOverriddenValue"},
    }


def test_spring() -> None:
    found = import_quartz(FILES / "spring", ANEW)
    assert (found.jobs, len(found.skipped)) == ([], 7)
    assert counted("spring", "<task:scheduled ") == 7
    assert {one.reason for one in found.skipped} == {
        "is in an XML document `beans`, which is not read"
    }


def test_eventbridge() -> None:
    found = import_eventbridge(FILES / "eventbridge", ANEW)
    assert counted("eventbridge", r"\b(?:Schedule|ScheduleExpression)\"?: .*(?:rate|cron)\(") == 6
    assert {name: when["every"] for name, when in whens(found).items()} == {
        "myFunctionMyTimer": "PT5M",
        "testeventbridgelambdaEventsRule7DB0954D/Target0": "PT5M",
    }
    [_, rule] = sorted(found.jobs, key=lambda one: one.definition.definition)
    assert rule.known.notes == ("the Arn of its target is a template: the payload lacks it",)
    assert sorted(one.reason for one in found.skipped) == [
        *["is of AWS::Backup::BackupPlan, not of EventBridge"] * 3,
        "its expression is a template",
    ]


def test_systemd() -> None:
    found = import_systemd(FILES / "systemd", ANEW)
    assert (len(found.jobs), found.skipped, len(found.reported)) == (10, [], 4)
    assert counted("systemd", "^On[A-Z]") == 10 + 4
    assert {one.text.split()[1] for one in found.reported} == {"OnBootSec"}
    read = {name: when.get("cron") or when["every"] for name, when in whens(found).items()}
    assert read == {
        "certbot": "0 0,12 * * *",
        "ntplogtemp": "PT5M",
        "ntpsec-rotate-stats": "25 6 * * *",
        "ntpviz-daily": "53 * * * *",
        "ntpviz-weekly": "45 11,23 * * *",
        "podman-auto-update": "0 0 * * *",
        "prometheus-node-exporter-apt": "PT15M",
        "prometheus-node-exporter-ipmitool-sensor": "PT1M",
        "prometheus-node-exporter-smartmon": "PT15M",
        "spamassassin-maintenance": "0 6 * * *",
    }
    certbot, smartmon = found.jobs[0], found.jobs[-2]
    assert certbot.document["smear"] == "PT12H"
    assert certbot.document["catch_up"] == {"policy": "latest"}
    assert smartmon.known.notes == (
        "ConditionPathExists= is not converted: the timer started only where it held",
        "ConditionPathExistsGlob= is not converted: the timer started only where it held",
    )


@pytest.mark.parametrize(
    ("name", "crons", "reported"),
    [
        ("certbot", ["0 */12 * * *"], ["SHELL", "PATH"]),
        ("ntpsec", ["25 6 * * *"], []),
        ("ntpsec-ntpviz", ["53 * * * *", "45 11,23 * * *", "*/5 * * * *", "*/5 * * * *"], []),
    ],
)
def test_crontabs_of_the_system(name: str, crons: list[str], reported: list[str]) -> None:
    text = (FILES / "crontab" / name).read_text("utf-8")
    found = import_crontab(text, name, ANEW, of_system=True)
    assert [one.document["when"]["cron"] for one in found.jobs] == crons  # type: ignore[index]
    assert [one.text for one in found.reported] == reported
    assert found.skipped == []
    payloads: list[Any] = [one.document["payload"] for one in found.jobs]
    assert all(each["command"] in text for each in payloads)
