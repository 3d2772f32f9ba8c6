"""What events say of each subject: which items they imply, and what they withdraw. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from dueledger.ledger.intake.apply.item_endings import Birth, Moment, Withdrawal
from dueledger.ledger.intake.apply.rules_in_force import Meaning, Rulebook, Subject
from dueledger.ledger.rules.drafts import Cancellation, ItemDraft, Supersession
from dueledger.ledger.rules.event_rules import DomainEvent
from dueledger.ledger.states import TransitionEvent


class Read(NamedTuple):
    """An event and what it means; `meanings` is None where no rule knows it.

    `body` is the JSON text of its data, `key` what the inbox finds it by.
    """

    event: DomainEvent
    body: str
    moment: Moment
    key: str | None
    meanings: list[Meaning] | None


@dataclass(slots=True)
class Story:
    """What is known of a subject that something withdraws from."""

    births: list[Birth] = field(default_factory=list[Birth])
    withdrawals: list[Withdrawal] = field(default_factory=list[Withdrawal])
    fresh: list[Withdrawal] = field(default_factory=list[Withdrawal])


def read_event(rulebook: Rulebook, event: DomainEvent, body: str = "") -> Read:
    """Ask the rules what an event means. Raises InvalidEvent where it lacks what they address."""
    meanings = rulebook.meanings(event)
    key = meanings[0].effect.business_key if meanings else event.subject
    return Read(event, body, Moment(event.time, event.source, event.id), key, meanings)


def tell_stories(known: Iterable[Read], fresh: Sequence[Read]) -> dict[Subject, Story]:
    """Gather the stories that the fresh events change: those in which something is withdrawn.

    Most events withdraw nothing and meet nothing that does; they cost no story.
    """
    touched = {meaning.subject for read in fresh for meaning in read.meanings or ()}
    bearing = [
        read for read in known if any(meaning.subject in touched for meaning in read.meanings or ())
    ]
    withdrawing = touched & {
        meaning.subject
        for reads in (fresh, bearing)
        for read in reads
        for meaning in read.meanings or ()
        if not isinstance(meaning.effect, ItemDraft)
    }
    stories: defaultdict[Subject, Story] = defaultdict(Story)
    if withdrawing:
        for read in fresh:
            for subject, withdrawal in _tell(stories, withdrawing, read):
                stories[subject].fresh.append(withdrawal)
        for read in bearing:
            _tell(stories, withdrawing, read)
    return stories


def _tell(
    stories: defaultdict[Subject, Story], withdrawing: set[Subject], read: Read
) -> list[tuple[Subject, Withdrawal]]:
    told: list[tuple[Subject, Withdrawal]] = []
    for meaning in read.meanings or ():
        if meaning.subject not in withdrawing:
            continue
        story = stories[meaning.subject]
        if meaning.draft is not None:
            story.births.append(Birth(read.moment, meaning.draft.id))
        withdrawal = _withdrawal(read, meaning)
        if withdrawal is not None:
            story.withdrawals.append(withdrawal)
            told.append((meaning.subject, withdrawal))
    return told


def _withdrawal(read: Read, meaning: Meaning) -> Withdrawal | None:
    match meaning.effect:
        case ItemDraft():
            return None
        case Cancellation(reason=reason):
            return Withdrawal(
                read.moment, TransitionEvent.CANCELLED, reason, frozenset(_own(read, meaning))
            )
        case Supersession(reason=reason, replacement=replacement):
            return Withdrawal(
                read.moment,
                TransitionEvent.SUPERSEDED,
                reason,
                frozenset(_own(read, meaning)),
                replacement.id,
            )


def _own(read: Read, meaning: Meaning) -> Iterable[UUID]:
    return (
        other.draft.id
        for other in read.meanings or ()
        if other.subject == meaning.subject and other.draft is not None
    )
