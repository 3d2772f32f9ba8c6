"""One batch of domain events, applied to the ledger in one transaction and few statements.

Whoever folds a business key holds its bucket first: two processes that each land one of two events
of a key would otherwise both miss the other's.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from ledger.drafts import Cancellation, ItemDraft, Supersession
from ledger.errors import InvalidEvent
from ledger.intake.fold import Birth, Ending, Moment, Withdrawal, earliest_births, endings
from ledger.intake.rulebook import Meaning, Rulebook
from ledger.murmur2 import partitions_of
from ledger.rules import DomainEvent
from ledger.states import TransitionEvent
from ledger.store import Connection
from ledger.store.events import (
    InboxEvent,
    list_key_events,
    lock_business_keys,
    record_events,
)
from ledger.store.items import emit_items, find_open_items, withdraw_items

if TYPE_CHECKING:
    from uuid import UUID

BUCKETS: Final = 3360
"""Divisible by every number of partitions up to 8, by 10, 12, 14 to 16, 20, 24, 28, 30, 32 …: while
producers key their events by business key, processes that share such a topic share no bucket."""

Subject = tuple[str, str, str]


class Arrival(NamedTuple):
    """An event with the JSON text of its data, as it will lie in the inbox."""

    event: DomainEvent
    body: str


@dataclass(slots=True)
class Taken:
    """What became of a batch."""

    events: int = 0
    duplicates: int = 0
    unmatched: int = 0
    emitted: int = 0
    withdrawn: int = 0

    def __add__(self, other: "Taken") -> "Taken":
        """Add up two halves of a batch."""
        return Taken(
            self.events + other.events,
            self.duplicates + other.duplicates,
            self.unmatched + other.unmatched,
            self.emitted + other.emitted,
            self.withdrawn + other.withdrawn,
        )


class Read(NamedTuple):
    """An event and what it means; None where no rule knows it."""

    arrival: Arrival
    meanings: list[Meaning] | None

    @property
    def moment(self) -> Moment:
        """Return its place among the events of its key."""
        return moment_of(self.arrival.event)

    @property
    def key(self) -> str | None:
        """Return the business key under which the inbox finds it again."""
        if self.meanings:
            return self.meanings[0].effect.business_key
        return self.arrival.event.subject


@dataclass(slots=True)
class _Story:
    """Everything known that bears on one subject."""

    births: list[Birth] = field(default_factory=list[Birth])
    withdrawals: list[Withdrawal] = field(default_factory=list[Withdrawal])
    fresh_withdrawals: list[Withdrawal] = field(default_factory=list[Withdrawal])


def moment_of(event: DomainEvent) -> Moment:
    """Return the event's place among the events of its key."""
    return Moment(event.time, event.source, event.id)


async def take_batch(
    connection: Connection, rulebook: Rulebook, reads: Sequence[Read], *, actor_no: int
) -> Taken:
    """Land the events and apply those that are new; the caller's transaction decides.

    Repeating it is harmless: what the inbox knows already is not applied again.
    """
    await lock_business_keys(connection, _buckets(reads))
    known = await _known_events(connection, rulebook, reads)
    recorded = await record_events(connection, [_inbox_event(read) for read in reads])
    fresh = [
        (read, answer.event_no) for read, answer in zip(reads, recorded, strict=True) if answer.new
    ]
    taken = Taken(
        events=len(reads),
        duplicates=len(reads) - len(fresh),
        unmatched=sum(read.meanings is None for read, _ in fresh),
    )
    stories = _stories(known, [read for read, _ in fresh])
    ends = await _endings(connection, stories)
    taken.emitted = await _emit(connection, fresh, actor_no)
    taken.withdrawn = await _withdraw(connection, ends, actor_no)
    return taken


def _buckets(reads: Sequence[Read]) -> list[int]:
    keys = {read.key or read.arrival.event.id for read in reads}
    keys.update(meaning.effect.business_key for read in reads for meaning in read.meanings or ())
    return sorted(set(partitions_of([key.encode() for key in keys], BUCKETS)))


async def _known_events(
    connection: Connection, rulebook: Rulebook, reads: Sequence[Read]
) -> list[Read]:
    """Read what the inbox holds of these keys already, with what it means today."""
    keys = {
        (read.arrival.event.tenant, meaning.effect.business_key)
        for read in reads
        for meaning in read.meanings or ()
    }
    if not keys:
        return []
    tenants, business_keys = zip(*sorted(keys), strict=True)
    rows = await list_key_events(connection, tenants, business_keys, rulebook.event_types)
    known: list[Read] = []
    for row in rows:
        event = DomainEvent(
            row.tenant, row.source, row.id, row.type, row.occurred_at, row.subject, row.body
        )
        try:
            known.append(Read(Arrival(event, ""), rulebook.meanings(event)))
        except InvalidEvent:
            continue  # an older rule could read it; what it made then stays as it is
    return known


def _inbox_event(read: Read) -> InboxEvent:
    event = read.arrival.event
    return InboxEvent(
        event.tenant,
        event.source,
        event.id,
        event.type,
        event.time,
        event.subject,
        read.key,
        read.arrival.body,
        event.traceparent,
        read.meanings is not None,
    )


def _stories(known: Iterable[Read], fresh: Sequence[Read]) -> dict[Subject, _Story]:
    """Gather what bears on each subject that an event of this batch touches."""
    stories: defaultdict[Subject, _Story] = defaultdict(_Story)
    for read in fresh:
        for withdrawal, subject in _tell(stories, read):
            stories[subject].fresh_withdrawals.append(withdrawal)
    touched = set(stories)
    for read in known:
        if any(meaning.subject in touched for meaning in read.meanings or ()):
            _tell(stories, read)
    return {subject: stories[subject] for subject in touched}


def _tell(stories: defaultdict[Subject, _Story], read: Read) -> list[tuple[Withdrawal, Subject]]:
    told: list[tuple[Withdrawal, Subject]] = []
    meanings = read.meanings or ()
    for meaning in meanings:
        story = stories[meaning.subject]
        if (draft := meaning.draft) is not None:
            story.births.append(Birth(read.moment, draft.id))
        withdrawal = _withdrawal(read, meaning, meanings)
        if withdrawal is not None:
            story.withdrawals.append(withdrawal)
            told.append((withdrawal, meaning.subject))
    return told


def _withdrawal(read: Read, meaning: Meaning, meanings: Sequence[Meaning]) -> Withdrawal | None:
    match meaning.effect:
        case ItemDraft():
            return None
        case Cancellation(reason=reason):
            event, first = TransitionEvent.CANCELLED, None
        case Supersession(reason=reason, replacement=first):
            event = TransitionEvent.SUPERSEDED
    own = [
        draft.id
        for other in meanings
        if other.subject == meaning.subject and (draft := other.draft) is not None
    ]
    own.sort(key=lambda item: first is None or item != first.id)
    return Withdrawal(read.moment, event, reason, tuple(own))


async def _endings(connection: Connection, stories: dict[Subject, _Story]) -> list[Ending]:
    """Return what must end: by the fold, and what is open though no event here tells its birth."""
    ends: list[Ending] = []
    asked: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    born: dict[Subject, dict[UUID, Moment]] = {}
    for subject, story in stories.items():
        if not story.withdrawals:
            continue
        born[subject] = earliest_births(story.births)
        ends += endings(born[subject], story.withdrawals)
        if story.fresh_withdrawals:
            tenant, kind, business_key = subject
            asked[tenant, kind].append(business_key)
    for (tenant, kind), business_keys in sorted(asked.items()):
        for item in await find_open_items(connection, tenant, kind, business_keys):
            subject = tenant, kind, item.business_key
            if item.id not in born[subject]:
                ends.append(min(stories[subject].fresh_withdrawals).end(item.id))
    return ends


async def _emit(
    connection: Connection, fresh: Sequence[tuple[Read, int | None]], actor_no: int
) -> int:
    """Emit oldest event first: of one item's births in a batch the first gives its terms."""
    owed = [
        (read.moment, draft, meaning.definition_no, event_no)
        for read, event_no in fresh
        for meaning in read.meanings or ()
        if (draft := meaning.draft) is not None
    ]
    if not owed:
        return 0
    owed.sort(key=lambda one: one[0])
    _, drafts, definition_nos, event_nos = zip(*owed, strict=True)
    emitted = await emit_items(
        connection, drafts, actor_no=actor_no, definition_nos=definition_nos, event_nos=event_nos
    )
    return sum(answer.created for answer in emitted)


async def _withdraw(connection: Connection, ends: Sequence[Ending], actor_no: int) -> int:
    groups: defaultdict[tuple[TransitionEvent, str], list[Ending]] = defaultdict(list)
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
