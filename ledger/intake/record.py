"""Apply one batch of domain events to the ledger in one transaction and few statements.

The lock of a key's bucket is taken before the key's events are read: otherwise two processes that
each record one of two events of a key would both miss the other one.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final, final

from dueledger.ledger.errors import InvalidEvent
from dueledger.ledger.intake.apply.events_by_subject import (
    InterpretedEvent,
    SubjectEvents,
    group_by_subject,
    interpret_event,
)
from dueledger.ledger.intake.apply.item_endings import (
    EventOrder,
    ItemEnding,
    find_item_endings,
    first_implied,
)
from dueledger.ledger.intake.apply.rules_in_force import ItemSubject, RulesInForce
from dueledger.ledger.kafka.partitioner import partitions_of
from dueledger.ledger.kafka.topic_intake import IntakeResult
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.rules.event_rules import DomainEvent
from dueledger.ledger.rules.schedule_drafts import MISSED_REASON
from dueledger.ledger.store import Connection
from dueledger.ledger.store.events import (
    InboxEvent,
    RecordedEvent,
    list_key_events,
    lock_business_keys,
    record_events,
)
from dueledger.ledger.store.items import emit_items, find_open_items, withdraw_items

if TYPE_CHECKING:
    from uuid import UUID

    from dueledger.ledger.states import TransitionEvent

KEY_LOCK_BUCKETS: Final = 3360
"""Divisible by every number of partitions up to 8, by 10, 12, 14 to 16, 20, 24, 28, 30, 32 …: while
producers key their events by business key, processes that share such a topic share no bucket."""


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
    withdrawn: int = 0


async def record_batch(
    connection: Connection,
    rules: RulesInForce,
    reads: Sequence[InterpretedEvent],
    *,
    actor_no: int,
) -> AppliedEvents:
    """Record the events and apply the new ones. The caller's transaction commits it.

    Repeating it is harmless: an event that is already in the inbox is not applied again.
    """
    keys = _keys(reads)
    await lock_business_keys(connection, _buckets(reads, keys))
    known = await _known_events(connection, rules, keys)
    recorded = await record_events(connection, [_inbox_event(read) for read in reads])
    fresh = [(read, result) for read, result in zip(reads, recorded, strict=True) if result.new]
    taken = AppliedEvents(
        events=len(reads),
        duplicates=len(reads) - len(fresh),
        altered=sum(result.altered for result in recorded),
        unmatched=sum(read.effects is None for read, _ in fresh),
    )
    subjects = group_by_subject(known, [read for read, _ in fresh])
    ends = await _endings(connection, subjects)
    taken.emitted, taken.skipped = await _emit(connection, fresh, actor_no)
    taken.withdrawn = await _withdraw(connection, ends, actor_no)
    return taken


def _keys(reads: Sequence[InterpretedEvent]) -> set[tuple[str, str]]:
    return {
        (effect.subject[0], effect.subject[2]) for read in reads for effect in read.effects or ()
    }


def _buckets(reads: Sequence[InterpretedEvent], keys: set[tuple[str, str]]) -> list[int]:
    locked = {business_key for _, business_key in keys}
    locked.update(read.key or read.event.id for read in reads)
    return sorted(set(partitions_of([key.encode() for key in locked], KEY_LOCK_BUCKETS)))


async def _known_events(
    connection: Connection, rules: RulesInForce, keys: set[tuple[str, str]]
) -> list[InterpretedEvent]:
    """Return the inbox's events of these keys, with their effects under today's rules."""
    if not keys:
        return []
    tenants, business_keys = zip(*sorted(keys), strict=True)
    rows = await list_key_events(connection, tenants, business_keys, rules.event_types)
    known: list[InterpretedEvent] = []
    for row in rows:
        event = DomainEvent(
            row.tenant, row.source, row.id, row.type, row.occurred_at, row.subject, row.body
        )
        try:
            known.append(interpret_event(rules, event))
        except InvalidEvent:
            continue  # an older rule could read it; the items that it made stay as they are
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
    connection: Connection, subjects: Mapping[ItemSubject, SubjectEvents]
) -> list[ItemEnding]:
    """Return the items to end: by the events' order, and open items that no event here implies.

    The latter were emitted by a service itself, or under an older rule.
    """
    ends: list[ItemEnding] = []
    asked: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    implied: dict[ItemSubject, dict[UUID, EventOrder]] = {}
    for subject, subject_events in subjects.items():
        implied[subject] = first_implied(subject_events.implied_items)
        ends += find_item_endings(implied[subject], subject_events.withdrawals)
        if subject_events.new_withdrawals:
            tenant, kind, business_key = subject
            asked[tenant, kind].append(business_key)
    for (tenant, kind), business_keys in sorted(asked.items()):
        for item in await find_open_items(connection, tenant, kind, business_keys):
            subject = tenant, kind, item.business_key
            if item.id not in implied[subject]:
                first = min(subjects[subject].new_withdrawals, key=attrgetter("order"))
                ends.append(first.ending_of(item.id))
    return ends


async def _emit(
    connection: Connection, fresh: Sequence[tuple[InterpretedEvent, RecordedEvent]], actor_no: int
) -> tuple[int, int]:
    """Emit the items of the oldest event first: the first event of an item gives its terms.

    Returns how many owed items and how many skipped items were made.
    """
    owed = [
        (read.order, draft, effect.definition_no, result.event_no, _skip_reason(draft, result))
        for read, result in fresh
        for effect in read.effects or ()
        if (draft := effect.draft) is not None
    ]
    if not owed:
        return 0, 0
    owed.sort(key=lambda one: one[0])
    _, drafts, definition_nos, event_nos, skip_reasons = zip(*owed, strict=True)
    emitted = await emit_items(
        connection,
        drafts,
        actor_no=actor_no,
        definition_nos=definition_nos,
        event_nos=event_nos,
        skip_reasons=skip_reasons,
    )
    made = [
        skip_reason
        for result, skip_reason in zip(emitted, skip_reasons, strict=True)
        if result.created
    ]
    return made.count(None), len(made) - made.count(None)


def _skip_reason(draft: ItemDraft, result: RecordedEvent) -> str | None:
    if result.received_at is None or not draft.is_too_late(result.received_at):
        return None
    return MISSED_REASON


async def _withdraw(connection: Connection, ends: Sequence[ItemEnding], actor_no: int) -> int:
    groups: defaultdict[tuple[TransitionEvent, str], list[ItemEnding]] = defaultdict(list)
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
