"""Every line or element that has a schedule stands in the result once: converted, or left out.

Its name depends on it alone: it has the same one in a source of its own.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dueledger.importers.crontab import import_crontab
from dueledger.importers.eventbridge import import_eventbridge
from dueledger.importers.import_result import ImportResult
from dueledger.importers.kubernetes import import_kubernetes
from dueledger.importers.quartz import import_quartz
from dueledger.importers.source_job import NewDefinitionFields
from dueledger.importers.systemd import import_systemd
from tests.examples import examples

ANEW = NewDefinitionFields("acme", zone="Europe/Berlin")

CRON = st.sampled_from(
    ("0 6 * * *", "*/5 * * * *", "0 6 * * 5#2", "61 * * * *", "@daily", "@reboot", "H 4 * * *", "x")
)
QUARTZ = st.sampled_from(
    ("0 0 6 * * ?", "0 0/5 * * * ?", "0 0 6 ? * FRIL", "0 0 6 31W * ?", "0 0 6", "-", "${a}")
)
AWS = st.sampled_from(
    (
        "cron(0 6 * * ? *)",
        "rate(5 minutes)",
        "at(2027-03-01T06:00:00)",
        "rate(0 days)",
        "x",
        "",
        None,
    )
)
SPANS = st.sampled_from(("5min", "1h 30min", "90", "1month", "%i", "x"))
CALENDARS = st.sampled_from(("daily", "Mon..Fri 06:30", "*:*/5", "%i", "06:00 UTC", "Fri..Mon 1:0"))
TIMES = st.sampled_from(
    (None, "2027-03-01T06:00:00Z", "2027-03-01T06:00:00", "2020-01-01T00:00:00Z")
)
NAMES = st.sampled_from("abc")


@dataclass(frozen=True)
class Source:
    """A scheduler: an element of its files, the file that some make, and the place of each.

    Elements may have no schedule: `is_scheduled` is false for those.
    """

    name: str
    element: st.SearchStrategy[str]
    file: str
    compose: Callable[[Sequence[str]], tuple[str, list[str]]]
    run: Callable[[Path], ImportResult]
    is_scheduled: Callable[[str], bool] = bool

    def read(self, folder: Path, elements: Sequence[str]) -> tuple[ImportResult, list[str]]:
        text, places = self.compose(elements)
        (folder / self.file).write_text(text, encoding="utf-8")
        return self.run(folder / self.file), places


def lines(file: str, before: str = "", after: str = "") -> Callable[..., tuple[str, list[str]]]:
    """Compose a file of one element in each line."""
    first = before.count("\n") + 1

    def compose(elements: Sequence[str]) -> tuple[str, list[str]]:
        text = "".join(f"{each}\n" for each in elements)
        places = [f"{file}:{number}" for number in range(first, first + len(elements))]
        return f"{before}{text}{after}", places

    return compose


def members(file: str) -> Callable[..., tuple[str, list[str]]]:
    """Compose a JSON list."""

    def compose(elements: Sequence[str]) -> tuple[str, list[str]]:
        return f"[{','.join(elements)}]", [f"{file}[{n}]" for n in range(len(elements))]

    return compose


def documents(**fields: st.SearchStrategy[object]) -> st.SearchStrategy[str]:
    """Give JSON objects; a field may be missing."""
    return st.fixed_dictionaries({}, optional=fields).map(json.dumps)


def trigger(kind: str, values: dict[str, object]) -> str:
    inner = "".join(f"<{name}>{value}</{name}>" for name, value in values.items() if value)
    return f"<trigger><{kind}>{inner}</{kind}></trigger>"


CRONTAB = Source(
    "crontab",
    st.one_of(
        st.builds("{} {}".format, CRON, st.sampled_from(("/bin/a", "/bin/a -x", "b%c", "root x"))),
        st.builds("#{} old".format, CRON),
        st.sampled_from(("", "# comment", "A=1", "MAILTO=x", "0 1 * *")),
        st.text("0123456789*/,- @aH~#%", max_size=30),
    ),
    "tab",
    lines("tab"),
    lambda path: import_crontab(path.read_text("utf-8"), "tab", ANEW),
    is_scheduled=lambda line: bool(line.strip()) and not line.strip().startswith("#"),
)
SYSTEMD = Source(
    "systemd",
    st.one_of(
        st.builds("OnCalendar={}".format, CALENDARS),
        st.builds(
            "{}={}".format,
            st.sampled_from(("OnUnitActiveSec", "OnUnitInactiveSec", "OnBootSec", "OnActiveSec")),
            SPANS,
        ),
        st.sampled_from(
            (
                *("OnCalendar=", "OnBootSec=", "# OnCalendar=daily", "", "Persistent=true"),
                *("Unit=b.service", "RandomizedDelaySec=5min", "Oncalendar=daily", "OnCalendar"),
            )
        ),
    ),
    "a.timer",
    lines("a.timer", before="[Timer]\n"),
    lambda path: import_systemd(path, ANEW),
    is_scheduled=lambda line: line.startswith("On") and not line.endswith("="),
)
QUARTZ_XML = Source(
    "quartz",
    st.builds(
        trigger,
        st.sampled_from(("cron", "simple", "calendar-interval", "other")),
        st.fixed_dictionaries(
            {},
            optional={
                "name": NAMES,
                "start-time": TIMES,
                "end-time": TIMES,
                "misfire-instruction": st.sampled_from(("MISFIRE_INSTRUCTION_DO_NOTHING", "x")),
                "cron-expression": QUARTZ,
                "calendar-name": NAMES,
                "repeat-count": st.sampled_from(("-1", "0", "3")),
                "repeat-interval": st.sampled_from(("1", "60000", "x")),
                "repeat-interval-unit": st.sampled_from(("DAY", "HOUR", "MONTH", "x")),
                "time-zone": st.sampled_from(("UTC", "Mars")),
            },
        ),
    ),
    "q.xml",
    lines(
        "q.xml",
        before="<job-scheduling-data><schedule>\n",
        after="</schedule></job-scheduling-data>",
    ),
    lambda path: import_quartz(path, ANEW),
)
ANNOTATIONS = Source(
    "annotations",
    st.builds(
        "@{}({}) void {}() {{}}".format,
        st.sampled_from(("Scheduled", "a.b.Scheduled", "Schedule")),
        st.one_of(
            QUARTZ.map('cron = "{}"'.format),
            st.sampled_from(
                (
                    *("fixedRate = 5 * 60_000", "fixedRate = RATE", "fixedDelay = 1000", ""),
                    *('cron = "0 0 6 * * *" + A', "fixedRate = a.of(5)", "cron = {}", "((("),
                )
            ),
        ),
        NAMES,
    ),
    "Jobs.java",
    lines("Jobs.java", before="class Jobs {\n", after="}"),
    lambda path: import_quartz(path, ANEW),
)
PROPERTIES = Source(
    "properties",
    st.one_of(
        st.builds("{}.cron{}{}".format, NAMES, st.sampled_from(("=", " = ", ":")), QUARTZ),
        st.sampled_from(("a.cron", "# b.cron=x", "", "a.zone=UTC", "b.cron.enabled=true")),
    ),
    "a.properties",
    lines("a.properties"),
    lambda path: import_quartz(path, ANEW),
    is_scheduled=lambda line: (
        ".cron" in line and not line.startswith("#") and "enabled" not in line
    ),
)
EVENTBRIDGE = Source(
    "eventbridge",
    documents(
        Name=NAMES,
        GroupName=st.sampled_from(("g", {"Ref": "G"})),
        ScheduleExpression=st.one_of(AWS, st.just({"Fn::Sub": "rate(1 hour)"})),
        State=st.sampled_from(("ENABLED", "DISABLED", {"Ref": "S"}, None)),
        StartDate=TIMES,
        EndDate=TIMES,
        FlexibleTimeWindow=st.sampled_from(
            ({"Mode": "OFF"}, {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": "15"}, {"Ref": "W"})
        ),
        Targets=st.sampled_from(([], [{"Id": "a"}], [{"Arn": {"Ref": "A"}}], {"Ref": "T"})),
    ),
    "e.json",
    members("e.json"),
    lambda path: import_eventbridge(path, ANEW),
    is_scheduled=lambda text: "ScheduleExpression" in text,
)
KUBERNETES = Source(
    "kubernetes",
    documents(
        kind=st.sampled_from(("CronJob", "CronWorkflow")),
        metadata=NAMES.map(lambda name: {"name": name}),
        spec=st.fixed_dictionaries(
            {"schedule": CRON},
            optional={"suspend": st.booleans(), "timeZone": st.sampled_from(("UTC", "", "Mars"))},
        ),
    ),
    "k.json",
    members("k.json"),
    lambda path: import_kubernetes(path, ANEW),
    is_scheduled=lambda text: '"kind"' in text and ('"spec"' in text or "CronJob" in text),
)
PROW = Source(
    "prow",
    documents(
        name=NAMES,
        cron=CRON,
        interval=st.sampled_from(("5m", "1h", "x", "")),
        minimum_interval=st.sampled_from(("5m", "1h", "x")),
    ),
    "p.json",
    members("p.json"),
    lambda path: import_kubernetes(path, ANEW),
    is_scheduled=lambda text: text != "{}",
)
SOURCES = (*(CRONTAB, SYSTEMD, QUARTZ_XML, ANNOTATIONS, PROPERTIES, EVENTBRIDGE, KUBERNETES, PROW),)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
@settings(max_examples=examples(20, full=40))
@given(data=st.data())
def test_every_schedule_is_in_the_result_once(
    tmp_path_factory: pytest.TempPathFactory, source: Source, data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp()
    elements = data.draw(st.lists(source.element, max_size=8))
    found, places = source.read(folder, elements)
    listed = Counter(one.where for one in (*found.jobs, *found.skipped, *found.reported))
    for place, element in zip(places, elements, strict=True):
        assert listed[place] == 1 or not source.is_scheduled(element), (place, element)
    assert listed.keys() <= {source.file, *places}
    assert all(one.reason and one.where for one in found.skipped)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
@settings(max_examples=25)
@given(data=st.data())
def test_a_name_is_the_same_in_a_source_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, source: Source, data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp()
    elements = data.draw(st.lists(source.element, min_size=2, max_size=5))
    found, places = source.read(folder, elements)
    for one in found.jobs:
        alone, _ = source.read(folder, [elements[places.index(one.where)]])
        assert [one.definition.definition] == [each.definition.definition for each in alone.jobs]
