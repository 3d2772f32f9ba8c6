"""What is still owed of the occurrences that a schedule missed. Pure.

Missed is what was due before it was materialised: a definition that failed for days, a process
that was away longer than the horizon, a definition that begins in the past.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from dueledger.ledger.definitions.model import Definition
from dueledger.ledger.rules.schedule_drafts import expand_schedule
from dueledger.ledger.schedule import RECURRING, Occurrence

RECORDED_MAX: Final = 1_000
"""How many may be missed, where a definition does not say, and each still has a record."""

COUNTED_MAX: Final = 100_000
"""How many occurrences of one definition are counted in one pass, about."""

_STEP_MIN: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class CatchUpDecision:
    """Of what was missed, that due at `owed_from` or later is owed.

    `in_one`: the rest is one record with its count and range, not a record each.
    """

    owed_from: datetime
    as_one_range: bool


@dataclass(frozen=True, slots=True)
class MissedRange:
    """How many occurrences of a definition, due in [from_at, until_at), are owed no more."""

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
    """Say what is still owed of what lies before `now` in [start, until).

    `until` is earlier than now where a newer version took over. The latest of all is owed once: of
    a version that is `outdated`, since a newer one has missed a later occurrence, none is.
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
    """Return the last `count` occurrences in [start, end), looking back no further than it must."""
    found: list[Occurrence] = []
    step = _stretch(definition, start, end, count)
    while end > start and len(found) < count:
        low = max(start, end - step)
        found = [*expand_schedule(definition, low, end).occurrences, *found]
        end, step = low, step * 2
    return found[-count:]


def count_missed(definition: Definition, start: datetime, end: datetime) -> MissedRange:
    """Count what lapses from `start` on, up to `end` or as far as about COUNTED_MAX reach."""
    until = min(end, start + _stretch(definition, start, end, COUNTED_MAX))
    window = expand_schedule(definition, start, until)
    return MissedRange(start, until, len(window.occurrences) + len(window.skipped))


def _stretch(definition: Definition, start: datetime, end: datetime, count: int) -> timedelta:
    """Return about how long [start, end) takes to hold so many occurrences."""
    when = definition.when
    expected = when.estimate(start, end) if isinstance(when, RECURRING) else 0.0
    if expected <= count:
        return max(end - start, _STEP_MIN)
    return max((end - start) * (count / expected), _STEP_MIN)
