"""Records reported outcomes: a part of a poll is one transaction with few statements."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, final

from dueledger.ledger.errors import Conflict, InvalidInput, InvalidOutcome, Problem
from dueledger.ledger.kafka.rejects import ConsumedRecord, RejectedRecord
from dueledger.ledger.runtime.service import crash_point
from dueledger.ledger.store import Connection, Pool
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.reported_outcomes import (
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
"""A settlement has a place for each item of its run: what one transaction holds in memory."""


@final
@dataclass(slots=True)
class OutcomeIntakeResult:
    """The results of one poll. All but `rejected` count outcomes."""

    settled: int = 0
    heartbeats: int = 0
    duplicates: int = 0
    refused: int = 0
    rejected: list[RejectedRecord] = field(default_factory=list[RejectedRecord])

    def counts(self) -> dict[str, int]:
        """Return how many records became what; one that is rejected may be refused as well."""
        return {
            "settled": self.settled,
            "heartbeats": self.heartbeats,
            "duplicates": self.duplicates,
            "refused": self.refused,
            "rejected": len(self.rejected),
        }

    def __add__(self, other: "OutcomeIntakeResult") -> "OutcomeIntakeResult":
        """Add up two parts."""
        return OutcomeIntakeResult(
            self.settled + other.settled,
            self.heartbeats + other.heartbeats,
            self.duplicates + other.duplicates,
            self.refused + other.refused,
            self.rejected + other.rejected,
        )

    def add(self, judgement: OutcomeDecisions) -> None:
        """Count what was written."""
        self.settled += judgement.settled
        self.heartbeats += judgement.heartbeats
        self.duplicates += judgement.duplicates
        self.refused += len(judgement.refused)
        self.rejected += judgement.rejected


@final
class OutcomeRecorder:
    """Settles reported outcomes. Refusals with an unknown fence are recorded under `actor_no`."""

    def __init__(self, pool: Pool, *, actor_no: int) -> None:
        self._pool = pool
        self._actor_no = actor_no

    async def record(self, records: Sequence[ConsumedRecord]) -> OutcomeIntakeResult:
        """Settle the outcomes of records; return the rejected ones, which are not sent yet."""
        done = OutcomeIntakeResult()
        arrivals: list[OutcomeRecord] = []
        for record in records:
            try:
                record.raise_if_unreadable()
                arrivals.append(OutcomeRecord(record, parse_outcome(record.headers, record.value)))
            except InvalidInput as error:
                done.rejected.append(RejectedRecord(record, error))
        for part in _parts(arrivals):
            await self._take(part, done)
        done.rejected.sort(key=lambda one: (one.record.partition, one.record.offset))
        return done

    async def _take(self, arrivals: Sequence[OutcomeRecord], done: OutcomeIntakeResult) -> None:
        """Settle a part; one that is too much at once, or that Postgres refuses, is halved."""
        try:
            judgement = await self._settle(arrivals)
        except InvalidInput as error:
            judgement = None
            if len(arrivals) == 1:
                problem = Problem("evidence", "", str(error))
                refusal = InvalidOutcome("The outcome cannot be recorded.", [problem])
                done.rejected.append(RejectedRecord(arrivals[0].record, refusal))
                return
        if judgement is not None:
            done.add(judgement)
            return
        half = len(arrivals) // 2
        await self._take(arrivals[:half], done)
        await self._take(arrivals[half:], done)

    async def _settle(self, arrivals: Sequence[OutcomeRecord]) -> OutcomeDecisions | None:
        """Decide and write in one transaction; write nothing if its runs are too large."""
        fences = [arrival.report.fence for arrival in arrivals]
        positions = [arrival.report.position for arrival in arrivals]
        items = [arrival.report.item for arrival in arrivals]
        async with self._pool.acquire() as connection, connection.transaction():
            await start_topic_runs(connection, fences, positions, items)
            await lock_topic_runs(connection, sorted(set(fences)))
            found = await find_outcome_targets(connection, fences, positions, items)
            judgement = decide_outcomes(arrivals, found, await read_now(connection), self._actor_no)
            if judgement.slots > SLOTS_MAX and len(arrivals) > 1:
                return None
            await _write(connection, judgement)
            crash_point("outcomes.settled")
        return judgement


async def _write(connection: Connection, judgement: OutcomeDecisions) -> None:
    """Write the decisions. The runs are locked, so that none can be refused any more.

    Leases are extended after settling: most runs of a few items are closed by then.
    """
    for holder_no in sorted(judgement.runs):
        refused = await settle_runs(connection, judgement.settlements(holder_no), holder_no)
        if refused:
            raise Conflict(f"run {refused[0].run_no}, which was open, is {refused[0].reason}")
    for (holder_no, lease_seconds), run_nos in sorted(judgement.extended.items()):
        await extend_leases(connection, sorted(run_nos), holder_no, lease_seconds)
    if judgement.extended:
        await clear_silent_topics(
            connection, sorted({holder_no for holder_no, _ in judgement.extended})
        )
    if judgement.refused:
        await record_refused_outcomes(connection, judgement.refused)


def _parts(arrivals: Sequence[OutcomeRecord]) -> Iterator[list[OutcomeRecord]]:
    """Cut a poll where its evidence would be too much for one statement."""
    part: list[OutcomeRecord] = []
    size = 0
    for arrival in arrivals:
        own = len(arrival.report.detail or "")
        if part and size + own > BYTES_MAX:
            yield part
            part, size = [], 0
        part.append(arrival)
        size += own
    if part:
        yield part
