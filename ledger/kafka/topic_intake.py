"""An intake: records one topic in the ledger, one poll at a time.

Kafka's offsets are committed last: after the ledger's commit, and after Kafka has acknowledged the
rejected records. If the process dies in between, the poll is read again, as duplicates.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from typing import Any, Generic, Protocol, Self, TypeVar, final

from dueledger.ledger.errors import InvalidInput
from dueledger.ledger.kafka.rejects import ConsumedRecord, RejectedRecord
from dueledger.ledger.kafka.topic_reader import TopicReader
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import crash_point

ResultT = TypeVar("ResultT", bound="IntakeResult")


@dataclass(slots=True, kw_only=True)
class IntakeResult:
    """The results of some records: a derived class counts them; the rejected ones are here."""

    rejected: list[RejectedRecord] = field(default_factory=list[RejectedRecord])

    def __add__(self, other: Self) -> Self:
        """Add up two parts."""
        names = [each.name for each in fields(self)]
        return type(self)(**{name: getattr(self, name) + getattr(other, name) for name in names})

    def counts(self) -> dict[str, int]:
        """Return all counts by name."""
        counted = [each.name for each in fields(self) if each.name != "rejected"]
        return {name: getattr(self, name) for name in counted} | {"rejected": len(self.rejected)}


class ParsedRecord(Protocol):
    """A parsed record, with the record as it was polled."""

    @property
    def record(self) -> ConsumedRecord:
        """The polled record."""
        ...


ParsedT = TypeVar("ParsedT", bound=ParsedRecord)


class BatchRecorder(ABC, Generic[ParsedT, ResultT]):
    """Records batches in the ledger. Repeating a record changes nothing."""

    def __init__(self, result_type: type[ResultT]) -> None:
        self.result_type = result_type

    @abstractmethod
    def parse(self, record: ConsumedRecord) -> ParsedT:
        """Parse a readable record. Raises InvalidInput."""

    @abstractmethod
    async def record_together(self, batch: Sequence[ParsedT]) -> ResultT | None:
        """Record a batch in one transaction; return None if it is too large for one.

        Raises InvalidInput if Postgres refuses it.
        """

    def refusal_of(self, error: InvalidInput) -> InvalidInput:
        """Return the reason why a record is rejected that Postgres refused."""
        return error

    async def record(self, records: Sequence[ConsumedRecord]) -> ResultT:
        """Record the readable records; return the rejected ones, which are not sent yet."""
        result = self.result_type()
        batch: list[ParsedT] = []
        last: RejectedRecord | None = None
        for record in records:
            if last is not None and record.is_copy_of(last.record):
                result.rejected.append(RejectedRecord(record, last.error))
                continue
            try:
                record.raise_if_unreadable()
                batch.append(self.parse(record))
            except InvalidInput as error:
                last = RejectedRecord(record, error)
                result.rejected.append(last)
        if batch:
            result += await self._record_or_halve(batch)
        result.rejected.sort(key=lambda one: (one.record.partition, one.record.offset))
        return result

    async def _record_or_halve(self, batch: Sequence[ParsedT]) -> ResultT:
        """Record a batch; a refused one is halved until the refused record is alone."""
        try:
            result = await self.record_together(batch)
        except InvalidInput as error:
            result = None
            if len(batch) == 1:
                refused = RejectedRecord(batch[0].record, self.refusal_of(error))
                return self.result_type(rejected=[refused])
        if result is not None:
            return result
        half = len(batch) // 2
        first = await self._record_or_halve(batch[:half])
        return first + await self._record_or_halve(batch[half:])


@final
class TopicIntake:
    """Records what one reader polls. `name` is the name of its logger and its crash points."""

    def __init__(
        self,
        name: str,
        reader: TopicReader,
        recorder: BatchRecorder[Any, Any],
        *,
        rejected_event: LogEvent,
    ) -> None:
        self._name = name
        self._reader = reader
        self._recorder = recorder
        self._rejected_event = rejected_event
        self._log = get_logger(name)

    async def tick(self) -> Mapping[str, int]:
        """Record one poll; return the counts."""
        polled = await self._reader.poll()
        if not polled:
            return self._recorder.result_type().counts()
        crash_point(f"{self._name}.received")
        with ExitStack() as undo:
            undo.callback(self._reader.rewind, polled)
            records = [record for partition in polled.values() for record in partition]
            result = await self._recorder.record(records)
            if result.rejected:
                await self._reader.reject(result.rejected)
                (record, error), *_ = result.rejected
                self._log.warning(
                    self._rejected_event,
                    count=len(result.rejected),
                    first=f"{record.partition}/{record.offset}",
                    reason=str(error),
                )
            undo.pop_all()
        crash_point(f"{self._name}.recorded")
        await self._reader.commit(polled)
        self._log.info(LogEvent.BATCH_RECORDED, **result.counts())
        return result.counts()
