"""Domain events from Kafka into the ledger, a poll at a time.

A poll is one transaction, or a few where its record batches are large. Kafka's offsets move last:
after the ledger's commit, and after what was rejected is acknowledged in the reject topic. Whatever
dies in between is taken in again and is known by then.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from dueledger.ledger.errors import InvalidEvent, InvalidInput, Problem
from dueledger.ledger.intake.apply.events_by_subject import InterpretedEvent, interpret_event
from dueledger.ledger.intake.apply.rules_in_force import RulesInForce
from dueledger.ledger.intake.parse import is_structured, parse_event
from dueledger.ledger.intake.record import AppliedEvents, record_batch
from dueledger.ledger.kafka.rejects import ConsumedRecord, RejectedRecord
from dueledger.ledger.kafka.topic_reader import TopicReader
from dueledger.ledger.rules.event_rules import DomainEvent
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import crash_point
from dueledger.ledger.store import Connection, Pool
from dueledger.ledger.store.calendar_cache import CalendarCache, calendar_name_of
from dueledger.ledger.store.definitions import list_event_rules, read_rules_edition
from dueledger.ledger.store.partitions import make_event_months


class EventRecord(NamedTuple):
    """A record that is an event; `body` is the JSON text of its data."""

    record: ConsumedRecord
    event: DomainEvent
    body: str


@dataclass(slots=True)
class EventIntakeResult:
    """What became of the records of one poll."""

    taken: AppliedEvents = field(default_factory=AppliedEvents)
    rejected: list[RejectedRecord] = field(default_factory=list[RejectedRecord])

    def __add__(self, other: "EventIntakeResult") -> "EventIntakeResult":
        """Add up two parts."""
        return EventIntakeResult(self.taken + other.taken, self.rejected + other.rejected)


class EventIntake:
    """Takes in what one reader polls."""

    def __init__(self, pool: Pool, reader: TopicReader, *, actor_no: int) -> None:
        self._pool = pool
        self._reader = reader
        self._actor_no = actor_no
        self._rulebook = RulesInForce((0, None, 0), [])
        self._calendars = CalendarCache()
        self._log = get_logger("intake")

    async def tick(self) -> Mapping[str, int]:
        """Take in one poll's events; return counts."""
        polled = await self._reader.poll()
        if not polled:
            return _counts(EventIntakeResult())
        crash_point("intake.received")
        with ExitStack() as undo:
            undo.callback(self._reader.rewind, polled)
            done = EventIntakeResult()
            for part in self._reader.parts(polled):
                done += await self.record(part)
            await self._reject(done.rejected)
            undo.pop_all()
        crash_point("intake.recorded")
        await self._reader.commit(polled)
        counts = _counts(done)
        self._log.info(LogEvent.BATCH_RECORDED, **counts)
        return counts

    async def record(self, records: Sequence[ConsumedRecord]) -> EventIntakeResult:
        """Apply records to the ledger; what is rejected is returned, not yet sent anywhere."""
        arrivals: list[EventRecord] = []
        rejected: list[RejectedRecord] = []
        for record in records:
            try:
                arrivals.append(_arrival(record))
            except InvalidInput as error:
                rejected.append(RejectedRecord(record, error))
        done = await self._record_or_halve(arrivals)
        done.rejected = sorted(
            rejected + done.rejected, key=lambda one: (one.record.partition, one.record.offset)
        )
        return done

    async def _record_or_halve(self, arrivals: Sequence[EventRecord]) -> EventIntakeResult:
        """Apply a batch; one that the database refuses is halved until the culprit stands alone."""
        if not arrivals:
            return EventIntakeResult()
        months = {arrival.event.time.date().replace(day=1) for arrival in arrivals}
        try:
            async with self._pool.acquire() as connection:
                # Committed before the keys are locked: months have a lock that others hold who
                # wait for a key.
                await make_event_months(connection, sorted(months))
                async with connection.transaction():
                    return await self._record_together(connection, arrivals)
        except InvalidInput as error:
            if len(arrivals) == 1:
                return EventIntakeResult(rejected=[RejectedRecord(arrivals[0].record, error)])
        half = len(arrivals) // 2
        first, second = (
            await self._record_or_halve(arrivals[:half]),
            await self._record_or_halve(arrivals[half:]),
        )
        return first + second

    async def _record_together(
        self, connection: Connection, arrivals: Sequence[EventRecord]
    ) -> EventIntakeResult:
        rulebook = await self._rules_in_force(connection)
        reads: list[InterpretedEvent] = []
        rejected: list[RejectedRecord] = []
        for record, event, body in arrivals:
            try:
                reads.append(interpret_event(rulebook, event, body))
            except InvalidInput as error:
                rejected.append(RejectedRecord(record, error))
        if not reads:
            return EventIntakeResult(rejected=rejected)
        taken = await record_batch(connection, rulebook, reads, actor_no=self._actor_no)
        return EventIntakeResult(taken, rejected)

    async def _rules_in_force(self, connection: Connection) -> RulesInForce:
        """Return the rules in force, read again where another edition has come into force."""
        edition = await read_rules_edition(connection)
        if edition != self._rulebook.version:
            rows = await list_event_rules(connection)
            named = {(row.tenant, name) for row in rows if (name := calendar_name_of(row.document))}
            calendars = await self._calendars.newest_versions(connection, named)
            self._rulebook = RulesInForce(edition, rows, calendars)
            for rule in self._rulebook.refused:
                self._log.warning(
                    LogEvent.DEFINITION_FAILED,
                    definition_no=rule.definition_no,
                    reason=rule.reason,
                )
        return self._rulebook

    async def _reject(self, rejected: Sequence[RejectedRecord]) -> None:
        if not rejected:
            return
        await self._reader.reject(rejected)
        self._log.warning(
            LogEvent.EVENT_REJECTED,
            count=len(rejected),
            first=f"{rejected[0].record.partition}/{rejected[0].record.offset}",
            reason=str(rejected[0].error),
        )


def _counts(done: EventIntakeResult) -> dict[str, int]:
    taken = done.taken
    return {
        "events": taken.events,
        "duplicates": taken.duplicates,
        "unmatched": taken.unmatched,
        "emitted": taken.emitted,
        "skipped": taken.skipped,
        "withdrawn": taken.withdrawn,
        "rejected": len(done.rejected),
    }


def _arrival(record: ConsumedRecord) -> EventRecord:
    record.raise_if_unreadable()
    event = parse_event(record.headers, record.value)
    if not is_structured(record.headers):
        return EventRecord(record, event, (record.value or b"null").decode())
    try:
        body = orjson.dumps(event.data).decode()
    except orjson.JSONEncodeError as error:  # it writes 254 levels, and reads 1,024
        raise InvalidEvent(
            "The event cannot be read.", [Problem("data", "", f"cannot be stored: {error}")]
        ) from None
    return EventRecord(record, event, body)
