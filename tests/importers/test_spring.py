"""Schedules of Spring: each annotation and setting is read, or left out with the reason."""

from pathlib import Path

import pytest

from dueledger.importers.import_result import ImportResult, OpenQuestion
from dueledger.importers.quartz import import_quartz
from dueledger.importers.source_job import NewDefinitionFields
from dueledger.ledger.errors import InvalidInput

ANEW = NewDefinitionFields("jvm", zone="Europe/Berlin")
DAILY = '@Scheduled(cron = "0 0 6 * * *")'
HOURLY = '@Scheduled(cron = "0 0 * * * *")'


def read(folder: Path, text: str, name: str = "Jobs.java") -> ImportResult:
    (folder / name).write_text(text, encoding="utf-8")
    return import_quartz(folder / name, ANEW)


def names(found: ImportResult) -> dict[str, str]:
    return {one.where: one.definition.definition for one in found.jobs}


def methods(found: ImportResult) -> list[object]:
    return [one.document["payload"]["method"] for one in found.jobs]  # type: ignore[index]


def test_a_name_depends_on_its_annotation_alone(tmp_path: Path) -> None:
    alone = names(read(tmp_path, f"class Jobs {{\n{DAILY} void run() {{}}\n}}"))
    assert alone["Jobs.java:2"].startswith("Jobs.run-")
    text = f"class Jobs {{\n{HOURLY}\n{DAILY} void run() {{}}\nclass Other {{ }}\n"
    grown = read(tmp_path, f"{text}{HOURLY}\nvoid walk() {{}}\n}}")
    assert names(grown)["Jobs.java:3"] == alone["Jobs.java:2"]
    assert methods(grown) == ["Jobs.run", "Jobs.run", "Jobs.walk"], "not of the class inside"
    assert len(set(names(grown).values())) == 3
    spread = f"class Jobs {{ {DAILY.replace(' = ', '  =  ')} void run() {{}} }}"
    assert len(read(tmp_path, spread).jobs) == 1


@pytest.mark.parametrize(
    ("arguments", "every"),
    [
        ("fixedRate = 1000 * 60", "PT1M"),
        ("fixedRate = 5 * 60 * 1_000L", "PT5M"),
        ("fixedRate = 60_000", "PT1M"),
        ('fixedRateString = "60000"', "PT1M"),
        ("fixedRate = 2, timeUnit = TimeUnit.HOURS", "PT2H"),
        ('fixedRateString = "PT1M30S"', "PT1M30S"),
        ('fixedRateString = "p1d"', "PT24H"),
        ('fixedRateString = "30s"', "PT30S"),
        ('fixedRateString = "1h30m", timeUnit = TimeUnit.SECONDS', "PT1H30M"),
        ('fixedRateString = "30", timeUnit = java.util.concurrent.TimeUnit.MINUTES', "PT30M"),
    ],
)
def test_a_rate_may_be_a_product_or_a_duration(tmp_path: Path, arguments: str, every: str) -> None:
    [one] = read(tmp_path, f"class A {{ @Scheduled({arguments}) void x() {{}} }}").jobs
    assert one.document["when"]["every"] == every  # type: ignore[index]
    assert OpenQuestion.PHASE in one.known.questions


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        ('@Scheduled(cron = "0 0 6 * * *" + SUFFIX)', "constants and parts are not read"),
        ("@Scheduled(cron = Times.DAILY)", "constants and parts are not read"),
        ('@Scheduled(cron = "0 0 6 * * *", zone = ZONE)', "constants and parts are not read"),
        ('@Scheduled(cron = "0 0 6 * * \\u002a")', "constants and parts are not read"),
        ("@Scheduled(fixedRate = RATE)", "not a number of whole seconds"),
        ("@Scheduled(fixedRate = 1000 * RATE)", "not a number of whole seconds"),
        (
            "@Scheduled(fixedRate = TimeUnit.MINUTES.toMillis(5))",
            "constants and parts are not read",
        ),
        ("@Scheduled(fixedRate = 5000, fixedDelay = 5000)", "or several"),
        ("@Scheduled(initialDelay = 5000)", "has no cron"),
        ("@Scheduled", "constants and parts are not read"),
        ("@Scheduled()", "has no cron"),
        ('@Scheduled(cron = """\n0 0 6 * * *""")', "constants and parts are not read"),
        ('@Scheduled(cron = "${reports.cron}")', "is a placeholder"),
        ('@Scheduled(cron = "${reports.cron:0 0 6 * * *}")', "is a placeholder"),
        ('@Scheduled(fixedDelayString = "${outbox.interval:PT1S}")', "is a placeholder"),
        ('@Scheduled(fixedRateString = "${poll.minutes:30}", initialDelay = 1)', "placeholder"),
        ('@Scheduled(fixedRateString = "${poll.seconds}000")', "is a placeholder"),
        ('@Scheduled(fixedDelayString = "#{@props.delay}")', "is a placeholder"),
        ('@Scheduled(fixedDelayString = "500ms")', "not a number of whole seconds"),
        ('@Scheduled(fixedDelayString = "PT0.5S")', "not a number of whole seconds"),
        ("@Scheduled(fixedDelay = Long.MAX_VALUE)", "not a number of whole seconds"),
        ('@Schedule(hour = "6")', "is of Jakarta"),
        ('@jakarta.ejb.Schedule(hour = "6")', "is of Jakarta"),
    ],
)
def test_what_is_not_a_value_is_left_out(tmp_path: Path, annotation: str, reason: str) -> None:
    found = read(tmp_path, f"class A {{\n{annotation}\nvoid x() {{}}\n}}")
    assert found.jobs == []
    [one] = found.skipped
    assert one.where == "Jobs.java:2"
    assert reason in one.reason
    assert one.accepted


def test_annotations_are_found_however_they_are_written(tmp_path: Path) -> None:
    nested = f"@Schedules({DAILY[1:]}, {HOURLY[1:]})"
    qualified = DAILY.replace("@", "@org.springframework.scheduling.annotation.")
    text = f"class A {{\n{nested}\nfun x() {{}}\n{qualified}\nfun y() {{}}\n}}\nScheduled(5)\n"
    found = read(tmp_path, text, "Jobs.kt")
    assert methods(found) == ["A.x", "A.x", "A.y"]
    assert found.skipped == []


def test_an_annotation_in_a_literal_is_none(tmp_path: Path) -> None:
    literal = DAILY.replace('"', '\\"')
    before = f'String a = "{literal}"; char b = \'"\'; // {DAILY}'
    text = f"class A {{\n{before}\n{HOURLY}\nvoid x() {{}} }}"
    found = read(tmp_path, text)
    assert list(names(found)) == ["Jobs.java:3"]
    assert found.skipped == []


@pytest.mark.parametrize("modifiers", ["", "private ", "@Target(METHOD)\n@Inherited\npublic "])
def test_an_annotation_that_is_made_of_it_is_no_job(tmp_path: Path, modifiers: str) -> None:
    text = f"class A {{\n{DAILY}\n{modifiers}@interface Daily {{ long value(); }}\n}}"
    found = read(tmp_path, text)
    assert found.jobs == []
    assert [(one.where, one.text) for one in found.skipped] == [("Jobs.java:2", "Daily")]


@pytest.mark.parametrize(
    ("zone", "iana"),
    [("GMT+10", "Etc/GMT-10"), ("GMT-03:00", "Etc/GMT+3"), ("GMT+5:30", None), ("GMT+23", None)],
)
def test_an_offset_as_java_names_it_is_a_zone(tmp_path: Path, zone: str, iana: str | None) -> None:
    annotation = f'@Scheduled(cron = "0 0 6 * * *", zone = "{zone}")'
    found = read(tmp_path, f"class A {{ {annotation} void x() {{}} }}")
    assert [one.document["when"]["timezone"] for one in found.jobs] == ([iana] if iana else [])  # type: ignore[index]
    assert len(found.skipped) == (iana is None)


def test_an_initial_delay_is_noted(tmp_path: Path) -> None:
    annotation = "@Scheduled(fixedDelay = 5000, initialDelay = 60000)"
    [one] = read(tmp_path, f"class A {{ {annotation} void x() {{}} }}").jobs
    assert "initialDelay is not converted" in one.known.notes[0]


@pytest.mark.parametrize("package", ["quarkus.scheduler", "micronaut.scheduling.annotation"])
def test_an_annotation_of_another_framework_is_left_out(tmp_path: Path, package: str) -> None:
    text = f"import io.{package}.Scheduled;\nclass A {{\n{DAILY}\nvoid x() {{}} }}"
    [one] = read(tmp_path, text).skipped
    assert one.where == "Jobs.java:3"
    assert package.partition(".")[0] in one.reason


def test_a_setting_that_is_set_again_is_listed(tmp_path: Path) -> None:
    text = "a.cron=0 0 6 * * *\nb.cron-expression=0 0 7 * * *\nb.cron=0 0 8 * * *\n"
    found = read(
        tmp_path, f"{text}a.cron=0 0 9 * * *\nc.cron\nd.cron=0 0 5 \\\n  * * *\\", "a.properties"
    )
    assert names(found) == {
        "a.properties:2": "b.cron-expression",
        "a.properties:3": "b.cron",
        "a.properties:4": "a.cron",
        "a.properties:7": "d.cron",
    }
    assert {one.where: one.text for one in found.skipped} == {
        "a.properties:1": "a.cron",
        "a.properties:5": "c.cron",
    }
    yaml = read(tmp_path, 'a.b: {cron: "@daily"}\na: {b: {cron: "@hourly"}}\nc: {cron: }', "a.yml")
    assert [one.document["when"]["cron"] for one in yaml.jobs] == ["@hourly"]  # type: ignore[index]
    assert [one.text for one in yaml.skipped] == ["a.b.cron", "c.cron"]


def test_the_name_of_a_list_member_does_not_depend_on_those_before_it(tmp_path: Path) -> None:
    member = '{cron: "0 0 6 * * *"}'
    [alone] = names(read(tmp_path, f"jobs: [{member}]", "a.yml")).values()
    text = f'jobs: [{{name: first, cron: "@daily"}}, {member}]\ncrons: ["@hourly"]'
    grown = read(tmp_path, text, "a.yml")
    found = [one.definition.definition for one in grown.jobs]
    assert found[:2] == ["jobs[first].cron", alone]
    assert [one.document["payload"] for one in grown.jobs][1] == {"setting": "jobs[1].cron"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('a: {cron: "@daily", cron: "@hourly"}', "`cron` is there twice"),
        ('{"a": {"cron": "@daily", "cron": "@hourly"}}', "`cron` is there twice"),
        ('{"a":' * 40 + '"@daily"' + "}" * 40, "nested too deep"),
    ],
)
def test_a_document_of_which_a_part_would_vanish_is_refused(
    tmp_path: Path, text: str, reason: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(tmp_path, text, "a.json")
    assert reason in refused.value.problems[0].reason
