"""Records reported outcomes: a part of a poll is one transaction with few statements."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final, NamedTuple, final

from dueledger.ledger.errors import InvalidInput, InvalidOutcome, Problem
from dueledger.ledger.kafka.envelope import OUTCOME_TOPIC
from dueledger.ledger.kafka.rejects import ConsumedRecord, RejectedRecord
from dueledger.ledger.kafka.topic_intake import BatchRecorder, IntakeResult
from dueledger.ledger.runtime.service import crash_point
from dueledger.ledger.store import Pool
from dueledger.workers.outcomes.decide import OutcomeDecisions, OutcomeReport
from dueledger.workers.outcomes.observe import observe_ends
from dueledger.workers.outcomes.parse import parse_outcome
from dueledger.workers.outcomes.settle import settle_reports

BYTES_MAX: Final = 8 * 1024 * 1024


class OutcomeRecord(NamedTuple):
    """A record that contains a reported outcome."""

    record: ConsumedRecord
    report: OutcomeReport


@final
@dataclass(slots=True, kw_only=True)
class OutcomeIntakeResult(IntakeResult):
    """Counts of reported outcomes by result; one that is rejected may be refused as well."""

    settled: int = 0
    heartbeats: int = 0
    duplicates: int = 0
    refused: int = 0


@final
class OutcomeRecorder(BatchRecorder[OutcomeRecord, OutcomeIntakeResult]):
    """Settles reported outcomes. Refusals with an unknown fence are recorded under `actor_no`.

    `outcome_topic` is for the kinds whose definition names no topic for outcomes.
    """

    def __init__(self, pool: Pool, *, actor_no: int, outcome_topic: str = OUTCOME_TOPIC) -> None:
        super().__init__(OutcomeIntakeResult)
        self._pool = pool
        self._actor_no = actor_no
        self._outcome_topic = outcome_topic

    def parse(self, record: ConsumedRecord) -> OutcomeRecord:
        """Parse a reported outcome. Raises InvalidOutcome."""
        named = None if record.topic == self._outcome_topic else record.topic
        reported = parse_outcome(record.headers, record.value)
        origin = f"{record.topic}/{record.partition}/{record.offset}"
        return OutcomeRecord(record, OutcomeReport(reported, origin, named))

    def refusal_of(self, error: InvalidInput) -> InvalidOutcome:
        """Return the reason why an outcome is rejected: Postgres refused its evidence."""
        problem = Problem("evidence", "", str(error))
        return InvalidOutcome("The outcome cannot be recorded.", [problem])

    async def record_together(self, batch: Sequence[OutcomeRecord]) -> OutcomeIntakeResult | None:
        """Settle outcomes; return None if their evidence or their runs are too large for one."""
        size_bytes = sum(len(each.report.reported.detail or "") for each in batch)
        if size_bytes > BYTES_MAX and len(batch) > 1:
            return None
        decisions = await self._settle(batch)
        if decisions is None:
            return None
        return OutcomeIntakeResult(
            settled=decisions.settled,
            heartbeats=decisions.heartbeats,
            duplicates=decisions.duplicates,
            refused=len(decisions.refused),
            rejected=[
                RejectedRecord(batch[place].record, error)
                for place, error in decisions.faults.items()
            ],
        )

    async def _settle(self, batch: Sequence[OutcomeRecord]) -> OutcomeDecisions | None:
        """Decide and write in one transaction; write nothing if its runs are too large."""
        reports, began_at = [each.report for each in batch], monotonic()
        async with self._pool.acquire() as connection, connection.transaction():
            decisions = await settle_reports(connection, reports, self._actor_no)
            crash_point("outcomes.settled")
        if decisions is not None:
            observe_ends(decisions, began_at)
        return decisions
