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
        "start": "2026-12-31T23:00",  # a time without an offset is the JVM's, an hour ahead
        "end": "2029-12-31T23:00:01",
        "gap": "skip",
        "fold": "second",
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


def trigger(kind: str, elements: str, more: str = "") -> str:
    named = f"<name>t</name><job-name>j</job-name>{elements}"
    return (
        f"<job-scheduling-data><schedule>\n<trigger><{kind}>{named}</{kind}></trigger>\n"
        f"</schedule>{more}</job-scheduling-data>"
    )


def cron_trigger(name: str, expression: str, more: str = "") -> str:
    inner = f"<name>{name}</name><job-name>j</job-name>{more}"
    return f"<trigger><cron>{inner}<cron-expression>{expression}</cron-expression></cron></trigger>"


def test_forms_that_published_files_have_are_read(tmp_path: Path) -> None:
    """Several schedules in a file, triggers before jobs or switched off, what generators write."""
    bounds = (
        "<start-time>2030-02-09T12:26:00.0</start-time><end-time>2032-02-09T12:26:00.0</end-time>"
    )
    schedules = (
        cron_trigger("first", "15 45 3 ? * SAT")
        + "<job><name>j</name><job-class>a.J</job-class></job>",
        f"<!-- {cron_trigger('off', '0/30 * 8-20 ? * MON-SAT *')} -->",
        cron_trigger("days", "15,45 0/1 8-20 ? * MON-FRI *"),
        cron_trigger("generated", "0 0/1 * 1/1 * ? *"),
        cron_trigger("misspelt", "0 0/2 * * * ?*"),
        cron_trigger("bounded", "45 * * ? * *", bounds),
    )
    inner = "".join(f"<schedule>{each}</schedule>\n" for each in schedules)
    xmlns = "http://www.quartz-scheduler.org/xml/JobSchedulingData"
    text = f'<job-scheduling-data xmlns="{xmlns}" version="1.8">{inner}</job-scheduling-data>'
    found = read(tmp_path, "x.xml", text)
    whens = {name: document["when"] for name, document in documents(found).items()}
    assert {name: when["cron"] for name, when in whens.items()} == {
        "first": "15 45 3 ? * 6",
        "days": "15,45 0/1 8-20 ? * 1-5",
        "generated": "0/1 * 1/1 * *",
        "bounded": "45 * * ? * *",
    }
    bounded = whens["bounded"]
    assert (bounded["start"], bounded["end"]) == ("2030-02-09T12:26", "2032-02-09T12:26:01")
    assert {one.text: one.reason for one in found.skipped} == {
        "misspelt": "Quartz needs `?` in one of both day fields"
    }


CRON = "<cron-expression>0 0 6 * * ?</cron-expression>"
SIMPLE = "<repeat-count>-1</repeat-count><repeat-interval>60000</repeat-interval>"
BEGIN = "<start-time>2027-01-01T00:00:00Z</start-time>"
MONTHLY = "<repeat-interval>1</repeat-interval><repeat-interval-unit>MONTH</repeat-interval-unit>"


@pytest.mark.parametrize(
    ("kind", "elements", "end"),
    [
        ("cron", CRON, "2028-01-01T01:00:01"),  # inclusive, as Quartz
        ("simple", SIMPLE, "2028-01-01T00:00:00Z"),
        ("simple", BEGIN + SIMPLE, "2028-01-01T00:00:00Z"),
        ("calendar-interval", BEGIN + MONTHLY, "2028-01-01T01:00"),
        ("calendar-interval", MONTHLY.replace("MONTH", "HOUR"), "2028-01-01T00:00:00Z"),
    ],
)
@pytest.mark.parametrize("text", ["2028-01-01T00:00:00Z", "2028-01-01T01:00:00"])
def test_a_trigger_ends_when_quartz_ends_it(
    tmp_path: Path, kind: str, elements: str, end: str, text: str
) -> None:
    [one] = read(tmp_path, "x.xml", trigger(kind, f"{elements}<end-time>{text}</end-time>")).jobs
    assert one.document["when"]["end"] == end  # type: ignore[index]


@pytest.mark.parametrize(
    ("unit", "when"),
    [
        ("SECOND", {"every": "PT3S", "anchor": "2027-01-01T00:00:00Z"}),
        ("MINUTE", {"every": "PT3M", "anchor": "2027-01-01T00:00:00Z"}),
        ("HOUR", {"every": "PT3H", "anchor": "2027-01-01T00:00:00Z"}),
        ("DAY", {"rrule": "FREQ=DAILY;INTERVAL=3", "start": "2027-01-01T01:00"}),
        ("WEEK", {"rrule": "FREQ=WEEKLY;INTERVAL=3", "start": "2027-01-01T01:00"}),
        ("MONTH", {"rrule": "FREQ=MONTHLY;INTERVAL=3", "start": "2027-01-01T01:00"}),
        ("YEAR", {"rrule": "FREQ=YEARLY;INTERVAL=3", "start": "2027-01-01T01:00"}),
    ],
)
def test_each_interval_unit_is_read(tmp_path: Path, unit: str, when: dict[str, object]) -> None:
    text = BEGIN + MONTHLY.replace("MONTH", unit).replace(">1<", ">3<")
    [one] = read(tmp_path, "x.xml", trigger("calendar-interval", text)).jobs
    zone = {} if "every" in when else {"timezone": "Europe/Berlin"}
    assert one.document["when"] == when | zone


@pytest.mark.parametrize(
    ("kind", "instruction", "policy"),
    [
        *((kind, "SMART_POLICY", "latest") for kind in ("cron", "calendar-interval")),
        *((kind, "FIRE_ONCE_NOW", "latest") for kind in ("cron", "calendar-interval")),
        *((kind, "DO_NOTHING", "skip") for kind in ("cron", "calendar-interval")),
        *((kind, "FIRE_NOW", None) for kind in ("cron", "calendar-interval")),
        *((kind, "SmartPolicy", None) for kind in ("cron", "simple", "calendar-interval")),
        ("simple", "SMART_POLICY", "skip"),
        ("simple", "FIRE_NOW", "latest"),
        ("simple", "RESCHEDULE_NOW_WITH_EXISTING_REPEAT_COUNT", "latest"),
        ("simple", "RESCHEDULE_NOW_WITH_REMAINING_REPEAT_COUNT", "latest"),
        ("simple", "RESCHEDULE_NEXT_WITH_EXISTING_COUNT", "skip"),
        ("simple", "RESCHEDULE_NEXT_WITH_REMAINING_COUNT", "skip"),
        ("simple", "DO_NOTHING", None),
    ],
)
def test_each_misfire_instruction_of_a_type_is_read(
    tmp_path: Path, kind: str, instruction: str, policy: str | None
) -> None:
    elements = {"cron": CRON, "simple": SIMPLE, "calendar-interval": BEGIN + MONTHLY}[kind]
    misfire = f"<misfire-instruction>MISFIRE_INSTRUCTION_{instruction}</misfire-instruction>"
    found = read(tmp_path, "x.xml", trigger(kind, elements + misfire))
    assert [one.document["catch_up"] for one in found.jobs] == (
        [{"policy": policy}] if policy else []
    )
    assert [instruction in one.reason for one in found.skipped] == ([] if policy else [True])


@pytest.mark.parametrize(
    ("element", "note"),
    [
        ("<priority>7</priority>", "priority 7 is not converted"),
        ("<priority>5</priority>", None),
        ("<start-time-seconds-in-future>9</start-time-seconds-in-future>", "program's start"),
        ("<calendar-name> </calendar-name>", None),
    ],
)
def test_an_element_without_a_counterpart_is_noted(
    tmp_path: Path, element: str, note: str | None
) -> None:
    text = "<schedule><job><name>j</name><job-class>J</job-class></job></schedule>"
    [one] = read(tmp_path, "x.xml", trigger("simple", SIMPLE + element, text)).jobs
    assert [note in each for each in one.known.notes] == [True] if note else one.known.notes == ()
    assert OpenQuestion.PHASE in one.known.questions


@pytest.mark.parametrize(
    ("kind", "elements", "reason"),
    [
        ("cron", CRON + "<calendar-name>holidays</calendar-name>", "days of the calendar holidays"),
        ("cron", CRON + CRON, "is there twice"),
        ("cron", CRON + "<repeat-count>3</repeat-count>", "`repeat-count` is not an element of a"),
        ("cron", CRON + "<until>3</until>", "`until` is not an element of a cron"),
        ("cron", CRON + "<time-zone>Mars</time-zone>", "unknown time zone"),
        ("cron", CRON + "<end-time>soon</end-time>", "not of the form"),
        ("cron", CRON + BEGIN + "<end-time>2026-01-01T00:00:00Z</end-time>", "end"),
        ("simple", SIMPLE + "<time-zone>UTC</time-zone>", "`time-zone` is not an element of a"),
        ("simple", "", "ends after a number of starts"),
        ("simple", SIMPLE.replace("-1", "0"), "ends after a number of starts"),
        ("simple", SIMPLE.replace("-1", "7"), "ends after a number of starts"),
        ("simple", SIMPLE.replace("60000", "0"), "no repeat-interval"),
        ("simple", SIMPLE.replace("60000", "1500"), "not of whole seconds"),
        (
            "simple",
            SIMPLE + BEGIN + "<start-time-seconds-in-future>9</start-time-seconds-in-future>",
            "and start-time-seconds",
        ),
        ("calendar-interval", MONTHLY, "has no start-time"),
        ("calendar-interval", BEGIN + MONTHLY.replace("MONTH", "EON"), "repeat-interval-unit"),
        ("calendar-interval", BEGIN + MONTHLY.replace(">1<", ">0<"), "has no repeat-interval"),
        ("daily-time-interval", "", "is not a type of trigger"),
    ],
)
def test_a_trigger_that_cannot_be_converted_is_left_out(
    tmp_path: Path, kind: str, elements: str, reason: str
) -> None:
    found = read(tmp_path, "x.xml", trigger(kind, elements))
    assert found.jobs == []
    [one] = found.skipped
    assert one.where == "x.xml:2"
    assert reason in one.reason
    assert one.accepted


def test_a_time_without_an_offset_needs_the_zone_of_the_jvm(tmp_path: Path) -> None:
    bare = "<start-time>2027-01-01T00:00:00</start-time>"
    zoned = CRON + "<time-zone>UTC</time-zone>"
    found = read(tmp_path, "x.xml", trigger("cron", bare + zoned), NewDefinitionFields("jvm"))
    assert [one.accepted for one in found.skipped] == ["--timezone Europe/Berlin"]
    assert read(tmp_path, "x.xml", trigger("cron", BEGIN + zoned), NewDefinitionFields("jvm")).jobs


def test_a_trigger_where_none_belongs_is_listed(tmp_path: Path) -> None:
    stray = "<trigger><cron><name>a</name></cron></trigger>"
    more = f"<schedule>\n<cron><name>b</name></cron>\n<trigger/></schedule>\n{stray}"
    found = read(tmp_path, "x.xml", trigger("cron", CRON, more))
    assert [one.where for one in found.jobs] == ["x.xml:2"]
    assert [one.where for one in found.skipped] == ["x.xml:4", "x.xml:5", "x.xml:6"]


def test_schedules_in_xml_that_is_not_read_are_listed(tmp_path: Path) -> None:
    beans = """<beans>
<task:scheduled-tasks xmlns:task="t"><task:scheduled ref="a" method="run" cron="0 0 6 * * *"/>
</task:scheduled-tasks>
<bean><property name="cronExpression" value="0 0 6 * * ?"/></bean>
</beans>"""
    found = read(tmp_path, "x.xml", beans)
    assert [(one.where, one.text) for one in found.skipped] == [
        ("x.xml:2", "run"),
        ("x.xml:4", "cronExpression"),
    ]
    old = read(tmp_path, "x.xml", "<quartz><job>\n<trigger><cron/></trigger></job></quartz>")
    assert [one.where for one in old.skipped] == ["x.xml:2"]


def test_annotations_are_read_with_their_class_and_method() -> None:
    found = import_quartz(FILES / "ReportJobs.java", ANEW)
    read = {one.where: one.document for one in found.jobs}
    weekly: Any = read["ReportJobs.java:11"]
    assert weekly["payload"] == {"method": "ReportJobs.weekly"}
    assert weekly["when"]["cron"] == "0 7 * * 1"
    assert weekly["when"]["timezone"] == "Europe/Paris"
    assert weekly["overlap"] == "skip"
    refresh, drain = (documents_of(found, f"ReportJobs.{name}") for name in ("refresh", "drain"))
    assert refresh[0]["when"]["every"] == "PT5M"
    assert drain[0]["when"] == {"after_completion": "PT1M30S"}
    twice = documents_of(found, "ReportJobs.twice")
    assert [one["when"]["cron"] for one in twice] == ["0 9 1w * *", "0 18 l * *"]
    assert {one.where for one in found.skipped} == {"ReportJobs.java:32", "ReportJobs.java:36"}
    assert len(read) == 5, "none of a comment"


def documents_of(found: ImportResult, method: str) -> list[Any]:
    return [one.document for one in found.jobs if one.document["payload"] == {"method": method}]


def test_settings_with_cron_values_are_read_with_the_zone_beside_them() -> None:
    found = import_quartz(FILES / "application.properties", ANEW)
    read = documents(found)
    assert set(read) == {"billing.dunning.cron", "billing.statement.cron-expression"}
    assert {one.text for one in found.skipped} == {
        "billing.archive.cron",
        "billing.purge.cron",
        "billing.broken.cron",
    }
    yaml = documents(import_quartz(FILES / "application.yml", ANEW))
    assert {name: one["when"]["cron"] for name, one in yaml.items()} == {
        "jobs.reminders.cron": "*/10 8-17 * * 1-5",
        "jobs.cron.heartbeat": "*/30 * * * * *",
        "jobs.cron.monthly": "@monthly",
    }


def test_a_plain_list_may_be_of_quartz(tmp_path: Path) -> None:
    (tmp_path / "jobs.properties").write_text("close.cron=0 0 22 ? * 2-6\n", encoding="utf-8")
    spring = documents(import_quartz(tmp_path, ANEW))
    quartz = documents(import_quartz(tmp_path, ANEW, JavaDialect.QUARTZ))
    assert spring["close.cron"]["when"]["cron"] == "0 22 ? * 2-6"
    assert quartz["close.cron"]["when"]["cron"] == "0 22 ? * 1-5"


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
        "@Schedules(" + "Scheduled()," * 60_000,
        "@Schedules(" * 60_000,
        "Scheduled " * 80_000,
        "{}" * 400_000,
        "'" * 800_000,
        "@Scheduled(" + "a=1*" * 500 + ") void x() {}",
        '@Scheduled(cron = "0 0 1 * * *")' + " " * 500_000,
        "class A" * 100_000,
        '@Scheduled(cron="0 0 1 * * *") ' + "@A " * 200_000,
    ],
)
def test_no_source_file_hangs(tmp_path: Path, text: str) -> None:
    check_cheap(lambda: read(tmp_path, "A.java", text), seconds=3)
