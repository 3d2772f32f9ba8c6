"""What passes record in the ledger."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import final

import orjson

from dueledger.ledger.finding_types import Resolution
from dueledger.ledger.store import Connection, findings, passes, past_load
from dueledger.ledger.store.past_load import PastLoadCount, PastQuarter
from dueledger.ledger.store.witnessed import WitnessedVersion, list_witnessed, record_witnessed
from dueledger.ledger.witness import WitnessedTimes
from dueledger.reconciler.expect.versions import DefinitionSpan
from dueledger.reconciler.finding_row import FindingRow
from dueledger.reconciler.pass_record import PassRecord
from dueledger.reconciler.pass_result import PassScope
from dueledger.reconciler.read.finding_pages import findings_of_period, open_findings
from dueledger.reconciler.report_period import ReportPeriod
from dueledger.reconciler.windows import DateRange


@final
class LedgerRecord(PassRecord):
    """Records passes in the ledger, in the name of an actor.

    Before it begins one, its pass is the one of that number; 0 means all of them.
    """

    def __init__(self, actor_no: int, reconciliation_no: int = 0) -> None:
        self._actor_no = actor_no
        self._reconciliation_no = reconciliation_no

    async def begin(self, connection: Connection, scope: PassScope) -> passes.PassStart:
        """Open the record of the next pass."""
        dates = {"from_date": scope.from_date, "to_date": scope.to_date}
        start = await passes.read_pass_start(connection)
        self._reconciliation_no = await passes.begin_reconciliation(
            connection, start, actor_no=self._actor_no, scope=orjson.dumps(dates).decode()
        )
        return replace(start, reconciliation_no=self._reconciliation_no)

    async def list_witnessed(self, connection: Connection) -> list[WitnessedVersion]:
        """List what the witness said about versions."""
        return await list_witnessed(connection)

    async def record_witnessed(
        self, connection: Connection, witnessed: Sequence[tuple[DefinitionSpan, WitnessedTimes]]
    ) -> None:
        """Record what the witness said now."""
        await record_witnessed(
            connection,
            [
                ((version.definition.tenant, version.name, version.number), times)
                for version, times in witnessed
            ],
        )

    async def record_findings(
        self, connection: Connection, found: Sequence[findings.FindingRecord]
    ) -> int:
        """Record findings, each id once; return how many are new."""
        recorded = await findings.record_findings(connection, self._reconciliation_no, found)
        return sum(each.created for each in recorded)

    async def close_findings(
        self, connection: Connection, checked: findings.CheckedFindings
    ) -> Counter[Resolution]:
        """Close open findings that the pass checked and did not record; count the resolutions."""
        number = self._reconciliation_no
        cleared = await findings.list_cleared_findings(connection, number, checked)
        return Counter(map(Resolution, await findings.close_findings(connection, number, cleared)))

    async def record_watermarks(
        self,
        connection: Connection,
        watermarks: Sequence[passes.WatermarkRecord],
        as_of: datetime,
    ) -> None:
        """Record how far each kind is complete."""
        await passes.record_watermarks(connection, watermarks, as_of)

    async def record_past_load(
        self, connection: Connection, window: DateRange, quarters: Sequence[PastQuarter]
    ) -> None:
        """Record the results of the items of a window of dates, in place of what is recorded."""
        await past_load.record_past_load(connection, window.from_date, window.to_date, quarters)

    async def note_past_load(self, connection: Connection, count: PastLoadCount) -> None:
        """Record of which time the past load is counted, and forget what was due before it."""
        await past_load.note_past_load(connection, count)
        await past_load.forget_past_load(connection, count.counted_from)

    async def record_populations(
        self, connection: Connection, populations: Sequence[passes.PopulationRecord]
    ) -> None:
        """Record how each source was read."""
        await passes.record_populations(connection, self._reconciliation_no, populations)

    async def finish(
        self, connection: Connection, counts: str, *, witness_credit_seconds: float
    ) -> None:
        """Close the record of the pass."""
        await passes.finish_reconciliation(
            connection,
            self._reconciliation_no,
            counts,
            witness_credit_seconds=witness_credit_seconds,
        )

    def has_found(self, finding: FindingRow) -> bool:
        """Return whether the pass, or one after it, found it."""
        return (finding["reconciliation_no"] or 0) >= self._reconciliation_no

    def list_open(self, connection: Connection) -> AsyncIterator[Sequence[FindingRow]]:
        """Yield the open findings, oldest first, by page."""
        return open_findings(connection)

    def list_of_period(
        self, connection: Connection, period: ReportPeriod
    ) -> AsyncIterator[Sequence[FindingRow]]:
        """Yield the findings of a period and of the pass, oldest first, by page."""
        return findings_of_period(connection, period, self._reconciliation_no)
