"""Findings of a pass, recorded in batches, up to the cap of their type and kind."""

from collections import Counter
from collections.abc import Iterable, Sequence, Sized
from typing import Final

import orjson

from dueledger.ledger.finding_types import FindingType, Resolution, Severity
from dueledger.ledger.store import Connection, findings, passes
from dueledger.ledger.store.past_load import PastQuarter
from dueledger.reconciler.compared_items import KindKey
from dueledger.reconciler.find.findings import Finding
from dueledger.reconciler.pass_record import PassRecord
from dueledger.reconciler.pass_result import PassResult
from dueledger.reconciler.sources import SourceRead
from dueledger.reconciler.windows import DateRange

RECORDED_ROWS: Final = 1_000
_INFORMATION: Final = {FindingType.LATE_ARRIVING: Resolution.CARRIED_FORWARD}
"""How information is recorded where not as explained."""


class FindingRecorder:
    """Counts every finding in the pass's result and records those within the cap."""

    def __init__(self, result: PassResult, findings_max: int, record: PassRecord) -> None:
        self._result = result
        self._record = record
        self._findings_max = findings_max
        self._waiting: list[Finding] = []
        self._listed: Counter[tuple[FindingType, str, str]] = Counter()

    def add(self, found: Iterable[Finding]) -> None:
        """Add findings to be recorded; beyond the cap they are only counted."""
        result = self._result
        for finding in found:
            place = (finding.type, finding.subject.tenant, finding.subject.kind)
            result.found[finding.type] += 1
            if self._listed[place] >= self._findings_max:
                result.omitted[place] += 1
                continue
            self._listed[place] += 1
            self._waiting.append(finding)

    @property
    def row_max(self) -> int:
        """How many rows a list of findings may have."""
        return row_max(self._findings_max)

    def note_list(self, rows: Sized, *types: FindingType) -> None:
        """Note which types of findings a list of up to `row_max` rows has, which may be cut.

        Findings of those types that a cut list does not have stay as they are.
        """
        if len(rows) >= self.row_max:
            self._result.cut.update(types)

    def findings_left(self, type_: FindingType, key: KindKey) -> int:
        """Return how many more findings of a type and kind are within the cap."""
        return self._findings_max - self._listed[type_, *key]

    def add_known(self, type_: FindingType, key: KindKey, count: int) -> None:
        """Count findings of a kind that an earlier pass recorded, as if they were added."""
        if not count:
            return
        place = (type_, *key)
        listed = min(count, self.findings_left(type_, key))
        self._result.found[type_] += count
        self._listed[place] += listed
        if listed < count:
            self._result.omitted[place] += count - listed

    async def record_past_load(
        self, connection: Connection, window: DateRange, quarters: Sequence[PastQuarter]
    ) -> None:
        """Record the results of the items of a window, beside the findings."""
        await self._record.record_past_load(connection, window, quarters)

    async def flush(self, connection: Connection) -> None:
        """Record the added findings, each id once."""
        unique = list({finding.id: finding for finding in self._waiting}.values())
        self._waiting = []
        for begin in range(0, len(unique), RECORDED_ROWS):
            self._result.created += await self._record.record_findings(
                connection,
                [finding_record(finding) for finding in unique[begin : begin + RECORDED_ROWS]],
            )


def finding_record(finding: Finding) -> findings.FindingRecord:
    """Return the record of a finding: one that is information only is never open."""
    subject = finding.subject
    informative = finding.severity is Severity.INFORMATION
    return findings.FindingRecord(
        id=finding.id,
        type=finding.type,
        severity=finding.severity,
        tenant=subject.tenant,
        kind=subject.kind,
        subject=subject.name,
        item_id=subject.item_id,
        business_key=subject.business_key,
        effective_date=subject.effective_date,
        due_at=subject.due_at,
        sentence=finding.sentence,
        expected=orjson.dumps(finding.expected).decode(),
        actual=orjson.dumps(finding.actual).decode(),
        terms=finding.terms,
        resolution=_INFORMATION.get(finding.type, Resolution.EXPLAINED)
        if informative
        else Resolution.OPEN,
    )


def population_record(read: SourceRead, result: PassResult) -> passes.PopulationRecord:
    """Return the record of a source as it was read."""
    return passes.PopulationRecord(
        name=read.name,
        origin=read.origin,
        query_digest=read.extract.digest or read.digest,
        extracted_at=read.extract.extracted_at or result.started_at,
        duration_seconds=read.duration_seconds,
        row_count=read.extract.row_count,
        skipped_count=read.extract.skipped.total(),
        hash_total=read.extract.hash_total,
        failure=read.failure,
    )


def row_max(findings_max: int) -> int:
    """Return how many rows a list of findings may have: one beyond the cap, so that a cut shows."""
    return findings_max + 1
