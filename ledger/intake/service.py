"""Domain events from Kafka into the ledger, a poll at a time.

A poll is one transaction. Kafka's offsets move last: after the ledger's commit, and after what was
rejected is acknowledged in the reject topic. Whatever dies in between is taken in again and is
known by then.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from ledger.errors import InvalidEvent, InvalidInput, Problem
from ledger.intake.batch import Taken, take_batch
from ledger.intake.cloudevents import is_structured, parse_event
from ledger.intake.reject import Record, Rejected, send_rejected
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
OFFSET_SECONDS_MAX: Final = 10.0
"""Kafka's client asks a broker that is gone for offsets without end, deaf to a stop."""


class Arrival(NamedTuple):
    """A record that is an event; `body` is the JSON text of its data."""

    record: Record
    event: DomainEvent
    body: str


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
        self._positions_right = True
        self._alone: list[TopicPartition] = []
        self._log = get_logger("intake")

    async def tick(self) -> Mapping[str, int]:
        """Take in one poll's events, at most a batch of them; return counts."""
        polled = await self._poll()
        if not polled:
            return _counts(Pass())
        crash_point("intake.received")
        with ExitStack() as undo:
            undo.callback(self._rewind, polled)
            done = await self.take([record for records in polled.values() for record in records])
            await self._reject(done.rejected)
            undo.pop_all()
        crash_point("intake.recorded")
        await self._commit(polled)
        counts = _counts(done)
        self._log.info(LogEvent.BATCH_TAKEN, **counts)
        return counts

    async def _poll(self) -> dict[TopicPartition, list[Record]]:
        """Poll all partitions, or after a failure each alone, so that it holds up only its own.

        A poll that raises over one partition has moved past what it read of the others.
        """
        if not self._positions_right:
            async with asyncio.timeout(OFFSET_SECONDS_MAX):
                await self._seek_committed()
            self._alone = sorted(self._consumer.assignment())
        only = [self._alone.pop()] if self._alone else []
        self._positions_right = bool(only)
        polled = await self._consumer.getmany(
            *only,
            timeout_ms=int(self._settings.intake_poll_seconds * 1000),
            max_records=self._settings.intake_batch_events,
        )
        self._positions_right = True
        return polled

    async def _seek_committed(self) -> None:
        for partition in self._consumer.assignment():
            offset = await self._consumer.committed(partition)
            if offset is None:
                await self._consumer.seek_to_beginning(partition)
            else:
                self._consumer.seek(partition, offset)

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
            await send_rejected(self._producer, self._settings.rejected_topic, rejected)
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
            async with asyncio.timeout(OFFSET_SECONDS_MAX):
                await self._consumer.commit(offsets)
        except (KafkaError, TimeoutError) as error:
            self._log.warning(LogEvent.OFFSET_UNCOMMITTED, error=type(error).__name__)


def _counts(done: Pass) -> dict[str, int]:
    taken = done.taken
    return {
        "events": taken.events,
        "duplicates": taken.duplicates,
        "unmatched": taken.unmatched,
        "emitted": taken.emitted,
        "withdrawn": taken.withdrawn,
        "rejected": len(done.rejected),
    }


def _arrival(record: Record) -> Arrival:
    event = parse_event(record.headers, record.value)
    if not is_structured(record.headers):
        return Arrival(record, event, (record.value or b"null").decode())
    try:
        body = orjson.dumps(event.data).decode()
    except orjson.JSONEncodeError as error:  # it writes 254 levels, and reads 1,024
        raise InvalidEvent(
            "The event cannot be read.", [Problem("data", "", f"cannot be stored: {error}")]
        ) from None
    return Arrival(record, event, body)
