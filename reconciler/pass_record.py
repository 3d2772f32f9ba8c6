"""What a pass records, and what it asks of earlier ones: the interface, without a ledger."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Protocol

from dueledger.ledger.finding_types import Resolution
from dueledger.ledger.store import Connection
from dueledger.ledger.store.findings import CheckedFindings, FindingRecord
from dueledger.ledger.store.passes import PassStart, PopulationRecord, WatermarkRecord
from dueledger.ledger.store.past_load import PastLoadCount, PastQuarter
from dueledger.ledger.store.witnessed import WitnessedVersion
from dueledger.ledger.witness import WitnessedTimes
from dueledger.reconciler.expect.versions import DefinitionSpan
from dueledger.reconciler.finding_row import FindingRow
from dueledger.reconciler.pass_result import PassScope
from dueledger.reconciler.report_period import ReportPeriod
from dueledger.reconciler.windows import DateRange


class PassRecord(Protocol):
    """Records passes, one after another, and knows the findings as the last one left them."""

    async def begin(self, connection: Connection, scope: PassScope) -> PassStart:
        """Begin the next pass."""
        ...

    async def list_witnessed(self, connection: Connection) -> list[WitnessedVersion]:
        """List what the witness said about versions."""
        ...

    async def record_witnessed(
        self, connection: Connection, witnessed: Sequence[tuple[DefinitionSpan, WitnessedTimes]]
    ) -> None:
        """Record what the witness said now."""
        ...

    async def record_findings(self, connection: Connection, found: Sequence[FindingRecord]) -> int:
        """Record findings, each id once; return how many are new."""
        ...

    async def close_findings(
        self, connection: Connection, checked: CheckedFindings
    ) -> Counter[Resolution]:
        """Close open findings that the pass checked and did not record; count the resolutions."""
        ...

    async def record_watermarks(
        self, connection: Connection, watermarks: Sequence[WatermarkRecord], as_of: datetime
    ) -> None:
        """Record how far each kind is complete, as the pass found that began at `as_of`."""
        ...

    async def record_past_load(
        self, connection: Connection, window: DateRange, quarters: Sequence[PastQuarter]
    ) -> None:
        """Record the results of the items of a window of dates, in place of what is recorded."""
        ...

    async def note_past_load(self, connection: Connection, count: PastLoadCount) -> None:
        """Record of which time a pass over the whole ledger has counted the past load."""
        ...

    async def record_populations(
        self, connection: Connection, populations: Sequence[PopulationRecord]
    ) -> None:
        """Record how each source was read."""
        ...

    async def finish(
        self, connection: Connection, counts: str, *, witness_credit_seconds: float
    ) -> None:
        """End the pass; `counts` is JSON text."""
        ...

    def has_found(self, finding: FindingRow) -> bool:
        """Return whether the pass found it: what the pass did not judge may hold no more."""
        ...

    def list_open(self, connection: Connection) -> AsyncIterator[Sequence[FindingRow]]:
        """Yield the open findings, oldest first, by page."""
        ...

    def list_of_period(
        self, connection: Connection, period: ReportPeriod
    ) -> AsyncIterator[Sequence[FindingRow]]:
        """Yield the findings of a period and of the pass, oldest first, by page."""
        ...
