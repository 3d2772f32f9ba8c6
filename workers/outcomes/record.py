"""Records reported outcomes: a part of a poll is one transaction with few statements."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from dueledger.ledger.errors import Conflict, InvalidInput, InvalidOutcome, Problem
from dueledger.ledger.kafka.envelope import OUTCOME_TOPIC
from dueledger.ledger.kafka.rejects import ConsumedRecord
from dueledger.ledger.kafka.topic_intake import BatchRecorder, IntakeResult
from dueledger.ledger.runtime.service import crash_point
from dueledger.ledger.store import Connection, Pool
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.reported_outcomes import (
    NO_CLAIM,
    ReportedPlace,
    clear_silent_topics,
    find_outcome_targets,
    lock_topic_runs,
    record_refused_outcomes,
    start_topic_runs,
)
from dueledger.ledger.store.runs import extend_leases, settle_runs
from dueledger.workers.outcomes.decide import OutcomeDecisions, OutcomeRecord, decide_outcomes
from dueledger.workers.outcomes.parse import parse_outcome

BYTES_MAX: Final = 8 * 1024 * 1024
SLOTS_MAX: Final = 200_000
"""Entries of settlements in one transaction, one for each item of a run: they are in memory."""


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
        return OutcomeRecord(record, parse_outcome(record.headers, record.value), named)

    def refusal_of(self, error: InvalidInput) -> InvalidOutcome:
        """Return the reason why an outcome is rejected: Postgres refused its evidence."""
        problem = Problem("evidence", "", str(error))
        return InvalidOutcome("The outcome cannot be recorded.", [problem])

    async def record_together(self, batch: Sequence[OutcomeRecord]) -> OutcomeIntakeResult | None:
        """Settle outcomes; return None if their evidence or their runs are too large for one."""
        size_bytes = sum(len(each.reported.detail or "") for each in batch)
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
            rejected=decisions.rejected,
        )

    async def _settle(self, batch: Sequence[OutcomeRecord]) -> OutcomeDecisions | None:
        """Decide and write in one transaction; write nothing if its runs are too large."""
        places = [
            ReportedPlace(
                each.reported.claim_id or NO_CLAIM,
                each.reported.position,
                each.reported.item,
                each.outcome_topic,
            )
            for each in batch
        ]
        async with self._pool.acquire() as connection, connection.transaction():
            await start_topic_runs(connection, places)
            await lock_topic_runs(connection, places)
            targets = await find_outcome_targets(connection, places)
            decisions = decide_outcomes(batch, targets, await read_now(connection), self._actor_no)
            if decisions.slots > SLOTS_MAX and len(batch) > 1:
                return None
            await _write(connection, decisions)
            crash_point("outcomes.settled")
        return decisions


async def _write(connection: Connection, decisions: OutcomeDecisions) -> None:
    """Write the decisions. The runs are locked, so no settlement can be refused.

    Leases are extended after settling: most runs of a few items are closed by then.
    """
    for topic_actor_no in sorted(decisions.runs):
        refused = await settle_runs(
            connection, decisions.settlements(topic_actor_no), topic_actor_no
        )
        if refused:
            raise Conflict(f"run {refused[0].run_no} was open and is now {refused[0].reason}")
    for (topic_actor_no, lease_seconds), runs in sorted(decisions.extended.items()):
        await extend_leases(connection, sorted(runs), topic_actor_no, lease_seconds)
    if decisions.extended:
        await clear_silent_topics(
            connection, sorted({topic_actor_no for topic_actor_no, _ in decisions.extended})
        )
    if decisions.refused:
        await record_refused_outcomes(connection, decisions.refused)
