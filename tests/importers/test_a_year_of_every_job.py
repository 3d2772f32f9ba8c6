"""A year of each of the 1,335 periodic jobs of the Kubernetes project, compared with an oracle.

The oracle reads the five fields itself, looks at every minute of the year in UTC, and shares no
code with the importer or the schedules. It knows the forms that stand in this file and refuses
any other.
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import dueledger
from dueledger.importers.kubernetes import import_kubernetes
from dueledger.importers.source_job import NewDefinitionFields
from dueledger.ledger.definitions.parsing import Definition
from dueledger.preview.occurrences import preview_definition

PERIODICS = Path(dueledger.__file__).resolve().parents[1] / "examples/kubernetes/periodics.json"
START = datetime(2027, 1, 1, tzinfo=UTC)
END = datetime(2028, 1, 1, tzinfo=UTC)
SAMPLE_EVERY = 45
LOW = (0, 0, 1, 1, 0)
HIGH = (59, 23, 31, 12, 6)
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


@cache
def definitions() -> dict[str, Definition]:
    found = import_kubernetes(PERIODICS, NewDefinitionFields("kubernetes", START))
    return {job.definition.business_key or "": job.definition for job in found.jobs}


@cache
def jobs() -> list[dict[str, Any]]:
    return json.loads(PERIODICS.read_text(encoding="utf-8"))


def numbers(text: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for number, name in enumerate(WEEKDAYS):
        text = text.lower().replace(name, str(number))
    for part in text.split(","):
        form = re.fullmatch(r"(\*|\d+)(?:-(\d+))?(?:/(\d+))?", part)
        assert form, part
        first = low if form[1] == "*" else int(form[1])
        alone = form[1] != "*" and form[2] is None and form[3] is None
        last = first if alone else int(form[2] or high)
        found |= set(range(first, last + 1, int(form[3] or 1)))
    return found


def scanned(cron: str) -> Iterator[datetime]:
    """Check each minute of the year."""
    texts = cron.split()
    assert len(texts) == 5
    assert "*" in {texts[2], texts[4]}, "both day fields: schedulers differ"
    minutes, hours, days, months, weekdays = (
        numbers(text, low, high) for text, low, high in zip(texts, LOW, HIGH, strict=True)
    )
    for day in (START + timedelta(days=number) for number in range((END - START).days)):
        if day.day in days and day.month in months and day.isoweekday() % 7 in weekdays:
            for minute in range(24 * 60):
                if minute // 60 in hours and minute % 60 in minutes:
                    yield day + timedelta(minutes=minute)


@cache
def year_of(cron: str) -> list[datetime]:
    return list(scanned(cron))


def seconds(text: str) -> int:
    units = {"h": 3600, "m": 60, "s": 1}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([hms])", text))


def owed(definition: Definition) -> list[datetime]:
    window = preview_definition(definition, since=START, until=END, effective_date=None)
    assert window.skipped == ()
    return [found.due_at for found in window.occurrences]


def check(job: dict[str, Any]) -> None:
    found = owed(definitions()[job["name"]])
    if "cron" in job:
        assert found == year_of(job["cron"]), job
        return
    # A rate says how far apart; where it begins is the importer's choice, within one period.
    period = seconds(job.get("interval") or job["minimum_interval"])
    assert START <= found[0] < START + timedelta(seconds=period), job
    assert found[-1] + timedelta(seconds=period) >= END, job
    steps = {(after - before).total_seconds() for before, after in pairwise(found)}
    assert steps <= {period}, job


def sample() -> list[dict[str, Any]]:
    """Choose by position in the file, and the unusual ones by name."""
    odd = [job for job in jobs() if "cron" in job and re.search(r" (30|31) 2 |-", job["cron"])]
    return [*jobs()[::SAMPLE_EVERY], *odd[::8], *jobs()[-1:]]


def test_a_year_of_some_jobs_equals_a_scan_of_its_minutes() -> None:
    crons = [job for job in sample() if "cron" in job][:8]
    rates = [job for job in sample() if "cron" not in job]
    assert len(rates) > 15
    for job in crons + rates:
        check(job)


@pytest.mark.full
def test_a_year_of_every_job_equals_a_scan_of_its_minutes() -> None:
    assert len(jobs()) == len(definitions()) == 1335
    for job in jobs():
        check(job)
