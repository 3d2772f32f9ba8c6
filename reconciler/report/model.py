"""The report of a reconciliation: the model of its JSON, its schema and the page."""

from datetime import date, datetime
from enum import StrEnum
from typing import Annotated, Final, Literal
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
from dueledger.ledger.witness import Agreement

SCHEMA_VERSION: Final = "1.1"
NOT_PROVEN: Final = (
    "Populations that are not listed under sources, and items that a listed one does not know.",
    "That the evidence outside is genuine: its presence is checked, not its content.",
    "Changes of tables by somebody with write access, until the journal is sealed.",
    "What the checks of a kind leave out, and findings beyond those that a pass records.",
    "That the clocks are right: times are those of the ledger's database, and of each source.",
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
    is about was due in it; a repair if it waits, or was open at any time of the period.
    """

    from_date: date
    to_date: date | None


class EffectiveDates(_ReportPart):
    """The half-open range of effective dates that the pass compared; None is every date."""

    from_date: date | None
    to_date: date | None


class OldestUnread(_ReportPart):
    """The first effective date that the pass did not read anew, and when it was read last."""

    effective_date: date
    read_at: datetime


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
    """What this pass checked of all items of a kind; where not of all, counts say of which not.

    `existence`: a definition, event rule or population names each, or claims to name all that were
    made as it was; otherwise the ledger's own items count as expected, and as `unchecked`. `date`:
    one of them says when each is due, but for those `undated`, of which none does or only as
    another tz database may have it; `terms`: a definition or event rule says its other terms, or a
    population its payload and SLA, but for those `untermed`. `ending`: each ending was compared
    with runs, events and rules. None of these was checked where a source of the kind could not be
    read. `evidence`: all its sources could be read, and were asked for the
    completed items that are `looked_up`: those whose effect must show by now. `kafka`: claims were
    compared with the records in Kafka, as far as these are retained.
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
    they are owed is not checked. `earlier` of the items are of dates that did not change since an
    earlier pass read them: of these the pass compared digests, which leave out payload, labels,
    partition key, local time, zone, decision and overlap, and the runs that items ended in.
    Evidence was read `both_ways` if its sources name all effects, and each was held against the
    items; else one way: an effect of an item that is not completed, or of none, does not show.
    """

    tenant: str
    kind: str
    checks: KindChecks
    expected: Count
    unchecked: Count
    undated: Count
    untermed: Count
    looked_up: Count
    both_ways: bool
    earlier: Count
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
    """items = pending + handed_out + running + reviews + ended + difference.

    Open items are counted at one time, the others as they were compared; where these differ, and
    where not all dates were compared, all are counted again, a range of dates in each snapshot.
    """

    tenant: str
    kind: str
    items: Count
    pending: Count
    handed_out: Count
    running: Count
    reviews: Count
    ended: Count
    difference: int


class HistogramBar(_ReportPart):
    """One bar of a histogram."""

    label: str
    count: Count


class SummaryRow(_ReportPart):
    """Counts of the findings of one type.

    `ages` counts open ones by the time since the item was due, or since the finding was first seen
    where that is longer ago or nothing was due.
    """

    type: FindingType
    severity: Severity
    owner: Owner
    meaning: str
    found: Count
    open: Count
    repaired: Count
    explained: Count
    oldest_seen_at: datetime | None
    ages: list[HistogramBar]


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
    """One repair: what it would do or did, who proposed, approved and executed it.

    `before` and `after` are what it changed, or is to change while it waits: they are the same
    where it was refused or dropped, or somebody else did it meanwhile. `id` is its idempotency key;
    `held_because` is why it was not executed yet. `status` is None in a dry run, which recorded
    nothing. One that is proposed and does not wait is of a finding that is not open any more.
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
    waits: bool
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
    """What was read of one source. `hash_total` is None where rows have none."""

    name: str
    origin: str
    query_digest: str | None
    extracted_at: datetime
    duration_seconds: float
    row_count: Count
    skipped: list[SkippedRows]
    hash_total: str | None
    failure: str | None


class RuleRow(_ReportPart):
    """A version of a definition that was used for the expectation.

    `second_opinion` is whether another library finds the same times, asked `second_opinion_days`
    ago: schedules in force are asked about by turns. Event rules and fixed rates have none.
    """

    tenant: str
    definition: str
    version: int
    kind: str
    event_type: str | None
    effective_from: datetime
    superseded_at: datetime | None
    digest: str
    second_opinion: Agreement | Literal["not_asked"] | None
    second_opinion_days: float | None


class TimelinessRow(_ReportPart):
    """How long after their due time one kind's items were completed, in seconds.

    `bars` counts the items that were at most this late, and later than the bar before.
    """

    tenant: str
    kind: str
    completed: Count
    late: Count
    p50_seconds: float
    p95_seconds: float
    p99_seconds: float
    greatest_seconds: float
    bars: list[HistogramBar]


class RejectedWrites(_ReportPart):
    """Writes that the fences refused, of any time."""

    verb: str
    reason: str
    count: Count


class ReconciliationReport(_ReportPart):
    """The report of one reconciliation; one that was not recorded has no number.

    With a `tenant`, it is of this tenant alone: without rejected writes and without sources that
    may name items of others. Its statement counts open findings of the whole ledger, too.

    `findings` and `repairs` are samples of those of the period, which `findings_count` and
    `repairs_count` count; the files beside the report list all. `findings_omitted` were found by
    this pass beyond what it records. Everything else is of the items with `effective_dates`, of
    which no part was read before `everything_read_at`: this pass, unless it has an `oldest_unread`.
    """

    schema_version: str = SCHEMA_VERSION
    software_version: str
    reconciliation_no: int | None
    tenant: str | None
    period: Period
    effective_dates: EffectiveDates
    as_of: datetime
    started_at: datetime
    everything_read_at: datetime
    oldest_unread: OldestUnread | None
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
        return sum(row.looked_up for row in self.accounting)

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
