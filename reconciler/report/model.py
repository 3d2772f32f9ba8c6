"""The report of a reconciliation: the model of its JSON, its schema and the page."""

from datetime import date, datetime
from enum import StrEnum
from typing import Annotated, Final
from uuid import UUID

import orjson
from pydantic import BaseModel, ConfigDict, Field

from dueledger.ledger.finding_types import (
    FindingType,
    Owner,
    RepairAction,
    RepairStatus,
    Resolution,
    Severity,
)
from dueledger.ledger.visible_text import escape_json

SCHEMA_VERSION: Final = "1.0"
NOT_PROVEN: Final = (
    "Populations that are not listed under sources, and items that a listed one does not know.",
    "That the evidence outside is genuine: its presence is checked, not its content.",
    "Changes of tables by somebody with write access, until the journal is sealed.",
    "That the database's clock is right: every time in this report is that clock's.",
)

Count = Annotated[int, Field(ge=0)]
Fact = str | int | float | bool | None


class StatementVerdict(StrEnum):
    """The verdict of the statement."""

    COMPLETE = "complete"
    COMPLETE_WITH_EXPLAINED = "complete_with_explained"
    NOT_COMPLETE = "not_complete"


class _ReportPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Period(_ReportPart):
    """A half-open range of dates in UTC, on business time. Without `to_date` it ends now.

    A finding belongs to it if it is open, if it was open at any time of the period, or if what it
    is about was due in it; a repair if it waits, or was proposed or executed in it.
    """

    from_date: date
    to_date: date | None


class ReportStatement(_ReportPart):
    """The result in one sentence."""

    verdict: StatementVerdict
    sentence: str
    complete_before: datetime | None


class Watermark(_ReportPart):
    """Everything expected of the kind before `complete_before` is completed or explained.

    `blocked_by` names what blocks it.
    """

    tenant: str
    kind: str
    complete_before: datetime | None
    blocked_by: str | None


class KindChecks(_ReportPart):
    """What this pass checked of a kind's items.

    `existence`: a definition, event rule or population names each, or claims to name all that were
    made as it was; otherwise the ledger's own items count as expected, and as unchecked. `date`:
    one of them says when each is due; `terms`: a definition or event rule says its other terms.
    `ending`: each ending was compared with runs, events and rules. None of these was checked where
    a source of the kind could not be read. `evidence`: a source outside was asked for each
    completed item. `kafka`: claims were compared with the records in Kafka.
    """

    existence: bool
    date: bool
    terms: bool
    ending: bool
    evidence: bool
    kafka: bool


class AccountingRow(_ReportPart):
    """expected = completed + skipped + cancelled + superseded + written_off + open + difference.

    `unchecked` of those expected are items that a service emitted and that no source names: whether
    they are owed is not checked.
    """

    tenant: str
    kind: str
    checks: KindChecks
    expected: Count
    unchecked: Count
    completed: Count
    skipped: Count
    cancelled: Count
    superseded: Count
    written_off: Count
    open: Count
    not_due: Count
    overdue: Count
    missing: Count
    unexpected: Count
    difference: int
    hash_total: str


class IdentityRow(_ReportPart):
    """items = pending + handed_out + running + reviews + ended + difference, in one snapshot."""

    tenant: str
    kind: str
    items: Count
    pending: Count
    handed_out: Count
    running: Count
    reviews: Count
    ended: Count
    difference: int


class SummaryRow(_ReportPart):
    """Counts of the findings of one type."""

    type: FindingType
    severity: Severity
    owner: Owner
    meaning: str
    found: Count
    open: Count
    repaired: Count
    explained: Count
    oldest_seen_at: datetime | None


class FindingDetail(_ReportPart):
    """One finding with both sides of its evidence."""

    id: UUID
    type: FindingType
    severity: Severity
    owner: Owner
    tenant: str
    kind: str
    subject: str
    item_id: UUID | None
    business_key: str | None
    effective_date: date | None
    due_at: datetime | None
    sentence: str
    expected: dict[str, Fact]
    actual: dict[str, Fact]
    first_seen_at: datetime
    last_seen_at: datetime
    closed_at: datetime | None
    opened_count: int
    resolution: Resolution
    reason: str | None


class RepairDetail(_ReportPart):
    """One repair: what it would do or did and changes, who proposed, approved and executed it.

    `id` is its idempotency key; `held_because` is why it was not executed yet.
    `status` is None in a dry run that recorded nothing.
    """

    id: UUID
    finding_id: UUID
    type: FindingType
    tenant: str
    kind: str
    subject: str
    action: RepairAction
    would: str
    before: str
    after: str
    status: RepairStatus | None
    proposed_by: str | None
    held_because: str | None
    approved_by: str | None
    executed_at: datetime | None
    executed_by: str | None
    outcome: dict[str, Fact] | None


class SkippedRows(_ReportPart):
    """Rows of a source that could not be read, and why."""

    reason: str
    count: Count


class SourceRow(_ReportPart):
    """What was read of one source."""

    name: str
    origin: str
    query_digest: str | None
    extracted_at: datetime
    duration_seconds: float
    row_count: Count
    skipped: list[SkippedRows]
    hash_total: str
    failure: str | None


class RuleRow(_ReportPart):
    """A version of a definition that was used for the expectation."""

    tenant: str
    definition: str
    version: int
    kind: str
    event_type: str | None
    effective_from: datetime
    superseded_at: datetime | None
    digest: str


class LatenessBar(_ReportPart):
    """How many items were at most this late."""

    label: str
    count: Count


class TimelinessRow(_ReportPart):
    """How long after their due time one kind's items were completed, in seconds."""

    tenant: str
    kind: str
    completed: Count
    late: Count
    p50_seconds: float
    p95_seconds: float
    p99_seconds: float
    greatest_seconds: float
    bars: list[LatenessBar]


class RejectedWrites(_ReportPart):
    """Writes that the fences refused."""

    verb: str
    reason: str
    count: Count


class ReconciliationReport(_ReportPart):
    """The report of one reconciliation; one that was not recorded has no number.

    `findings` and `repairs` are samples of those of the period, which `findings_count` and
    `repairs_count` count; the files beside the report list all. `findings_omitted` were found by
    this pass beyond what it records.
    """

    schema_version: str = SCHEMA_VERSION
    software_version: str
    reconciliation_no: int | None
    period: Period
    as_of: datetime
    started_at: datetime
    duration_seconds: float
    tzdata: str
    statement: ReportStatement
    watermarks: list[Watermark]
    accounting: list[AccountingRow]
    totals: AccountingRow
    identity: list[IdentityRow]
    summary: list[SummaryRow]
    findings: list[FindingDetail]
    findings_count: Count
    findings_omitted: Count
    findings_file: str | None
    repairs: list[RepairDetail]
    repairs_count: Count
    repairs_executed: Count
    repairs_file: str | None
    sources: list[SourceRow]
    rules: list[RuleRow]
    timeliness: list[TimelinessRow]
    rejected_writes: list[RejectedWrites]
    not_proven: list[str] = list(NOT_PROVEN)

    @property
    def findings_found(self) -> int:
        """Count the findings that are more than information, repaired or not."""
        return sum(row.found for row in self.summary if row.severity is not Severity.INFORMATION)

    @property
    def findings_open(self) -> int:
        """Count the findings that are still open."""
        return sum(row.open for row in self.summary)

    @property
    def completed_evidenced(self) -> int:
        """Count the completed items that were looked up in evidence outside."""
        return sum(row.completed for row in self.accounting if row.checks.evidence)

    @property
    def stale_writes(self) -> int:
        """Count the writes refused because their fence was no longer valid."""
        return sum(row.count for row in self.rejected_writes if row.reason == "stale")

    def as_json(self) -> bytes:
        """Return the canonical JSON: keys sorted, UTF-8, instants in UTC, a newline at the end.

        Characters that cannot be seen are escapes.
        """
        document = orjson.dumps(
            self.model_dump(mode="json"), option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2
        )
        return escape_json(document.decode()).encode() + b"\n"


def report_schema() -> bytes:
    """Return the JSON Schema that `docs/report.schema.json` ships."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **ReconciliationReport.model_json_schema(mode="serialization"),
    }
    return orjson.dumps(schema, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2) + b"\n"


def make_statement(
    findings_open: int,
    *,
    repaired: int,
    explained: int,
    oldest_days: float,
    unchecked: int,
    unchecked_kinds: int,
    complete_before: datetime | None,
) -> ReportStatement:
    """Return the result as one sentence."""
    limit = _unchecked_clause(unchecked, unchecked_kinds)
    if findings_open:
        plural = "finding is" if findings_open == 1 else "findings are"
        age = "today" if oldest_days < 1 else f"{oldest_days:.0f} days ago"
        return ReportStatement(
            verdict=StatementVerdict.NOT_COMPLETE,
            sentence=f"Not complete: {findings_open:,} {plural} open, the oldest first seen {age}.",
            complete_before=complete_before,
        )
    if repaired or explained:
        parts = [
            f"{count:,} {word}"
            for count, word in ((repaired, "repaired"), (explained, "explained"))
            if count
        ]
        verdict = (
            StatementVerdict.COMPLETE_WITH_EXPLAINED if explained else StatementVerdict.COMPLETE
        )
        return ReportStatement(
            verdict=verdict,
            sentence=f"Complete, with {' and '.join(parts)}{limit}.",
            complete_before=complete_before,
        )
    return ReportStatement(
        verdict=StatementVerdict.COMPLETE,
        sentence=f"Complete: all that was owed is completed, explained or not yet due{limit}.",
        complete_before=complete_before,
    )


def _unchecked_clause(items: int, kinds: int) -> str:
    if not items:
        return ""
    counted = f"{items:,} {'item' if items == 1 else 'items'}"
    of_kinds = f"{kinds:,} {'kind' if kinds == 1 else 'kinds'}"
    return f"; no source says whether {counted} of {of_kinds} {'is' if items == 1 else 'are'} owed"
