"""Prow's periodic jobs as definitions.

`cron` is read in UTC, as Prow does. `interval` counts from a job's last start; it becomes a fixed
rate whose phase is spread by the job's name. `minimum_interval` counts from its last end, which is
`after_completion`. Prow starts no job while the one before it runs: `overlap: skip`.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from dueledger.importers.cron_text import Scheduler, TranslatedCron, read_cron
from dueledger.importers.import_result import (
    ImportRefusal,
    ImportResult,
    JobInventory,
    OpenQuestion,
)
from dueledger.ledger.errors import shown_value
from dueledger.ledger.schedule.expressions import Period, period_text

KIND: Final = "PeriodicJobDue"

_GATES: Final = ("blocking", "informing")


class _Decoration(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    timeout: str | None = None


class Periodic(BaseModel):
    """One periodic job: its times and its owner in Prow's configuration."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str = Field(min_length=1)
    team: str | None = None
    area: str | None = None
    cron: str | None = None
    interval: Period | None = None
    minimum_interval: Period | None = None
    timeout: str | None = None
    dashboards: str = ""
    annotations: dict[str, str] = Field(default_factory=dict)
    decoration_config: _Decoration = _Decoration()

    @model_validator(mode="after")
    def _one_schedule(self) -> "Periodic":
        given = [self.cron, self.interval, self.minimum_interval]
        if sum(value is not None for value in given) != 1:
            message = "exactly one of cron, interval and minimum_interval must be given"
            raise ValueError(message)
        return self


@dataclass(frozen=True, slots=True)
class NewDefinitionFields:
    """Fields that a job lacks for its definition. Without `kind`, each job type has its own."""

    tenant: str
    anchor: datetime
    kind: str = ""


def import_periodics(
    jobs: Iterable[tuple[str, object]], anew: NewDefinitionFields, found: ImportResult | None = None
) -> ImportResult:
    """Import periodic jobs; each comes with its place in the file."""
    found = ImportResult() if found is None else found
    for where, job in jobs:
        try:
            periodic = Periodic.model_validate(job)
        except ValidationError as error:
            found.skip_job(where, _name(job), unreadable(error))
            continue
        _add_job(found, where, periodic, anew)
    return found


def _add_job(
    found: ImportResult, where: str, periodic: Periodic, anew: NewDefinitionFields
) -> None:
    read = _when(periodic, anew.anchor)
    if isinstance(read, ImportRefusal):
        found.skip_job(where, periodic.name, read)
        return
    labels = {"team": periodic.team, "area": periodic.area}
    document: dict[str, object] = {
        "definition": periodic.name,
        "tenant": anew.tenant,
        "kind": anew.kind or KIND,
        "business_key": periodic.name,
        "when": read.when,
        "labels": {name: value for name, value in labels.items() if value},
        **({"lane": "area"} if periodic.area else {}),
        "overlap": "skip",
    }
    limit = periodic.timeout or periodic.decoration_config.timeout
    questions = [
        *read.questions,
        OpenQuestion.RETRIES,
        OpenQuestion.MISSED,
        OpenQuestion.DUPLICATES,
    ]
    known = JobInventory(
        owner=periodic.team,
        criticality=_criticality(periodic),
        questions=(*questions, OpenQuestion.TIME_LIMIT) if limit else tuple(questions),
        notes=(*read.notes, f"time limit {limit}") if limit else read.notes,
    )
    found.add_job(where, document, known)


def _when(periodic: Periodic, anchor: datetime) -> TranslatedCron | ImportRefusal:
    if periodic.cron is not None:
        return read_cron(periodic.cron, "UTC", Scheduler.PROW)
    if periodic.minimum_interval is not None:
        return TranslatedCron({"after_completion": period_text(periodic.minimum_interval)})
    period = cast("timedelta", periodic.interval)  # one of the three, or the model refuses
    return TranslatedCron(fixed_rate(period, anchor, periodic.name), (OpenQuestion.PHASE,))


def fixed_rate(period: timedelta, anchor: datetime, name: str) -> dict[str, object]:
    """Return a fixed rate with a phase by name, to the minute, the same on every run."""
    minutes = int(period.total_seconds()) // 60
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    phase = timedelta(minutes=number % minutes) if minutes else timedelta()
    return {
        "every": period_text(period),
        "anchor": (anchor + phase).astimezone(UTC).isoformat().replace("+00:00", "Z"),
    }


def _criticality(periodic: Periodic) -> str | None:
    """Return whether a release waits for the job, by the dashboards that it reports to."""
    dashboards = periodic.dashboards or periodic.annotations.get("testgrid-dashboards", "")
    names = [name.strip() for name in dashboards.split(",")]
    for gate in _GATES:
        if any(name.endswith(f"-{gate}") for name in names):
            return f"release-{gate}"
    return None


def _name(job: object) -> str:
    name = cast("Mapping[str, object]", job).get("name") if isinstance(job, Mapping) else job
    return name if isinstance(name, str) else shown_value(name)


def unreadable(error: ValidationError) -> ImportRefusal:
    """Return what is wrong with a job, without quoting it."""
    reasons: list[str] = []
    accepted: list[str] = []
    for one in error.errors(include_url=False, include_input=False):
        context = one.get("ctx") or {}
        place = ".".join(map(str, one["loc"]))
        reason = one["msg"].removeprefix("Value error, ")
        reasons.append(f"{place}: {reason}" if place else reason)
        if "accepted" in context:
            accepted.append(str(context["accepted"]))
    return ImportRefusal("; ".join(reasons), "; ".join(accepted) or None)
