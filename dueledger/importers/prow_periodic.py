"""Prow's periodic jobs as definitions.

`cron` is read in UTC, as Prow does. `interval` counts from a job's last start; it becomes a fixed
rate whose phase is spread by the job's name. `minimum_interval` counts from its last end, which is
`after_completion`. Prow starts no job while the one before it runs: `overlap: skip`.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from dueledger.importers.cron_text import Scheduler, read_cron
from dueledger.importers.import_result import ImportRefusal, ImportResult, OpenQuestion
from dueledger.importers.source_job import (
    NewDefinitionFields,
    SourceJob,
    TranslatedSchedule,
    add_job,
    fixed_rate,
    unreadable,
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
    limit = periodic.timeout or periodic.decoration_config.timeout
    job = SourceJob(
        where=where,
        name=periodic.name,
        kind=KIND,
        schedule=read,
        payload={},
        labels={name: value for name, value in labels.items() if value},
        lane="area" if periodic.area else None,
        overlap="skip",
        owner=periodic.team,
        criticality=_criticality(periodic),
        questions=(OpenQuestion.TIME_LIMIT,) if limit else (),
        notes=(f"time limit {limit}",) if limit else (),
    )
    add_job(found, job, anew)


def _when(periodic: Periodic, anchor: datetime) -> TranslatedSchedule | ImportRefusal:
    if periodic.cron is not None:
        return read_cron(periodic.cron, "UTC", Scheduler.PROW)
    if periodic.minimum_interval is not None:
        return TranslatedSchedule({"after_completion": period_text(periodic.minimum_interval)})
    period = cast("timedelta", periodic.interval)  # one of the three, or the model refuses
    return TranslatedSchedule(fixed_rate(period, anchor, periodic.name), (OpenQuestion.PHASE,))


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
