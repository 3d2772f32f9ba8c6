"""What routes of definitions take and answer."""

from datetime import date, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from dueledger.ledger.store.definitions import VersionState
from dueledger.service.bodies import RequestBody
from dueledger.service.pages import Page
from dueledger.service.routes.fields import PRINTABLE, Instant, Reason, StateName

EXAMPLE: dict[str, Any] = {
    "kind": "StatementDue",
    "business_key": "statements",
    "when": {"cron": "0 9 1 * *", "timezone": "Europe/Berlin"},
    "retry": {"attempt_max": 5},
    "deadlines": {"run": "PT10M"},
    "dispatch": {"direct": {}},
}


class DefinitionDocument(BaseModel):
    """A version of a definition, and whether it is in force."""

    tenant: str
    definition: str
    version: int
    state: Annotated[str, Field(json_schema_extra={"enum": [each.value for each in VersionState]})]
    kind: str
    effective_from: datetime
    superseded_at: datetime | None
    materialised_until: datetime | None
    failure: str | None
    defined_by: str
    defined_at: datetime
    document: dict[str, Any]


class DefinitionPage(Page[DefinitionDocument]):
    """A page of versions of definitions."""


class OccurrenceChangeDocument(BaseModel):
    """What happens to one occurrence."""

    change: Literal["kept", "moved", "added", "removed"]
    cycle: str
    due_at: datetime | None
    local: str | None
    was: datetime | None
    was_local: str | None


class DefinitionDiffDocument(BaseModel):
    """How what is owed changes in [since, until): `next` has the first occurrences."""

    base_version: int | None
    superseded: list[int]
    since: datetime
    until: datetime
    fields: list[str]
    counts: dict[str, int]
    next: list[OccurrenceChangeDocument]


class DefinitionChangeDocument(BaseModel):
    """What a document changes; without `diff` it is the newest version already."""

    tenant: str
    definition: str
    version: int
    changed: bool
    diff: DefinitionDiffDocument | None = None
    notes: Annotated[list[str], Field(description="what a person should know, in sentences")]


class OccurrenceDocument(BaseModel):
    """One time at which a schedule is due."""

    due_at: datetime
    local: str
    utc_offset: str
    nominal: str
    decision: str
    smear_seconds: int | None = None


class SkippedDocument(BaseModel):
    """A nominal time without an occurrence."""

    nominal: str
    reason: str
    into: str | None = None


class Occurrences(BaseModel):
    """The next times of a schedule, and those skipped between them."""

    occurrences: list[OccurrenceDocument]
    skipped: list[SkippedDocument]


class ExecutionDocument(BaseModel):
    """An item of a definition: when it was due, started and ended, by whom, and its evidence."""

    id: UUID
    business_key: str
    cycle: str
    effective_date: date
    due_at: datetime
    definition_version: int | None
    state: StateName
    attempt: int | None
    available_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    worker: str | None
    start_delay_seconds: float | None
    duration_seconds: float | None
    evidence: Any


class ExecutionPage(Page[ExecutionDocument]):
    """A page of executions."""


class PauseRequest(RequestBody):
    """Why the work of a definition pauses, and until when."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"reason": "INC-1234: the archive is down"}]},
    )

    reason: Reason
    until: Annotated[
        Instant | None,
        Field(description="when the pause ends by itself; null: somebody resumes it"),
    ] = None


class PausedScope(BaseModel):
    """The flows that a pause is for; null: all of the tenant or kind."""

    tenant: str
    kind: str | None
    lane: str | None
    reason: str | None = None
    paused_until: datetime | None = None


class PauseChange(BaseModel):
    """The pauses that began or ended, and the flows that stopped or go on."""

    pauses: list[PausedScope]
    flows: list[PausedScope]


class TriggerRequest(RequestBody):
    """Why a schedule runs once more, now."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "the file came late"}]})

    reason: Reason
    cycle: Annotated[
        str | None,
        Field(
            max_length=150,
            pattern=PRINTABLE,
            description="name of the occurrence; the same name is the same item. "
            "Default: the current second",
        ),
    ] = None


class TriggeredItem(BaseModel):
    """The item of a triggered occurrence; `created` is false if it was triggered before."""

    id: UUID
    created: bool
    cycle: str
    state: str | None
