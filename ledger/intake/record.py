"""Apply one batch of domain events to the ledger in one transaction and few statements.

The lock of a key's bucket is taken before the key's events are read: otherwise two processes that
each record one of two events of a key would both miss the other one.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Final, final

from dueledger.ledger.errors import InvalidEvent, Problem
from dueledger.ledger.intake.apply.events_by_subject import (
    InterpretedEvent,
    ReceivedEvent,
    group_by_subject,
    interpret_event,
)
from dueledger.ledger.intake.apply.issue_changes import (
    IssueChanges,
    IssueEnding,
    OwedIssue,
    find_changes,
)
from dueledger.ledger.intake.apply.rules_in_force import RulesInForce
from dueledger.ledger.kafka.partitioner import partitions_of
from dueledger.ledger.kafka.topic_intake import IntakeResult
from dueledger.ledger.rules.drafts import ItemSubject
from dueledger.ledger.rules.event_rules import DomainEvent
from dueledger.ledger.rules.schedule_drafts import MISSED_REASON
from dueledger.ledger.store import Connection
from dueledger.ledger.store.events import (
    InboxEvent,
    list_key_events,
    lock_business_keys,
    record_events,
    record_other_keys,
)
from dueledger.ledger.store.items import (
    EmittedItem,
    RevisionResult,
    emit_items,
    find_open_items,
    revise_event_items,
    withdraw_items,
)

if TYPE_CHECKING:
    from dueledger.ledger.states import TransitionEvent

KEY_LOCK_BUCKETS: Final = 3360
"""Divisible by every number of partitions up to 8, by 10, 12, 14 to 16, 20, 24, 28, 30, 32 …: while
producers key their events by business key, processes that share such a topic share no bucket."""

_KNOWN_EVENTS_MAX: Final = 200_000
"""Most earlier events of the keys of one batch. A refused batch is halved; a key with more takes no
more events."""


@final
@dataclass(slots=True, kw_only=True)
class AppliedEvents(IntakeResult):
    """Counts of a batch. `skipped` items came too late to be owed and are not in `emitted`.

    `altered` duplicates have another time or content than the first event of their source and id.
    """

    events: int = 0
    duplicates: int = 0
    altered: int = 0
    unmatched: int = 0
    emitted: int = 0
    skipped: int = 0
    revised: int = 0
    withdrawn: int = 0


async def record_batch(
    connection: Connection,
    rules: RulesInForce,
    reads: Sequence[InterpretedEvent],
    *,
    actor_no: int,
) -> AppliedEvents:
    """Record the events and apply the new ones. The caller's transaction commits it.

    Repeating it is harmless: an event that is already in the inbox is not applied again. Raises
    InvalidEvent if the keys have too many earlier events.
    """
    keys = _keys(reads)
    await lock_business_keys(connection, _buckets(reads, keys))
    known = await _known_events(connection, rules, keys)
    recorded = await record_events(
        connection, [_inbox_event(read) for read in reads], actor_no=actor_no
    )
    fresh = [
        ReceivedEvent(read, result.event_no, result.received_at, is_new=True, was_matched=True)
        for read, result in zip(reads, recorded, strict=True)
        if result.new and result.event_no is not None and result.received_at is not None
    ]
    taken = AppliedEvents(
        events=len(reads),
        duplicates=len(reads) - len(fresh),
        altered=sum(result.altered for result in recorded),
        unmatched=sum(received.read.effects is None for received in fresh),
    )
    if others := _other_keys(fresh):
        await record_other_keys(connection, others)
    changes = {
        subject: find_changes(events)
        for subject, events in group_by_subject([*fresh, *known]).items()
    }
    ends = await _endings(connection, changes)
    await _emit(connection, changes.values(), taken, actor_no)
    taken.withdrawn = await _withdraw(connection, ends, actor_no)
    return taken


def _keys(reads: Sequence[InterpretedEvent]) -> set[tuple[str, str]]:
    return {
        (effect.effect.tenant, effect.effect.business_key)
        for read in reads
        for effect in read.effects or ()
    }


def _other_keys(fresh: Sequence[ReceivedEvent]) -> list[tuple[str, str, int, datetime]]:
    """Return what the inbox does not say of new events: the keys after the first."""
    return [
        (event.tenant, business_key, received.event_no, event.time)
        for received in fresh
        if received.read.effects is not None and len(received.read.effects) > 1
        for event in (received.read.event,)
        for business_key in sorted(
            {each.effect.business_key for each in received.read.effects} - {received.read.key}
        )
    ]


def _buckets(reads: Sequence[InterpretedEvent], keys: set[tuple[str, str]]) -> list[int]:
    locked = {business_key for _, business_key in keys}
    locked.update(read.key for read in reads if read.key is not None)
    return sorted(set(partitions_of([key.encode() for key in locked], KEY_LOCK_BUCKETS)))


async def _known_events(
    connection: Connection, rules: RulesInForce, keys: set[tuple[str, str]]
) -> list[ReceivedEvent]:
    """Return the inbox's events of these keys, with their effects under today's rules."""
    if not keys:
        return []
    tenants, business_keys = zip(*sorted(keys), strict=True)
    rows = await list_key_events(
        connection, tenants, business_keys, rules.event_types, limit=_KNOWN_EVENTS_MAX
    )
    if len(rows) > _KNOWN_EVENTS_MAX:
        shown = keys.pop()[1] if len(keys) == 1 else f"{len(keys)} keys"
        reason = f"has over {_KNOWN_EVENTS_MAX:,} earlier events"
        accepted = "a business key that fewer events concern"
        problem = Problem("business_key", shown, reason, accepted)
        raise InvalidEvent("The event cannot be applied by its time.", [problem])
    known: list[ReceivedEvent] = []
    for row in rows:
        event = DomainEvent(
            row.tenant,
            row.source,
            row.id,
            row.type,
            row.occurred_at,
            row.subject,
            row.body,
            row.traceparent,
        )
        try:
            read = interpret_event(rules, event)
        except InvalidEvent:
            continue  # an older rule could read it; the items that it made stay as they are
        known.append(
            ReceivedEvent(
                read,
                row.event_no,
                row.received_at,
                is_new=False,
                was_matched=row.matched is not False,
            )
        )
    return known


def _inbox_event(read: InterpretedEvent) -> InboxEvent:
    event = read.event
    return InboxEvent(
        event.tenant,
        event.source,
        event.id,
        event.type,
        event.time,
        event.subject,
        read.key,
        read.body,
        event.traceparent,
        read.effects is not None,
    )


async def _endings(
    connection: Connection, changes: Mapping[ItemSubject, IssueChanges]
) -> list[IssueEnding]:
    """Return the items to end: by the events' order, and open items that no event here implies.

    The latter were emitted by a service itself, or under an older rule.
    """
    ends: list[IssueEnding] = []
    asked: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for (tenant, kind, business_key), subject_changes in changes.items():
        ends += subject_changes.endings
        if subject_changes.first_withdrawal is not None or subject_changes.ended:
            asked[tenant, kind].append(business_key)
    for (tenant, kind), business_keys in sorted(asked.items()):
        for item in await find_open_items(connection, tenant, kind, business_keys):
            subject_changes = changes[tenant, kind, item.business_key]
            first = subject_changes.first_withdrawal
            known = subject_changes.ended.get(item.id)
            if known is not None and all(one.item != item.id for one in subject_changes.endings):
                ends.append(subject_changes.ending_of(item.id, known))
            elif first is not None and item.id not in subject_changes.issues:
                ends.append(subject_changes.ending_of(item.id, first))
    return ends


async def _emit(
    connection: Connection, changes: Iterable[IssueChanges], taken: AppliedEvents, actor_no: int
) -> None:
    """Emit what is owed. An item that exists gets the terms of a new event that decides them."""
    changes = list(changes)
    owed = sorted((one for each in changes for one in each.owed), key=attrgetter("order"))
    if not owed:
        return
    emitted = await emit_items(
        connection,
        [one.draft for one in owed],
        actor_no=actor_no,
        definition_nos=[one.definition_no for one in owed],
        event_nos=[one.event_no for one in owed],
        skip_reasons=[MISSED_REASON if one.is_missed else None for one in owed],
    )
    made = [one.is_missed for one, result in zip(owed, emitted, strict=True) if result.created]
    taken.skipped = sum(made)
    taken.emitted = len(made) - taken.skipped
    replaced = sorted(event_no for each in changes for event_no in each.event_nos)
    if replaced:
        taken.revised = await _revise(connection, owed, emitted, replaced, actor_no)


async def _revise(
    connection: Connection,
    owed: Sequence[OwedIssue],
    emitted: Sequence[EmittedItem],
    replaced_event_nos: Sequence[int],
    actor_no: int,
) -> int:
    """Give items that were never handed out the terms of an event that happened earlier."""
    earlier = [
        one
        for one, result in zip(owed, emitted, strict=True)
        if not result.created and one.is_decided_now
    ]
    results = await revise_event_items(
        connection,
        [one.draft for one in earlier],
        definition_nos=[one.definition_no for one in earlier],
        event_nos=[one.event_no for one in earlier],
        replaced_event_nos=replaced_event_nos,
        actor_no=actor_no,
    )
    return results.count(RevisionResult.REVISED)


async def _withdraw(connection: Connection, ends: Sequence[IssueEnding], actor_no: int) -> int:
    groups: defaultdict[tuple[TransitionEvent, str], list[IssueEnding]] = defaultdict(list)
    for ending in ends:
        groups[ending.event, ending.reason].append(ending)
    for (event, reason), group in sorted(groups.items()):
        await withdraw_items(
            connection,
            [ending.item for ending in group],
            event=event,
            reason=reason,
            actor_no=actor_no,
            replacements=[ending.replacement for ending in group],
        )
    return len(ends)
