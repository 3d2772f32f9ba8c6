"""Records batches of domain events: by the rules in force, each batch in one transaction."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Final, NamedTuple, final

import orjson

from dueledger.ledger.errors import InvalidEvent, InvalidInput, Problem
from dueledger.ledger.intake.apply.events_by_subject import InterpretedEvent, interpret_event
from dueledger.ledger.intake.apply.rules_in_force import RulesInForce
from dueledger.ledger.intake.parse import is_structured, parse_event
from dueledger.ledger.intake.record import AppliedEvents, record_batch
from dueledger.ledger.kafka.rejects import ConsumedRecord, RejectedRecord
from dueledger.ledger.kafka.topic_intake import BatchRecorder
from dueledger.ledger.rules.event_rules import DomainEvent
from dueledger.ledger.runtime.log import LogEvent, get_logger
from dueledger.ledger.store import Connection, Pool
from dueledger.ledger.store.calendar_cache import CalendarCache, calendar_name_of
from dueledger.ledger.store.clock import read_now
from dueledger.ledger.store.definitions import list_event_rules, read_rules_version
from dueledger.ledger.store.partitions import (
    has_event_month,
    list_unmade_item_months,
    make_event_months,
    make_item_months,
)

PAST_MAX: Final = timedelta(days=5 * 366)
AHEAD_MAX: Final = timedelta(days=62)


class EventRecord(NamedTuple):
    """A record that contains an event; `body` is the JSON text of its data."""

    record: ConsumedRecord
    event: DomainEvent
    body: str


@final
class EventRules:
    """The event rules in force, kept until they change."""

    def __init__(self) -> None:
        self._rules = RulesInForce((0, None, 0), [])
        self._calendars = CalendarCache()
        self._log = get_logger("intake")

    async def in_force(self, connection: Connection) -> RulesInForce:
        """Return the rules in force, read again if they changed."""
        version = await read_rules_version(connection)
        if version != self._rules.version:
            rows = await list_event_rules(connection)
            named = {(row.tenant, name) for row in rows if (name := calendar_name_of(row.document))}
            calendars = await self._calendars.newest_versions(connection, named)
            self._rules = RulesInForce(version, rows, calendars)
            for rule in self._rules.refused:
                self._log.warning(
                    LogEvent.DEFINITION_FAILED,
                    definition_no=rule.definition_no,
                    reason=rule.reason,
                )
        return self._rules


async def record_event(
    connection: Connection, rules: EventRules, event: DomainEvent, *, actor_no: int
) -> AppliedEvents:
    """Record one event in the caller's transaction, and what it implies.

    An event of the same source and id changes nothing. Items of a month without a partition go to
    the default one. Raises InvalidEvent if it lacks what a rule reads, or if its month has no
    partition and is not near: each partition costs every transaction that reads events, of all
    tenants.
    """
    if not await has_event_month(connection, event.time.date()):
        _check_near(event.time, await read_now(connection))
        await make_event_months(connection, [event.time.date()])
    in_force = await rules.in_force(connection)
    read = interpret_event(in_force, event, body_of(event))
    return await record_batch(connection, in_force, [read], actor_no=actor_no)


def _check_near(at: datetime, now: datetime) -> None:
    if not now - PAST_MAX <= at <= now + AHEAD_MAX:
        reason = "no event was recorded in its month, which is not near"
        accepted = f"a time from {PAST_MAX.days} days ago to {AHEAD_MAX.days} days ahead"
        raise InvalidEvent(
            "The event cannot be recorded.", [Problem("time", at.isoformat(), reason, accepted)]
        )


def body_of(event: DomainEvent) -> str:
    """Return the JSON text of an event's data. Raises InvalidEvent if it is nested too deep."""
    try:
        return orjson.dumps(event.data).decode()
    except orjson.JSONEncodeError as error:  # it writes 254 levels, and reads 1,024
        raise InvalidEvent(
            "The event cannot be read.", [Problem("data", "", f"cannot be stored: {error}")]
        ) from None


@final
class EventRecorder(BatchRecorder[EventRecord, AppliedEvents]):
    """Records domain events, and what they imply, cancel and supersede."""

    def __init__(self, pool: Pool, *, actor_no: int) -> None:
        super().__init__(AppliedEvents)
        self._pool = pool
        self._actor_no = actor_no
        self._rules = EventRules()

    def parse(self, record: ConsumedRecord) -> EventRecord:
        """Parse an event. Raises InvalidEvent."""
        event = parse_event(record.headers, record.value)
        if not is_structured(record.headers):
            return EventRecord(record, event, (record.value or b"null").decode())
        return EventRecord(record, event, body_of(event))

    async def record_together(self, batch: Sequence[EventRecord]) -> AppliedEvents:
        """Record a batch. Raises InvalidInput if Postgres refuses it."""
        async with self._pool.acquire() as connection:
            await make_event_months(connection, (record.event.time.date() for record in batch))
            unmade = None
            while True:
                async with connection.transaction():
                    rules = await self._rules.in_force(connection)
                    reads, rejected = _interpret(rules, batch)
                    if unmade is None:
                        unmade = await list_unmade_item_months(connection, _dates(reads))
                    if not unmade:
                        return await self._record(connection, rules, reads, rejected)
                # Nothing was written. What cannot be made now goes to the default partition.
                await make_item_months(connection, unmade)
                unmade = []

    async def _record(
        self,
        connection: Connection,
        rules: RulesInForce,
        reads: Sequence[InterpretedEvent],
        rejected: list[RejectedRecord],
    ) -> AppliedEvents:
        if not reads:
            return AppliedEvents(rejected=rejected)
        applied = await record_batch(connection, rules, reads, actor_no=self._actor_no)
        applied.rejected = rejected
        return applied


def _interpret(
    rules: RulesInForce, batch: Sequence[EventRecord]
) -> tuple[list[InterpretedEvent], list[RejectedRecord]]:
    """Return the events with their effects, and the records that lack a field of a rule."""
    reads: list[InterpretedEvent] = []
    rejected: list[RejectedRecord] = []
    for record, event, body in batch:
        try:
            reads.append(interpret_event(rules, event, body))
        except InvalidInput as error:
            rejected.append(RejectedRecord(record, error))
    return reads, rejected


def _dates(reads: Sequence[InterpretedEvent]) -> set[date]:
    return {
        effect.draft.effective_date
        for read in reads
        for effect in read.effects or ()
        if effect.draft is not None
    }
