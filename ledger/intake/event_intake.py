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
from dueledger.ledger.intake.apply.events_by_subject import Read, read_event
from dueledger.ledger.intake.apply.rules_in_force import Rulebook
from dueledger.ledger.intake.parse import is_structured, parse_event
from dueledger.ledger.intake.record import Taken, take_batch
from dueledger.ledger.kafka.rejects import Record, Rejected
from dueledger.ledger.kafka.topic_reader import TopicReader
from dueledger.ledger.rules.event_rules import DomainEvent
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.runtime.service import crash_point
from dueledger.ledger.store import Connection, Pool
from dueledger.ledger.store.calendar_cache import CalendarShelf, name_in
from dueledger.ledger.store.definitions import list_event_rules, read_rules_edition
from dueledger.ledger.store.partitions import make_event_months


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

    def __add__(self, other: "Pass") -> "Pass":
        """Add up two parts."""
        return Pass(self.taken + other.taken, self.rejected + other.rejected)


class Intake:
    """Takes in what one reader polls."""

    def __init__(self, pool: Pool, reader: TopicReader, *, actor_no: int) -> None:
        self._pool = pool
        self._reader = reader
        self._actor_no = actor_no
        self._rulebook = Rulebook((0, None, 0), [])
        self._calendars = CalendarShelf()
        self._log = get_logger("intake")

    async def tick(self) -> Mapping[str, int]:
        """Take in one poll's events; return counts."""
        polled = await self._reader.poll()
        if not polled:
            return _counts(Pass())
        crash_point("intake.received")
        with ExitStack() as undo:
            undo.callback(self._reader.rewind, polled)
            done = Pass()
            for part in self._reader.parts(polled):
                done += await self.take(part)
            await self._reject(done.rejected)
            undo.pop_all()
        crash_point("intake.recorded")
        await self._reader.commit(polled)
        counts = _counts(done)
        self._log.info(LogEvent.BATCH_TAKEN, **counts)
        return counts

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
        return first + second

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
            rows = await list_event_rules(connection)
            named = {(row.tenant, name) for row in rows if (name := name_in(row.document))}
            calendars = await self._calendars.newest(connection, named)
            self._rulebook = Rulebook(edition, rows, calendars)
            for rule in self._rulebook.refused:
                self._log.warning(
                    LogEvent.DEFINITION_FAILED,
                    definition_no=rule.definition_no,
                    reason=rule.reason,
                )
        return self._rulebook

    async def _reject(self, rejected: Sequence[Rejected]) -> None:
        if not rejected:
            return
        await self._reader.reject(rejected)
        self._log.warning(
            LogEvent.EVENT_REJECTED,
            count=len(rejected),
            first=f"{rejected[0].record.partition}/{rejected[0].record.offset}",
            reason=str(rejected[0].error),
        )


def _counts(done: Pass) -> dict[str, int]:
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


def _arrival(record: Record) -> Arrival:
    record.check()
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
