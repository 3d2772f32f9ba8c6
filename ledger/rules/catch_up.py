"""Decide which of a schedule's missed occurrences are still owed. Pure.

An occurrence is missed if it was due before it was materialised: the definition failed for days,
the process was stopped for longer than the horizon, or the definition begins in the past.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from dueledger.ledger.definitions.model import Definition
from dueledger.ledger.rules.schedule_drafts import expand_schedule
from dueledger.ledger.schedule import RECURRING, Occurrence

RECORDED_MAX: Final = 1_000
"""How many missed occurrences have a record each, if a definition does not say."""

COUNTED_MAX: Final = 100_000
"""About how many occurrences of one definition are counted in one pass."""

_STEP_MIN: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class CatchUpDecision:
    """Missed occurrences due at `owed_from` or later are owed.

    `as_one_range`: the others are recorded as one range with its count, not each.
    """

    owed_from: datetime
    as_one_range: bool


@dataclass(frozen=True, slots=True)
class MissedRange:
    """How many occurrences of a definition, due in [from_at, until_at), are no longer owed."""

    from_at: datetime
    until_at: datetime
    occurrences: int


def decide_catch_up(
    definition: Definition,
    start: datetime,
    until: datetime,
    now: datetime,
    *,
    outdated: bool = False,
) -> CatchUpDecision:
    """Return which occurrences before `now` in [start, until) are still owed.

    `until` is earlier than now if a newer version replaced this one. Policy `latest` owes one
    occurrence; an `outdated` version owes none, since a newer version missed a later one.
    """
    catch_up, end = definition.catch_up, min(until, now)
    if catch_up.keeps_all or start >= end:
        return CatchUpDecision(start, as_one_range=False)
    limit = catch_up.max_items or RECORDED_MAX
    latest = find_latest(definition, start, end, limit + 1)
    too_many = len(latest) > limit
    match catch_up.policy:
        case "all":
            capped = too_many and catch_up.max_items is not None
            owed_from = latest[-limit].due_at if capped else start
        case "latest":
            owed_from = latest[-1].due_at if latest and not outdated else end
        case "skip":
            owed_from = end
    if catch_up.window is not None:
        owed_from = min(max(owed_from, now - catch_up.window), end)
    return CatchUpDecision(owed_from, as_one_range=too_many)


def find_latest(
    definition: Definition, start: datetime, end: datetime, count: int
) -> list[Occurrence]:
    """Return the last `count` occurrences in [start, end), reading back no further than needed."""
    found: list[Occurrence] = []
    step = _window_length(definition, start, end, count)
    while end > start and len(found) < count:
        low = max(start, end - step)
        found = [*expand_schedule(definition, low, end).occurrences, *found]
        end, step = low, step * 2
    return found[-count:]


def count_missed(definition: Definition, start: datetime, end: datetime) -> MissedRange:
    """Count missed occurrences from `start` to `end`, or to about COUNTED_MAX of them."""
    until = min(end, start + _window_length(definition, start, end, COUNTED_MAX))
    window = expand_schedule(definition, start, until)
    return MissedRange(start, until, len(window.occurrences) + len(window.skipped))


def _window_length(definition: Definition, start: datetime, end: datetime, count: int) -> timedelta:
    """Return about the length of the part of [start, end) with `count` occurrences."""
    when = definition.when
    expected = when.estimate(start, end) if isinstance(when, RECURRING) else 0.0
    if expected <= count:
        return max(end - start, _STEP_MIN)
    return max((end - start) * (count / expected), _STEP_MIN)
