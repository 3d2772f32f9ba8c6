"""Compute what new events change: which issues they owe, and which they end. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from dueledger.ledger.intake.apply.events_by_subject import ImpliedDraft, SubjectEvents
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.rules.event_issues import (
    EventOrder,
    ImpliedItem,
    Issue,
    Withdrawal,
    reinstated_draft,
    sort_withdrawals,
    split_into_issues,
)
from dueledger.ledger.states import TransitionEvent


class OwedIssue(NamedTuple):
    """An issue that events owe; `order` is the place of the one that gives its terms.

    `is_decided_now`: that is a new event, so that an item which exists gets its terms.
    """

    order: EventOrder
    draft: ItemDraft
    definition_no: int
    event_no: int
    is_missed: bool
    is_decided_now: bool


class IssueEnding(NamedTuple):
    """An item that must be ended, and why."""

    item: UUID
    event: TransitionEvent
    reason: str
    replacement: UUID | None


@dataclass(slots=True)
class IssueChanges:
    """What new events change for one subject.

    `first_withdrawal` is the earliest of the new ones. If there is one, `issues` are the ids of all
    issues, changed or not, and `implied_by` says which of them an event implies, by the id of the
    first issue. `ended` are the issues that the events end, changed or not: by the rule of its
    time a known event may have ended nothing.
    `event_nos` are those of the known events that imply an item.
    """

    owed: list[OwedIssue] = field(default_factory=list[OwedIssue])
    endings: list[IssueEnding] = field(default_factory=list[IssueEnding])
    first_withdrawal: Withdrawal | None = None
    issues: set[UUID] = field(default_factory=set[UUID])
    ended: dict[UUID, Withdrawal] = field(default_factory=dict[UUID, Withdrawal])
    event_nos: set[int] = field(default_factory=set[int])
    implied_by: dict[tuple[bytes, EventOrder], UUID] = field(
        default_factory=dict[tuple[bytes, EventOrder], UUID]
    )

    def ending_of(self, item: UUID, withdrawal: Withdrawal) -> IssueEnding:
        """Return the ending of an item by a withdrawal, and the issue that takes its place."""
        replacement = withdrawal.replacement
        return IssueEnding(
            item,
            withdrawal.event,
            withdrawal.reason,
            None if replacement is None else self.implied_by.get((replacement, withdrawal.order)),
        )


def find_changes(events: SubjectEvents) -> IssueChanges:
    """Return what the new events of a subject change, given all its events."""
    if len(events.implied) == 1 and not events.withdrawals:  # most: it needs no id to compare
        (only,) = events.implied
        return IssueChanges([_owed(Issue(None, [only], None), only.owed.draft, events.new)])
    withdrawals = sort_withdrawals(events.withdrawals)
    changes = IssueChanges(
        first_withdrawal=next((each for each in withdrawals if each.order in events.new), None)
    )
    known_withdrawals = [each for each in withdrawals if each.order not in events.new]
    changed: list[tuple[Issue[ImpliedDraft], UUID]] = []
    by_item: defaultdict[bytes, list[ImpliedItem[ImpliedDraft]]] = defaultdict(list)
    for one in events.implied:
        by_item[one.owed.draft.id.bytes].append(one)
    for item, implied in by_item.items():
        known = [one for one in implied if one.order not in events.new]
        changes.event_nos.update(one.owed.event_no for one in known)
        before = split_into_issues(item, known, known_withdrawals) if known else []
        unchanged = {_bounds(issue) for issue in before}
        made = {bounds[:2] for bounds in unchanged}
        for issue in split_into_issues(item, implied, withdrawals):
            draft = reinstated_draft(_first_draft(issue, implied), issue.follows)
            identity = UUID(bytes=item) if issue.follows is None else draft.id
            changes.issues.add(identity)
            if issue.ended_by is not None:
                changes.ended[identity] = issue.ended_by
            changes.implied_by.update(((item, one.order), identity) for one in issue.implied)
            bounds = _bounds(issue)
            if bounds not in unchanged:
                changed.append((issue, identity))
            # Else only its end is new. A known event may have owed nothing by the rule of its time.
            is_implied_anew = any(one.order in events.new for one in issue.implied)
            if issue.implied and (is_implied_anew or bounds[:2] not in made):
                changes.owed.append(_owed(issue, draft, events.new))
    changes.endings = [
        changes.ending_of(identity, issue.ended_by)
        for issue, identity in changed
        if issue.ended_by is not None
    ]
    return changes


def _owed(issue: Issue[ImpliedDraft], draft: ItemDraft, new: set[EventOrder]) -> OwedIssue:
    first = issue.implied[0]
    return OwedIssue(
        first.order,
        draft,
        first.definition_no,
        first.owed.event_no,
        issue.is_missed,
        first.order in new,
    )


def _first_draft(
    issue: Issue[ImpliedDraft], implied: Sequence[ImpliedItem[ImpliedDraft]]
) -> ItemDraft:
    """Return the draft that gives its terms; any, if none implies it any more."""
    return (issue.implied or implied)[0].owed.draft


def _bounds(issue: Issue[ImpliedDraft]) -> tuple[EventOrder | None, ...]:
    """Return what the issue follows, which event gives its terms, and what ends it."""
    return (
        issue.follows and issue.follows.order,
        issue.implied[0].order if issue.implied else None,
        issue.ended_by and issue.ended_by.order,
    )
