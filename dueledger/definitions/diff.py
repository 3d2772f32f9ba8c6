"""What a new version would change in future occurrences. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from dueledger.ledger.definitions.parsing import Definition
from dueledger.ledger.rules.calendar_change import known_until
from dueledger.ledger.rules.drafts import ItemDraft
from dueledger.ledger.rules.schedule_drafts import draft_occurrences
from dueledger.ledger.schedule import RECURRING

SHOWN: Final = 10
REACH: Final = timedelta(days=30)
COUNTED_MAX: Final = 20_000
"""About how many occurrences of one definition are compared; with more the window is shorter."""

VersionSpan = tuple[Definition, datetime, datetime | None]
"""A version with a calendar, and the window in which both decide."""

_NOTHING: Final[dict[str, object]] = {}


class ChangeKind(StrEnum):
    """What happens to one occurrence."""

    KEPT = "kept"
    MOVED = "moved"
    ADDED = "added"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class OccurrenceChange:
    """One occurrence: its zone, its new instant, and its present one."""

    kind: ChangeKind
    cycle: str
    zone: str
    due_at: datetime | None
    due_before: datetime | None

    @property
    def at(self) -> datetime:
        """Return the instant by which it is sorted."""
        found = self.due_at or self.due_before
        if found is None:
            raise ValueError(self.cycle)
        return found


@dataclass(frozen=True, slots=True)
class DefinitionDiff:
    """The differences in [since, until): `upcoming` has the first occurrences, `counts` all.

    `changed` are the parts of the document that differ from `base_version`, the version in force
    at `since`, or None if there is none: each by its name, before and after.
    """

    base_version: int | None
    since: datetime
    until: datetime
    changed: tuple[tuple[str, Any, Any], ...]
    counts: dict[ChangeKind, int]
    upcoming: tuple[OccurrenceChange, ...]

    @property
    def fields(self) -> tuple[str, ...]:
        """Return the names of the parts that differ."""
        return tuple(name for name, _, _ in self.changed)

    @property
    def affected(self) -> int:
        """Return how many occurrences are moved or removed."""
        return self.counts[ChangeKind.MOVED] + self.counts[ChangeKind.REMOVED]


def compare(
    before: Sequence[tuple[int, VersionSpan]], after: Definition, since: datetime
) -> DefinitionDiff:
    """Compare what the recorded versions owe from `since` on with what `after` would.

    Event rules and fixed delays have no occurrences to compare. Days after the last known day of
    the calendar of `after` are not compared.
    """
    current = [(number, span) for number, span in before if span[2] is None or span[2] > since]
    until = since + REACH
    for definition in (after, *(span[0] for _, span in current)):
        until = min(until, since + _reach(definition, since))
    until = known_until(after, since, until)
    old = _rounds(current, since, until)
    new = _rounds([(0, (after, since, None))], since, until)
    changes = sorted(
        (
            change
            for key in {**old, **new}
            for change in _changes(old.get(key, []), next(iter(new.get(key, ())), None))
        ),
        key=lambda each: each.at,
    )
    base = next((each for each in current if each[1][1] <= since), None)
    found = Counter(each.kind for each in changes)
    return DefinitionDiff(
        None if base is None else base[0],
        since,
        until,
        _changed(None if base is None else base[1][0], after),
        {kind: found[kind] for kind in ChangeKind},
        tuple(changes[:SHOWN]),
    )


def _reach(definition: Definition, since: datetime) -> timedelta:
    if not isinstance(definition.when, RECURRING):
        return REACH
    expected = definition.when.estimate(since, since + REACH)
    return REACH if expected <= COUNTED_MAX else REACH * (COUNTED_MAX / expected)


def _rounds(
    spans: Sequence[tuple[int, VersionSpan]], since: datetime, until: datetime
) -> dict[tuple[object, ...], list[ItemDraft]]:
    """Return what versions owe, by identity: each may have a nominal time at its own instant.

    If two calendars of one version have it, it is where the earlier one has placed it.
    """
    found: dict[tuple[object, ...], list[ItemDraft]] = {}
    placed: dict[tuple[object, ...], int] = {}
    for number, (definition, begins, ends) in spans:
        start, end = max(begins, since), min(ends or until, until)
        if definition.is_schedule and start < end:
            known = known_until(definition, start, end)
            for draft in draft_occurrences(definition, start, known).drafts:
                key = draft.kind, draft.business_key, draft.cycle, draft.effective_date
                if placed.get(key) != number:
                    placed[key] = number
                    found.setdefault(key, []).append(draft)
    return found


def _changes(old: Sequence[ItemDraft], new: ItemDraft | None) -> Iterator[OccurrenceChange]:
    """Yield what happens to the occurrences of one identity: one is kept or moved."""
    stays = next((each for each in old if new and each.due_at == new.due_at), None)
    before = stays or next(iter(old), None) if new else None
    if new:
        yield _change(before, new)
    for each in old:
        if each is not before:
            yield _change(each, None)


def _change(old: ItemDraft | None, new: ItemDraft | None) -> OccurrenceChange:
    draft = new or old
    if draft is None:
        raise ValueError("neither before nor after")
    if old is None:
        kind = ChangeKind.ADDED
    elif new is None:
        kind = ChangeKind.REMOVED
    else:
        kind = ChangeKind.KEPT if old.due_at == new.due_at else ChangeKind.MOVED
    return OccurrenceChange(
        kind,
        draft.cycle,
        draft.zone or "UTC",
        None if new is None else new.due_at,
        None if old is None else old.due_at,
    )


def _changed(before: Definition | None, after: Definition) -> tuple[tuple[str, Any, Any], ...]:
    old = _NOTHING if before is None else before.normalised()
    return tuple(value_changes(old, after.normalised()))


def value_changes(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> list[tuple[str, Any, Any]]:
    """Return the members of two documents that differ, by name: each before and after, or None."""
    pairs = ((name, before.get(name), after.get(name)) for name in sorted({**before, **after}))
    return [each for each in pairs if each[1] != each[2]]
