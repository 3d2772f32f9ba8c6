"""Each way into the product answers hostile input: refused with a reason, or taken as it should be.

The inputs are drawn from a seed. An input that fails is repeated with the number that its failure
has: `DUELEDGER_FUZZ_ONLY=117`. `DUELEDGER_FUZZ_SEED` gives other inputs.
"""

import json
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from time import thread_time
from typing import Any, Final

import pytest

from dueledger.calendars.files import CalendarFileOptions, read_file
from dueledger.definitions.files import read_definitions
from dueledger.importers.cron_text import Scheduler, read_cron
from dueledger.importers.crontab import import_crontab
from dueledger.importers.definition_yaml import definitions_text
from dueledger.importers.eventbridge import import_eventbridge
from dueledger.importers.java_cron import JavaDialect, read_java_cron
from dueledger.importers.kubernetes import import_kubernetes
from dueledger.importers.on_calendar import read_on_calendar
from dueledger.importers.quartz import import_quartz
from dueledger.importers.source_job import NewDefinitionFields
from dueledger.importers.systemd import import_systemd
from dueledger.ledger.definitions.parsing import load_definitions
from dueledger.ledger.errors import DueledgerError
from dueledger.ledger.identity import item_id
from dueledger.ledger.intake.parse import parse_event
from dueledger.ledger.rules.event_rules import apply_rule
from dueledger.ledger.schedule.when import DUE_MIN
from dueledger.preview.occurrences import preview_definition, preview_document
from dueledger.reconciler.population_rows import impossible_reason, population_row
from dueledger.reconciler.sources_file import load_sources
from dueledger.workers.http.body_template import BodyFailed, BodyTemplate
from dueledger.workers.outcomes.parse import parse_outcome
from tests.cheap import ATTEMPTS, least_seconds
from tests.definition_documents import NIGHTLY, RENEWAL
from tests.fuzz.hostile_inputs import HostileInputs, encoded
from tests.workers.http.conftest import make_item

SECONDS_MAX: Final = 1.0
"""Of processor time, for one input."""
COUNTS: Final = [150, pytest.param(3_000, marks=pytest.mark.full)]
REASON_CHARS_MAX: Final = 100_000
SECRET: Final = "hunter2"  # noqa: S105 - what must not be shown

RULE: Final[dict[str, Any]] = load_definitions(RENEWAL, source="rule")[0].normalised()
SCHEDULE: Final[dict[str, Any]] = load_definitions(NIGHTLY, source="schedule")[0].normalised()
DEFINITIONS: Final[tuple[dict[str, Any], ...]] = (
    RULE,
    SCHEDULE,
    SCHEDULE | {"when": {"every": "PT5M", "start": "2027-01-01T00:00:00", "timezone": "UTC"}},
    SCHEDULE | {"when": {"rrule": "FREQ=MONTHLY;BYDAY=-1FR", "timezone": "UTC"}},
    SCHEDULE
    | {
        "when": {"business": {"nth": -1}, "at": "17:00", "timezone": "UTC"},
        "calendar": {"weekend": ["sat", "sun"], "holidays": ["2027-01-01"], "roll": "following"},
    },
    SCHEDULE | {"when": {"after_completion": "PT1H"}},
)
EVENT_DATA: Final = {
    "policy_number": "P-1",
    "term": "2027",
    "expires_on": "2027-03-01",
    "region": "north",
    "a": [1, {"b": "c"}],
}
EVENT: Final = {
    "specversion": "1.0",
    "id": "1",
    "source": "/acme/policies",
    "type": "PolicyActivated",
    "time": "2027-01-01T00:00:00Z",
    "duetenant": "acme",
    "data": EVENT_DATA,
}
OUTCOME: Final = {
    "item": "0190a5d6-2f0c-8a3e-9d1b-6d3f1f2a4b5c",
    "fence": 7,
    "position": 1,
    "verdict": "retry",
    "after": "PT5M",
    "reason": "busy",
    "evidence": {"a": [1]},
}
SOURCES: Final = {
    "sources": [
        {
            "population": "policies",
            "dsn": f"postgresql://u:{SECRET}@nowhere/x",
            "query": "select 1",
            "tenant": "acme",
            "kinds": ["K"],
            "complete": True,
            "rows_max": 10,
            "rows_min": 0,
            "change_max": 0.5,
        },
        {
            "evidence": "bookings",
            "dsn": f"postgresql://u:{SECRET}@nowhere/x",
            "tenant": "acme",
            "kind": "K",
            "query": "select 1",
        },
    ]
}
POPULATION_ROW: Final[dict[str, object]] = {
    "tenant": "acme",
    "kind": "K",
    "business_key": "P-1",
    "cycle": "1",
    "effective_date": date(2027, 3, 1),
    "due_at": datetime(2027, 3, 1, tzinfo=UTC),
    "payload": "{}",
    "partition_key": None,
}
STRANGE_DATES: Final = (
    *(date.min, date.max, date(1969, 12, 31), date(2200, 1, 1)),
    *(datetime.min, datetime.max, datetime.max.replace(tzinfo=UTC), datetime(2199, 1, 1)),  # noqa: DTZ001, DTZ901 - as asyncpg reads them
)
CRONTAB: Final = (
    b"CRON_TZ=Europe/Berlin\n30 6 * * 1-5 /bin/remind --all\n@daily x\n*/7 * 1,15 * * y\n"
)
CRONJOB: Final[dict[str, object]] = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "remind", "namespace": "billing", "annotations": {"a": "b"}},
    "spec": {
        "schedule": "30 6 * * *",
        "timeZone": "Europe/Berlin",
        "concurrencyPolicy": "Forbid",
        "startingDeadlineSeconds": 200,
        "suspend": False,
        "jobTemplate": {"spec": {"backoffLimit": 3, "template": {"spec": {"containers": []}}}},
    },
}
FILES: Final = sorted(
    path for path in (Path(__file__).parents[1] / "importers/files").glob("*/*") if path.is_file()
)
IMPORTERS: Final = {
    "eventbridge": import_eventbridge,
    "quartz": import_quartz,
    "systemd": import_systemd,
}
EXPRESSIONS: Final = (
    *(b"0 0/15 8-17 L-3W 3,6 ? 2027-2029", b"0 15 10 ? * 6#3", b"0 0 9 15W * ?", b"30 6 LW * ? *"),
    *(b"Mon..Fri *-*~03/1 06,18:00/15:00 Europe/Berlin", b"quarterly", b"*-02-29 23:59:59 UTC"),
    *(b"H/15 H(2-5) * * 1-5", b"H H H * *", b"*/7 2 * * mon-fri", b"@daily"),
)
CALENDAR: Final = {
    "document": {
        "first_day": "2027-01-01",
        "last_day": "2027-12-31",
        "weekend": ["sat", "sun"],
        "holidays": ["2027-01-01"],
        "workdays": [],
        "names": {"2027-01-01": "New Year"},
    }
}

Act = Callable[[HostileInputs, Path], object]


def define(inputs: HostileInputs, folder: Path) -> object:
    file = folder / "definition.yaml"
    file.write_bytes(inputs.document(DEFINITIONS))
    return [one.digest for one in read_definitions(file)]


def preview(inputs: HostileInputs, folder: Path) -> object:
    file = folder / "definition.json"
    document = inputs.mutated(inputs.random.choice(DEFINITIONS[1:]), changes_max=1)
    file.write_bytes(encoded(document))
    windows = [
        preview_definition(one, since=DUE_MIN, until=None, effective_date=None, count=50)
        for one in read_definitions(file)
    ]
    return [preview_document(window) for window in windows]


def take_event(inputs: HostileInputs, _: Path) -> object:
    fields = ("business_key", "cycle", "effective_date", "payload", "labels")
    field = inputs.random.choice(fields)
    path = inputs.path() if inputs.random.randrange(2) else "data"
    rule = RULE | {field: {"region": path} if field == "labels" else path}
    definitions = load_definitions(encoded(rule).decode(), source="rule")
    event = parse_event(*event_record(inputs, EVENT))
    return [apply_rule(one, event) for one in definitions]


def event_record(
    inputs: HostileInputs, event: Mapping[str, Any]
) -> tuple[list[tuple[str, bytes | None]], bytes]:
    """Return headers and value of an event's record, mutated, in one of both modes."""
    if inputs.random.randrange(2):
        return [("content-type", b"application/cloudevents+json")], inputs.document([event])
    headers: list[tuple[str, bytes | None]] = [
        (f"ce_{name}", inputs.text().encode(errors="ignore"))
        if inputs.random.randrange(9) == 0
        else (f"ce_{name}", str(text).encode())
        for name, text in event.items()
        if name != "data"
    ]
    return headers, encoded(inputs.mutated(event["data"]))


def take_outcome(inputs: HostileInputs, _: Path) -> object:
    headers = [
        *(("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"/x")),
        ("ce_type", inputs.random.choice([b"dueledger.outcome"] * 9 + [b"\xff"])),
    ]
    return parse_outcome(headers, inputs.document([OUTCOME]))


def fill_template(inputs: HostileInputs, _: Path) -> object:
    paths = {str(number): inputs.path() for number in range(inputs.random.randrange(1, 5))}
    item = make_item(inputs.document([EVENT_DATA]))
    return BodyTemplate(inputs.path() if inputs.random.randrange(2) else paths).render(item)


def read_sources(inputs: HostileInputs, folder: Path) -> object:
    file = folder / "sources.yaml"
    file.write_bytes(inputs.document([SOURCES]))
    return load_sources(file)


def convert_crontab(inputs: HostileInputs, _: Path) -> object:
    text = inputs.damaged(CRONTAB).decode(errors="replace")
    anew = NewDefinitionFields("t", DUE_MIN, "k", "UTC")
    found = import_crontab(text, "tab", anew, of_system=bool(inputs.random.randrange(2)))
    written = definitions_text(found.jobs)
    return load_definitions(written, source="written") if found.jobs else None


def convert_files(inputs: HostileInputs, folder: Path) -> object:
    """Convert one of the files that the importers' tests have, damaged."""
    path = inputs.random.choice(FILES)
    read = IMPORTERS[path.parent.name]
    file = folder / path.name
    content = path.read_bytes()
    if path.suffix == ".json" and inputs.random.randrange(2):
        file.write_bytes(inputs.document([json.loads(content)]))
    else:
        file.write_bytes(inputs.damaged(content))
    found = read(file, NewDefinitionFields("t", DUE_MIN, "k", "Europe/Berlin"))
    written = definitions_text(found.jobs)
    return load_definitions(written, source="written") if found.jobs else None


def convert_times(inputs: HostileInputs, _: Path) -> object:
    """Convert an expression: one of each dialect, damaged."""
    expression = inputs.damaged(inputs.random.choice(EXPRESSIONS)).decode(errors="replace")
    zone = inputs.random.choice(("UTC", "Europe/Berlin", inputs.text()))
    return [
        read_on_calendar(expression, zone),
        *(read_java_cron(expression, zone, dialect) for dialect in JavaDialect),
        *(read_cron(expression, zone, scheduler) for scheduler in Scheduler),
    ]


def convert_cronjob(inputs: HostileInputs, folder: Path) -> object:
    file = folder / "job.json"
    file.write_bytes(inputs.document([CRONJOB]))
    found = import_kubernetes(file, NewDefinitionFields("t", DUE_MIN, "k"))
    written = definitions_text(found.jobs)
    return load_definitions(written, source="written") if found.jobs else None


def take_population_row(inputs: HostileInputs, _: Path) -> object:
    row: dict[str, object] = dict(POPULATION_ROW)
    for name in inputs.random.sample(list(row), k=inputs.random.randrange(4)):
        row[name] = inputs.random.choice((inputs.stored_text(), inputs.value(), *STRANGE_DATES))
    found = population_row(row, set(row))
    if isinstance(found, str) or impossible_reason(found):
        return None
    return item_id(found.tenant, found.kind, found.business_key, found.cycle, found.effective_date)


def calendar_file(inputs: HostileInputs, name: str) -> bytes:
    """Return the content of a calendar file, by its suffix."""
    content = {
        "json": encoded(CALENDAR),
        "csv": b"date,name\n2027-01-01,New Year\n2027-12-25,Christmas\n",
        "ics": b"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:1\r\n"
        b"DTSTAMP:20270101T000000Z\r\nDTSTART;VALUE=DATE:20270101\r\nSUMMARY:New Year\r\n"
        b"RRULE:"
        + inputs.recurrence().encode(errors="ignore")
        + b"\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n",
    }[name.rpartition(".")[2]]
    return inputs.damaged(content) if inputs.random.randrange(2) else content


def read_calendar(inputs: HostileInputs, folder: Path) -> object:
    name = inputs.random.choice(("days.json", "days.csv", "days.ics"))
    (folder / name).write_bytes(calendar_file(inputs, name))
    last = DUE_MIN.date().replace(year=2027, month=12, day=31)
    return read_file(folder / name, CalendarFileOptions("sat,sun", None, last))


DOORS: Final[tuple[Act, ...]] = (
    *(define, preview, take_event, take_outcome, fill_template, read_sources),
    *(convert_crontab, convert_cronjob, convert_files, convert_times, read_calendar),
    take_population_row,
)


def numbers(count: int) -> Iterable[int]:
    """Return the numbers of the inputs to try; with DUELEDGER_FUZZ_ONLY that one."""
    only = os.environ.get("DUELEDGER_FUZZ_ONLY")
    return range(count) if only is None else (int(only),)


def inputs_of(door: str, number: int) -> HostileInputs:
    """Return the source of an input of a door."""
    seed = int(os.environ.get("DUELEDGER_FUZZ_SEED", "0"))
    return HostileInputs(int.from_bytes(door.encode()) + seed * 1_000_003 + number)


def try_input(door: Act, inputs: HostileInputs, folder: Path) -> tuple[str | None, float]:
    """Return the fault of a door with one input, if any, and the processor time that it took."""
    fault: str | None = None
    began = thread_time()
    try:
        door(inputs, folder)
    except (DueledgerError, BodyFailed) as refused:
        if SECRET in f"{refused} {vars(refused)}":
            fault = "shows a secret"
        elif len(str(refused)) > REASON_CHARS_MAX:
            fault = f"a reason of {len(str(refused)):,} characters"
    except Exception as error:  # noqa: BLE001 - each is a fault of the door
        fault = f"{type(error).__name__}: {str(error)[:200]}"
    return fault, thread_time() - began


async def find_faults(door: Callable[[int], Awaitable[None]], count: int) -> dict[int, str]:
    """Return what a door of Postgres raises, or that it took too long, by the input's number."""
    faults: dict[int, str] = {}

    async def attempt(number: int) -> None:
        try:
            await door(number)
        except Exception as error:  # noqa: BLE001 - each is a fault of the door
            faults[number] = f"{type(error).__name__}: {str(error)[:200]}"

    for number in numbers(count):
        seconds = await least_seconds(partial(attempt, number), enough=SECONDS_MAX)
        if seconds > SECONDS_MAX:
            faults.setdefault(number, f"took {seconds:.2f} s")
    return faults


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("door", DOORS)
def test_a_door_refuses_or_takes_what_it_is_given(door: Act, count: int, tmp_path: Path) -> None:
    faults: dict[int, str] = {}
    for number in numbers(count):
        fault, seconds = try_input(door, inputs_of(door.__name__, number), tmp_path)
        for _ in range(ATTEMPTS - 1):  # a neighbour slows down some attempts, not all
            if seconds <= SECONDS_MAX:
                break
            seconds = try_input(door, inputs_of(door.__name__, number), tmp_path)[1]
        if fault or seconds > SECONDS_MAX:
            faults[number] = fault or f"took {seconds:.2f} s"
    assert faults == {}
