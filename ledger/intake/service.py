"""Domain events from Kafka into the ledger, a poll at a time.

A poll is one transaction. Kafka's offsets move last: after the ledger's commit, and after what was
rejected is acknowledged in the reject topic. Whatever dies in between is taken in again and is
known by then.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias, cast

import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

from ledger.envelope import rejected_headers
from ledger.errors import InvalidInput
from ledger.intake.batch import Taken, take_batch
from ledger.intake.cloudevents import is_structured, parse_event
from ledger.intake.rulebook import Rulebook
from ledger.intake.settings import IntakeSettings
from ledger.intake.stories import Read, read_event
from ledger.log import LogEvent, get_logger
from ledger.rules import DomainEvent
from ledger.service import crash_point
from ledger.store import Connection, Pool
from ledger.store.definitions import list_event_rules, read_rules_edition
from ledger.store.partitions import make_event_months

REJECT_SECONDS_MAX: Final = 30.0

Record: TypeAlias = ConsumerRecord


class Arrival(NamedTuple):
    """A record that is an event; `body` is the JSON text of its data."""

    record: Record
    event: DomainEvent
    body: str


class Rejected(NamedTuple):
    """A record that cannot be taken in, and why."""

    record: Record
    error: InvalidInput


@dataclass(slots=True)
class Pass:
    """What became of the records of one poll."""

    taken: Taken = field(default_factory=Taken)
    rejected: list[Rejected] = field(default_factory=list[Rejected])


class Intake:
    """Takes in what one consumer polls. The consumer's offsets are this object's to commit."""

    def __init__(
        self,
        pool: Pool,
        consumer: AIOKafkaConsumer,
        producer: AIOKafkaProducer,
        *,
        settings: IntakeSettings,
        actor_no: int,
    ) -> None:
        self._pool = pool
        self._consumer = consumer
        self._producer = producer
        self._settings = settings
        self._actor_no = actor_no
        self._rulebook = Rulebook((0, None), [])
        self._log = get_logger("intake")

    async def tick(self) -> Mapping[str, int]:
        """Take in one poll's events, at most a batch of them; return counts."""
        polled: dict[TopicPartition, list[Record]] = await self._consumer.getmany(
            timeout_ms=int(self._settings.intake_poll_seconds * 1000),
            max_records=self._settings.intake_batch_events,
        )
        if not polled:
            return {"events": 0}
        crash_point("intake.received")
        with ExitStack() as undo:
            undo.callback(self._rewind, polled)
            done = await self.take([record for records in polled.values() for record in records])
            await self._reject(done.rejected)
            undo.pop_all()
        crash_point("intake.recorded")
        await self._commit(polled)
        return self._counts(done)

    async def take(self, records: Sequence[Record]) -> Pass:
        """Apply records to the ledger; what is rejected is returned, not yet sent anywhere."""
        arrivals: list[Arrival] = []
        rejected: list[Rejected] = []
        for record in records:
            try:
                arrivals.append(_arrival(record))
            except InvalidInput as error:
                rejected.append(Rejected(record, error))
        done = await self._take(arrivals)
        done.rejected = sorted(
            rejected + done.rejected, key=lambda one: (one.record.partition, one.record.offset)
        )
        return done

    async def _take(self, arrivals: Sequence[Arrival]) -> Pass:
        """Apply a batch; one that the database refuses is halved until the culprit stands alone."""
        if not arrivals:
            return Pass()
        months = {arrival.event.time.date().replace(day=1) for arrival in arrivals}
        try:
            async with self._pool.acquire() as connection:
                # Committed before the keys are locked: months have a lock that others hold who
                # wait for a key.
                await make_event_months(connection, sorted(months))
                async with connection.transaction():
                    return await self._take_together(connection, arrivals)
        except InvalidInput as error:
            if len(arrivals) == 1:
                return Pass(rejected=[Rejected(arrivals[0].record, error)])
        half = len(arrivals) // 2
        first, second = await self._take(arrivals[:half]), await self._take(arrivals[half:])
        return Pass(first.taken + second.taken, first.rejected + second.rejected)

    async def _take_together(self, connection: Connection, arrivals: Sequence[Arrival]) -> Pass:
        rulebook = await self._current_rulebook(connection)
        reads: list[Read] = []
        rejected: list[Rejected] = []
        for record, event, body in arrivals:
            try:
                reads.append(read_event(rulebook, event, body))
            except InvalidInput as error:
                rejected.append(Rejected(record, error))
        if not reads:
            return Pass(rejected=rejected)
        taken = await take_batch(connection, rulebook, reads, actor_no=self._actor_no)
        return Pass(taken, rejected)

    async def _current_rulebook(self, connection: Connection) -> Rulebook:
        """Return the rules in force, read again where another edition has come into force."""
        edition = await read_rules_edition(connection)
        if edition != self._rulebook.edition:
            self._rulebook = Rulebook(edition, await list_event_rules(connection))
            for rule in self._rulebook.refused:
                self._log.warning(
                    LogEvent.DEFINITION_FAILED,
                    definition_no=rule.definition_no,
                    reason=rule.reason,
                )
        return self._rulebook

    async def _reject(self, rejected: Sequence[Rejected]) -> None:
        """Send poison to the reject topic, unchanged, and wait until it is acknowledged there."""
        if not rejected:
            return
        async with asyncio.timeout(REJECT_SECONDS_MAX):
            sent = [
                await self._producer.send(
                    self._settings.rejected_topic,
                    key=record.key,
                    value=record.value,
                    headers=_reasons(record, error),
                )
                for record, error in rejected
            ]
            await asyncio.gather(*sent)
        self._log.warning(
            LogEvent.EVENT_REJECTED,
            count=len(rejected),
            first=f"{rejected[0].record.partition}/{rejected[0].record.offset}",
            reason=str(rejected[0].error),
        )

    def _rewind(self, polled: Mapping[TopicPartition, Sequence[Record]]) -> None:
        """Read again what was polled and not settled; a partition lost meanwhile is another's."""
        assigned = self._consumer.assignment()
        for partition, records in polled.items():
            if partition in assigned:
                self._consumer.seek(partition, records[0].offset)

    async def _commit(self, polled: Mapping[TopicPartition, Sequence[Record]]) -> None:
        """Move the offsets. Where that fails the events come again, and are known by then."""
        assigned = self._consumer.assignment()
        offsets = {
            partition: records[-1].offset + 1
            for partition, records in polled.items()
            if partition in assigned
        }
        if not offsets:
            return
        try:
            await self._consumer.commit(offsets)
        except KafkaError as error:
            self._log.warning(LogEvent.OFFSET_UNCOMMITTED, error=type(error).__name__)

    def _counts(self, done: Pass) -> dict[str, int]:
        taken = done.taken
        counts = {
            "events": taken.events,
            "duplicates": taken.duplicates,
            "unmatched": taken.unmatched,
            "emitted": taken.emitted,
            "withdrawn": taken.withdrawn,
            "rejected": len(done.rejected),
        }
        self._log.info(LogEvent.BATCH_TAKEN, **counts)
        return counts


def _arrival(record: Record) -> Arrival:
    event = parse_event(record.headers, record.value)
    if is_structured(record.headers):
        return Arrival(record, event, orjson.dumps(event.data).decode())
    return Arrival(record, event, (record.value or b"null").decode())


def _reasons(record: Record, error: InvalidInput) -> list[tuple[str, bytes]]:
    """Return the record's own headers and why; the stubs do not know that a value may be null."""
    told = rejected_headers(
        record.headers,
        code=error.code,
        field=error.problems[0].field if error.problems else _field(error.fields),
        reason=str(error),
        origin=(record.topic, record.partition, record.offset),
    )
    return cast("list[tuple[str, bytes]]", told)


def _field(fields: Mapping[str, Any]) -> str | None:
    named = fields.get("field")
    return None if named is None else str(named)
