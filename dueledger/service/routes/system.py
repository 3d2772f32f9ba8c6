"""Routes of the system: processes, topics, alerts, checks. A caller for some tenants is given none.

Nor may it ask a process to drain: that works for others, too.
"""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from dueledger.alerts.open_alerts import list_open_alerts
from dueledger.audited_changes import DRAINED
from dueledger.ledger.errors import Conflict, NotFound, NotPermitted
from dueledger.ledger.runtime.kafka_settings import variable_of
from dueledger.ledger.store.api_keys import Scope
from dueledger.ledger.store.processes import (
    DrainResult,
    ProcessRole,
    ProcessStatus,
    count_leases,
    list_processes,
    request_drain,
)
from dueledger.ledger.store.topic_partitions import list_topic_partitions, list_topics
from dueledger.ledger_checks import DoctorCheck, Health, check_ledger, check_machine
from dueledger.refusals import drain_refusal
from dueledger.service.bodies import RequestBody
from dueledger.service.calls import ApiCall, CurrentCall
from dueledger.service.documents import answer, members_of
from dueledger.service.pages import LIMIT_MAX
from dueledger.service.routes.fields import Key, Reason
from dueledger.service.scoped_routes import ScopedRoutes
from dueledger.service.settings import ServiceSettings

read = ScopedRoutes(Scope.READ, "system")
operate = ScopedRoutes(Scope.OPERATE, "system")

LEASES_MAX: Final = 2_000
"""Leases that are counted, those that end first."""

Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX)]
TopicPath = Annotated[Key, Path(description="name of a topic, as lists show it")]
ProcessPath = Annotated[Key, Path(description="name of a process, as lists show it")]


class ProcessDocument(BaseModel):
    """A process that did not stop in order: its last sign of life, and why it cannot take work."""

    name: str
    role: ProcessRole
    status: ProcessStatus
    host: str
    version: str
    started_at: datetime
    seen_at: datetime
    failing_since: datetime | None
    failure: str | None
    certificate_expires_at: Annotated[
        datetime | None, Field(description="of a service with a certificate")
    ]
    drains: Annotated[bool, Field(description="it takes a request to drain")]
    drain_asked_at: datetime | None
    drain_asked_by: str | None
    drain_reason: str | None
    draining_since: Annotated[datetime | None, Field(description="it takes no more work")]
    ticked_at: Annotated[
        datetime | None,
        Field(description="the last pass of an allocator, a reconciler or a relay ended"),
    ]
    tick_seconds: Annotated[float | None, Field(description="how long that pass took")]
    outbox_items: Annotated[
        int | None, Field(description="rows of a relay's outbox that were not carried yet")
    ]
    outbox_capped: Annotated[bool, Field(description="there may be more")]
    leases: Annotated[int, Field(description=f"of the {LEASES_MAX:,} that end first")]
    leases_capped: Annotated[bool, Field(description="there may be more")]


class ProcessList(BaseModel):
    """Processes: those that do not live first, by when each was last seen; then by role."""

    items: list[ProcessDocument]


class DrainRequest(RequestBody):
    """Why a process drains."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "a new version"}]})

    reason: Reason


class DrainAnswer(BaseModel):
    """A process that is asked to drain: now, or before by somebody else."""

    name: str
    result: Literal["done", "asked"]


class TopicDocument(BaseModel):
    """A topic of kinds: what lies there and was not started, and what its consumers do."""

    topic: str
    kinds: int
    dispatch: str
    items: int
    oldest_at: datetime | None
    workers: int
    granted: Annotated[int, Field(description="items that its workers want waiting for them")]
    silent_since: datetime | None
    stalled_partitions: int
    stalled_at: datetime | None
    unavailable: Annotated[str | None, Field(description="why nothing can be published to it")]


class TopicList(BaseModel):
    """Topics, those with the most items first."""

    items: list[TopicDocument]


class PartitionDocument(BaseModel):
    """A partition of a topic in which published items wait, and how far its consumers are."""

    partition: int
    items: int
    oldest_at: datetime | None
    next_offset: int | None
    end_offset: int | None
    stalled_at: datetime | None
    expirations: Annotated[int | None, Field(description="leases that lapsed in a row")]
    backs_off_until: datetime | None


class PartitionList(BaseModel):
    """Partitions of a topic, those with the most items first."""

    items: list[PartitionDocument]


class AlertDocument(BaseModel):
    """An alert that stands, as `dueledger alert` found it."""

    alert: str
    severity: str
    labels: dict[str, str]
    summary: str
    value: float
    since: datetime
    runbook: str


class AlertList(BaseModel):
    """Alerts that stand, by name."""

    items: list[AlertDocument]


class CheckDocument(BaseModel):
    """A check of the ledger, or of the machine that answers: what was found, and what to do."""

    name: str
    health: Health
    text: str
    remedy: Annotated[str | None, Field(description="null: there is nothing to do")]


class CheckList(BaseModel):
    """Checks, as `dueledger doctor` makes them of a ledger."""

    items: list[CheckDocument]


class SettingDocument(BaseModel):
    """A setting of the process that answers; of a secret only whether it is set."""

    variable: str
    value: Annotated[str | None, Field(description="`secret` of a secret; null: nothing")]
    is_set: Annotated[bool, Field(description="false: it is the default")]
    description: str | None


class SettingList(BaseModel):
    """Settings of the process that answers."""

    items: list[SettingDocument]


@read.add("GET", "/v1/processes", "listProcesses", ProcessList)
async def list_living(call: CurrentCall, limit: Limit = LIMIT_MAX) -> Response:
    """List processes that live, are silent, or are gone since an hour."""
    if call.tenants is not None:
        return answer({"items": []})
    found = await list_processes(call.connection, limit)
    leases = await count_leases(call.connection, LEASES_MAX)
    items: list[dict[str, Any]] = []
    for each in found:
        held, is_capped = leases.get(each.process_no, (0, False))
        counts = {"leases": held, "leases_capped": is_capped, "outbox_capped": each.outbox_capped}
        items.append({**asdict(each), **counts})
    return answer({"items": [members_of(ProcessDocument, each) for each in items]})


@operate.add("POST", "/v1/processes/{process}/drain", "drainProcess", DrainAnswer)
async def drain(call: CurrentCall, process: ProcessPath, asked: DrainRequest) -> Response:
    """Ask a process to end what it has and stop, as SIGTERM does. It begins within a second.

    The name is that of one incarnation: what is started in its place is not asked.
    """
    if call.tenants is not None:
        raise NotPermitted("A process works for all tenants. Use a key for all tenants.")
    result = await request_drain(
        call.connection, process, reason=asked.reason, actor_no=call.caller.actor_no
    )
    if result is DrainResult.UNKNOWN:
        message = f"There is no process {process}. GET /v1/processes lists them."
        raise NotFound(message, process=process)
    if refusal := drain_refusal(result):
        raise Conflict(f"The process is not asked to drain: {refusal}.", process=process)
    is_changed = result is DrainResult.DONE
    call.note_change(target=f"processes/{process}", is_changed=is_changed, **DRAINED)
    return answer({"name": process, "result": result})


@read.add("GET", "/v1/topics", "listTopics", TopicList)
async def list_of_kinds(call: CurrentCall, limit: Limit = LIMIT_MAX) -> Response:
    """List the topics of kinds, with what lies there."""
    found = await list_topics(call.connection, limit) if call.tenants is None else []
    return answer({"items": [members_of(TopicDocument, each) for each in found]})


@read.add("GET", "/v1/topics/{topic}/partitions", "listTopicPartitions", PartitionList)
async def list_partitions(
    call: CurrentCall, topic: TopicPath, limit: Limit = LIMIT_MAX
) -> Response:
    """List the partitions of a topic in which published items wait; none of an unknown topic."""
    if call.tenants is not None:
        return answer({"items": []})
    found = await list_topic_partitions(call.connection, topic, limit)
    return answer({"items": [members_of(PartitionDocument, each) for each in found]})


@read.add("GET", "/v1/alerts", "listAlerts", AlertList)
async def list_open(call: CurrentCall) -> Response:
    """List the alerts that stand, if `dueledger alert` runs."""
    found = await list_open_alerts(call.connection, None) if call.tenants is None else []
    return answer({"items": [members_of(AlertDocument, each) for each in found]})


@read.add("GET", "/v1/checks", "listChecks", CheckList)
async def list_checks(call: CurrentCall) -> Response:
    """Check the database, its schema, clock and partitions, its processes and operations."""
    found = await check_all(call) if call.tenants is None else []
    return answer({"items": [asdict(each) for each in found]})


async def check_all(call: ApiCall) -> list[DoctorCheck]:
    """Return the checks of the machine and of the ledger."""
    return [*check_machine(), *await check_ledger(call.connection)]


@read.add("GET", "/v1/settings", "listSettings", SettingList)
async def list_settings(call: CurrentCall, request: Request) -> Response:
    """List the settings of the process that answers, without secrets."""
    shown = shown_settings(request.app.state.settings) if call.tenants is None else ()
    return answer({"items": list(shown)})


def shown_settings(settings: ServiceSettings) -> Iterator[dict[str, Any]]:
    """Yield the settings of a process as `SettingDocument` has them."""
    for name, field in type(settings).model_fields.items():
        value: Any = getattr(settings, name)
        if isinstance(value, SecretStr):
            shown = "secret"
        else:
            shown = str(value) if value not in (None, (), {}) else None
        yield {
            "variable": variable_of(name),
            "value": shown,
            "is_set": name in settings.model_fields_set,
            "description": field.description,
        }
