"""Reported outcomes from Kafka, a poll at a time.

Kafka's offsets are committed last: after the ledger's commit, and after Kafka has acknowledged the
rejected records. If the process dies in between, the poll is read again, as duplicates.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import final

from dueledger.ledger.kafka.topic_reader import TopicReader
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import crash_point
from dueledger.workers.outcomes.record import OutcomeIntakeResult, OutcomeRecorder


@final
class OutcomeIntake:
    """Takes in the outcomes that one reader polls."""

    def __init__(self, settler: OutcomeRecorder, reader: TopicReader) -> None:
        self._settler = settler
        self._reader = reader
        self._log = get_logger("outcomes")

    async def tick(self) -> Mapping[str, int]:
        """Take in one poll's outcomes; return counts."""
        polled = await self._reader.poll()
        if not polled:
            return OutcomeIntakeResult().counts()
        crash_point("outcomes.received")
        with ExitStack() as undo:
            undo.callback(self._reader.rewind, polled)
            done = OutcomeIntakeResult()
            for part in self._reader.parts(polled):
                done += await self._settler.record(part)
            if done.rejected:
                await self._reader.reject(done.rejected)
            undo.pop_all()
        crash_point("outcomes.recorded")
        await self._reader.commit(polled)
        self._log_result(done)
        return done.counts()

    def _log_result(self, done: OutcomeIntakeResult) -> None:
        self._log.info(LogEvent.BATCH_RECORDED, **done.counts())
        if done.rejected:
            (record, error), *_ = done.rejected
            self._log.warning(
                LogEvent.RECORD_REJECTED,
                count=len(done.rejected),
                first=f"{record.partition}/{record.offset}",
                reason=str(error),
            )
