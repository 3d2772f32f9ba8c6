"""What a pass would record, in memory: nothing is written, and the report is the same."""

from collections import Counter, deque
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, Final, final
from uuid import UUID

import orjson

from dueledger.ledger.finding_types import Resolution, Severity
from dueledger.ledger.store import Connection, findings, passes
from dueledger.ledger.store.past_load import PastLoadCount, PastQuarter
from dueledger.ledger.store.witnessed import WitnessedVersion, list_witnessed
from dueledger.ledger.witness import Agreement, WitnessedTimes
from dueledger.reconciler.expect.versions import DefinitionSpan
from dueledger.reconciler.finding_row import FindingRow
from dueledger.reconciler.pass_record import PassRecord
from dueledger.reconciler.pass_result import PassScope
from dueledger.reconciler.read.finding_pages import findings_of_period, open_findings
from dueledger.reconciler.report_period import ReportPeriod
from dueledger.reconciler.windows import DateRange

_AGE: Final = itemgetter("first_seen_at", "id")
_KEPT: Final = ("item_id", "business_key", "effective_date", "due_at", "first_seen_at")
"""What a finding has from the first time."""
_JUDGED: Final = ("opened_count", "closed_at", "resolution", "reason")
"""What a finding keeps that does not reopen."""


@final
class MemoryRecord(PassRecord):
    """Keeps what one pass finds, and merges it with the findings that the ledger has."""

    def __init__(self) -> None:
        self._as_of = datetime.min.replace(tzinfo=UTC)
        self._witnessed = dict[int, WitnessedTimes]()
        self._found = dict[UUID, dict[str, Any]]()
        self._cleared = dict[UUID, str]()

    async def begin(self, connection: Connection, scope: PassScope) -> passes.PassStart:  # noqa: ARG002 - nothing is recorded of it
        """Begin the pass, which has no number."""
        start = await passes.read_pass_start(connection)
        self._as_of = start.as_of
        return start

    async def list_witnessed(self, connection: Connection) -> list[WitnessedVersion]:
        """List what the witness said about versions, now or before."""
        known = {each.definition_no: each for each in await list_witnessed(connection)}
        for number, times in self._witnessed.items():
            if number not in known or times.agreement is not Agreement.NOT_WITNESSED:
                known[number] = WitnessedVersion(number, times, 0.0)
        return list(known.values())

    async def record_witnessed(
        self,
        connection: Connection,  # noqa: ARG002 - nothing is written
        witnessed: Sequence[tuple[DefinitionSpan, WitnessedTimes]],
    ) -> None:
        """Keep what the witness said now."""
        self._witnessed |= {version.definition_no: times for version, times in witnessed}

    async def record_findings(
        self, connection: Connection, found: Sequence[findings.FindingRecord]
    ) -> int:
        """Keep findings, each id once; return how many are new."""
        added = [each for each in found if each.id not in self._found]
        known = await findings.find_known_findings(connection, added)
        self._found |= {each.id: self._row(each, known.get(each.id)) for each in added}
        for each in found:
            self._found[each.id] |= _evidence(each)
        return len(added) - len(known)

    def _row(self, found: findings.FindingRecord, known: findings.Record | None) -> dict[str, Any]:
        """Return a finding as it would be recorded."""
        is_open = found.resolution == Resolution.OPEN
        row = asdict(found) | {
            "opened_count": 1,
            "first_seen_at": self._as_of,
            "last_seen_at": self._as_of,
            "closed_at": None if is_open else self._as_of,
            "reason": None if is_open else found.severity,
        }
        if known is not None:
            row |= {name: known[name] for name in _KEPT}
            if known["reopens"]:
                row["opened_count"] += known["opened_count"]
            else:
                row |= {name: known[name] for name in _JUDGED}
        return row

    async def close_findings(
        self, connection: Connection, checked: findings.CheckedFindings
    ) -> Counter[Resolution]:
        """Take open findings for closed that the pass checked and did not find."""
        cleared = await findings.list_cleared_findings(connection, None, checked)
        self._cleared = {each: cleared[each] for each in cleared.keys() - self._found.keys()}
        return Counter(map(Resolution, self._cleared.values()))

    async def record_watermarks(
        self,
        connection: Connection,
        watermarks: Sequence[passes.WatermarkRecord],
        as_of: datetime,
    ) -> None:
        """Record nothing: the result of the pass has them."""

    async def record_past_load(
        self, connection: Connection, window: DateRange, quarters: Sequence[PastQuarter]
    ) -> None:
        """Record nothing: no report has it."""

    async def note_past_load(self, connection: Connection, count: PastLoadCount) -> None:
        """Record nothing."""

    async def record_populations(
        self, connection: Connection, populations: Sequence[passes.PopulationRecord]
    ) -> None:
        """Record nothing: the result of the pass has them."""

    async def finish(
        self, connection: Connection, counts: str, *, witness_credit_seconds: float
    ) -> None:
        """Record nothing."""

    def has_found(self, finding: FindingRow) -> bool:
        """Return whether the pass found it."""
        return finding["id"] in self._found

    def list_open(self, connection: Connection) -> AsyncIterator[Sequence[FindingRow]]:
        """Yield the findings that would be open, oldest first, by page."""
        found = [row for row in self._found.values() if row["closed_at"] is None]
        return self._merged(open_findings(connection), found, open_only=True)

    def list_of_period(
        self, connection: Connection, period: ReportPeriod
    ) -> AsyncIterator[Sequence[FindingRow]]:
        """Yield the findings that would be of a period and of the pass, oldest first, by page."""
        found = [
            row
            for row in self._found.values()
            if row["severity"] != Severity.INFORMATION or period.has(row)
        ]
        return self._merged(findings_of_period(connection, period), found, open_only=False)

    async def _merged(
        self,
        pages: AsyncIterator[Sequence[findings.Record]],
        found: Iterable[FindingRow],
        *,
        open_only: bool,
    ) -> AsyncIterator[Sequence[FindingRow]]:
        """Yield the ledger's pages with what the pass found in place of what is recorded of it."""
        waiting = deque(sorted(found, key=_AGE))
        async for page in pages:
            merged: list[FindingRow] = []
            for row in page:
                while waiting and _AGE(waiting[0]) < _AGE(row):
                    merged.append(waiting.popleft())
                if row["id"] in self._found or (open_only and row["id"] in self._cleared):
                    continue
                merged.append(self._closed(row) if row["id"] in self._cleared else row)
            yield merged
        yield list(waiting)

    def _closed(self, row: findings.Record) -> FindingRow:
        resolution = self._cleared[row["id"]]
        return dict(row) | {
            "closed_at": self._as_of,
            "resolution": resolution,
            "reason": "cleared",
        }


def _evidence(found: findings.FindingRecord) -> dict[str, Any]:
    """Return what finding it again replaces."""
    return {
        "severity": found.severity,
        "sentence": found.sentence,
        "expected": orjson.loads(found.expected),
        "actual": orjson.loads(found.actual),
        "terms": None if found.terms is None else orjson.loads(found.terms),
    }
