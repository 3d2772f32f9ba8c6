"""Kubernetes CronJobs as definitions: their times only. The handler does the job's work.

Sources: the CronJob v1 API, and robfig/cron v3, with which Kubernetes reads `schedule`.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

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
from dueledger.ledger.schedule.expressions import parse_period, period_text

KIND: Final = "CronJobDue"

_INT32_MAX: Final = 2**31 - 1
_OVERLAPS: Final = {"Allow": "allow", "Forbid": "skip", "Replace": "cancel_other"}
_ZONE_PREFIX: Final = re.compile(r"(?:CRON_)?TZ=(?P<zone>\S+)\s+(?P<rest>.*)", re.DOTALL)
_OWNER_KEYS: Final = ("owner", "team", "app.kubernetes.io/part-of")
_CRITICALITY_KEYS: Final = ("criticality", "tier", "priority")


class _CronJobPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Metadata(_CronJobPart):
    name: str = Field(min_length=1)
    namespace: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creationTimestamp: AwareDatetime | None = None  # noqa: N815 - as Kubernetes names it


class _PodSpec(_CronJobPart):
    priorityClassName: str | None = None  # noqa: N815


class _Template(_CronJobPart):
    spec: _PodSpec = _PodSpec()


class _JobSpec(_CronJobPart):
    activeDeadlineSeconds: int | None = None  # noqa: N815
    template: _Template = _Template()


class _JobTemplate(_CronJobPart):
    spec: _JobSpec = _JobSpec()


class _Spec(_CronJobPart):
    schedule: str
    timeZone: str | None = None  # noqa: N815
    concurrencyPolicy: Literal["Allow", "Forbid", "Replace"] | None = None  # noqa: N815
    startingDeadlineSeconds: int | None = Field(default=None, ge=0, le=_INT32_MAX)  # noqa: N815
    suspend: bool | None = None
    jobTemplate: _JobTemplate = _JobTemplate()  # noqa: N815


class _Status(_CronJobPart):
    lastScheduleTime: AwareDatetime | None = None  # noqa: N815


class CronJob(_CronJobPart):
    """One CronJob: its times, and its policy for overlapping runs."""

    metadata: _Metadata
    spec: _Spec
    status: _Status = _Status()

    @property
    def name(self) -> str:
        """Return its name, unique in a cluster if the file names its namespace."""
        namespace = self.metadata.namespace
        return f"{namespace}/{self.metadata.name}" if namespace else self.metadata.name


def import_cronjob(
    where: str,
    document: Mapping[str, object],
    anew: NewDefinitionFields,
    found: ImportResult,
) -> None:
    """Import one CronJob, or list why not. `anew.zone` is the zone of the controller's clock."""
    try:
        job = CronJob.model_validate(document)
    except ValidationError as error:
        found.skip_job(where, _name(document), unreadable(error))
        return
    if job.spec.suspend:
        reason = "is suspended: nothing of it is due"
        refusal = ImportRefusal(reason, "import it without `suspend` when it should run")
        found.skip_job(where, job.name, refusal)
        return
    read = _when(job, anew)
    if isinstance(read, ImportRefusal):
        found.skip_job(where, job.name, read)
        return
    namespace = job.metadata.namespace
    limit = job.spec.jobTemplate.spec.activeDeadlineSeconds
    seconds = job.spec.startingDeadlineSeconds
    notes: list[str] = []
    if limit is not None:
        notes.append(f"time limit {limit} s (activeDeadlineSeconds)")
    if seconds == 0:
        notes.append("startingDeadlineSeconds: 0 is not converted: it would prevent every start")
    window = {"window": period_text(timedelta(seconds=seconds))} if seconds else {}
    imported = SourceJob(
        where=where,
        name=job.name,
        kind=KIND,
        schedule=read,
        payload={"cronjob": job.name},
        labels={"namespace": namespace} if namespace else {},
        lane="namespace" if namespace else None,
        overlap=_OVERLAPS[job.spec.concurrencyPolicy or "Allow"],
        catch_up={"policy": "latest", **window} if window else None,
        owner=_label_value(job, _OWNER_KEYS),
        criticality=_label_value(job, _CRITICALITY_KEYS)
        or job.spec.jobTemplate.spec.template.spec.priorityClassName,
        duplicates="Kubernetes may start it twice",
        description=(job.metadata.annotations or {}).get("description"),
        questions=() if limit is None else (OpenQuestion.TIME_LIMIT,),
        notes=tuple(notes),
    )
    add_job(found, imported, anew)


def _when(job: CronJob, anew: NewDefinitionFields) -> TranslatedSchedule | ImportRefusal:
    text, named = job.spec.schedule.strip(), job.spec.timeZone
    if named is not None and not named.strip():
        reason = "has an empty `timeZone`, which Kubernetes refuses"
        return ImportRefusal(reason, "a zone such as Europe/Berlin, or no `timeZone`")
    if prefix := _ZONE_PREFIX.fullmatch(text):
        if named is not None:
            reason = "has a zone in `schedule` and a `timeZone`: Kubernetes refuses both at once"
            return ImportRefusal(reason, "`timeZone` alone")
        named, text = prefix["zone"], prefix["rest"].strip()
    if text.lower().startswith("@every"):
        return _every(job, text, anew.anchor)
    read = read_cron(text, named or anew.zone or "UTC", Scheduler.KUBERNETES)
    if isinstance(read, ImportRefusal) or named is not None:
        return read
    return TranslatedSchedule(read.when, (*read.questions, OpenQuestion.ZONE), read.notes)


def _every(job: CronJob, text: str, anchor: datetime) -> TranslatedSchedule | ImportRefusal:
    """Count from the last start, which a cluster's export has, or else from a spread phase."""
    try:
        period = parse_period(text[len("@every") :].strip())
    except PydanticCustomError as error:
        context = error.context or {}
        return ImportRefusal(f"`{text}`: {context['reason']}", str(context["accepted"]))
    start = job.status.lastScheduleTime or job.metadata.creationTimestamp
    if start is None:
        return TranslatedSchedule(fixed_rate(period, anchor, job.name), (OpenQuestion.PHASE,))
    try:
        since = start.astimezone(UTC).replace(microsecond=0)
        if job.status.lastScheduleTime is None:
            since += period  # the first start is a period after it was made
    except OverflowError:
        return ImportRefusal(
            "its last start is too far in the past or future", "the status of a real cluster"
        )
    when: dict[str, object] = {
        "every": period_text(period),
        "anchor": since.isoformat().replace("+00:00", "Z"),
    }
    return TranslatedSchedule(when)


def _label_value(job: CronJob, keys: tuple[str, ...]) -> str | None:
    """Find a key among labels and annotations, with a prefix such as `acme.io/` or without."""
    values = {**(job.metadata.annotations or {}), **(job.metadata.labels or {})}
    for key in keys:
        for name, value in values.items():
            if value and name in {key, name.partition("/")[0] + "/" + key}:
                return value
    return None


def _name(document: Mapping[str, object]) -> str:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return name if isinstance(name, str) else "CronJob"
