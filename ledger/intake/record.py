"""One batch of domain events, applied to the ledger in one transaction and few statements.

Whoever folds a business key holds its bucket first: two processes that each land one of two events
of a key would otherwise both miss the other's.
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
    """What became of a batch: `skipped` came too late to be owed, and `emitted` are the rest."""

    events: int = 0
    duplicates: int = 0
    unmatched: int = 0
    emitted: int = 0
    skipped: int = 0
    withdrawn: int = 0


async def record_batch(
    connection: Connection,
    rulebook: RulesInForce,
    reads: Sequence[InterpretedEvent],
    *,
    actor_no: int,
) -> AppliedEvents:
    """Land the events and apply those that are new; the caller's transaction decides.

    Repeating it is harmless: what the inbox knows already is not applied again.
    """
    keys = _keys(reads)
    await lock_business_keys(connection, _buckets(reads, keys))
    known = await _known_events(connection, rulebook, keys)
    recorded = await record_events(connection, [_inbox_event(read) for read in reads])
    fresh = [(read, answer) for read, answer in zip(reads, recorded, strict=True) if answer.new]
    taken = AppliedEvents(
        events=len(reads),
        duplicates=len(reads) - len(fresh),
        unmatched=sum(read.effects is None for read, _ in fresh),
    )
    stories = group_by_subject(known, [read for read, _ in fresh])
    ends = await _endings(connection, stories)
    taken.emitted, taken.skipped = await _emit(connection, fresh, actor_no)
    taken.withdrawn = await _withdraw(connection, ends, actor_no)
    return taken


def _keys(reads: Sequence[InterpretedEvent]) -> set[tuple[str, str]]:
    return {
        (meaning.subject[0], meaning.subject[2]) for read in reads for meaning in read.effects or ()
    }


def _buckets(reads: Sequence[InterpretedEvent], keys: set[tuple[str, str]]) -> list[int]:
    held = {business_key for _, business_key in keys}
    held.update(read.key or read.event.id for read in reads)
    return sorted(set(partitions_of([key.encode() for key in held], KEY_LOCK_BUCKETS)))


async def _known_events(
    connection: Connection, rulebook: RulesInForce, keys: set[tuple[str, str]]
) -> list[InterpretedEvent]:
    """Read what the inbox holds of these keys already, with what it means today."""
    if not keys:
        return []
    tenants, business_keys = zip(*sorted(keys), strict=True)
    rows = await list_key_events(connection, tenants, business_keys, rulebook.event_types)
    known: list[InterpretedEvent] = []
    for row in rows:
        event = DomainEvent(
            row.tenant, row.source, row.id, row.type, row.occurred_at, row.subject, row.body
        )
        try:
            known.append(interpret_event(rulebook, event))
        except InvalidEvent:
            continue  # an older rule could read it; what it made then stays as it is
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
    connection: Connection, stories: Mapping[ItemSubject, SubjectEvents]
) -> list[ItemEnding]:
    """Return what must end: by the fold, and what is open though no event here tells its birth.

    The latter was emitted by a service itself, or under an older rule.
    """
    ends: list[ItemEnding] = []
    asked: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    born: dict[ItemSubject, dict[UUID, EventOrder]] = {}
    for subject, story in stories.items():
        born[subject] = first_implied(story.implied_items)
        ends += find_item_endings(born[subject], story.withdrawals)
        if story.new_withdrawals:
            tenant, kind, business_key = subject
            asked[tenant, kind].append(business_key)
    for (tenant, kind), business_keys in sorted(asked.items()):
        for item in await find_open_items(connection, tenant, kind, business_keys):
            subject = tenant, kind, item.business_key
            if item.id not in born[subject]:
                first = min(stories[subject].new_withdrawals, key=attrgetter("moment"))
                ends.append(first.ending_of(item.id))
    return ends


async def _emit(
    connection: Connection, fresh: Sequence[tuple[InterpretedEvent, RecordedEvent]], actor_no: int
) -> tuple[int, int]:
    """Emit oldest event first: of one item's births in a batch the first gives its terms.

    Returns how many were made that are owed, and how many that are skipped.
    """
    owed = [
        (read.moment, draft, meaning.definition_no, answer.event_no, _skip_reason(draft, answer))
        for read, answer in fresh
        for meaning in read.effects or ()
        if (draft := meaning.draft) is not None
    ]
    if not owed:
        return 0, 0
    owed.sort(key=lambda one: one[0])
    _, drafts, definition_nos, event_nos, lapses = zip(*owed, strict=True)
    emitted = await emit_items(
        connection,
        drafts,
        actor_no=actor_no,
        definition_nos=definition_nos,
        event_nos=event_nos,
        skip_reasons=lapses,
    )
    made = [lapse for answer, lapse in zip(emitted, lapses, strict=True) if answer.created]
    return made.count(None), len(made) - made.count(None)


def _skip_reason(draft: ItemDraft, answer: RecordedEvent) -> str | None:
    if answer.received_at is None or not draft.is_too_late(answer.received_at):
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
