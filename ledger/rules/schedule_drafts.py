"""What a schedule owes: its occurrences as drafts, smeared, and what it missed. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import repeat
from typing import Any, Final

import orjson

from dueledger.ledger.definitions.model import Definition
from dueledger.ledger.errors import InvalidItem, Problem
from dueledger.ledger.identity import item_id
from dueledger.ledger.rules.drafts import ItemDraft, Overlap, SkippedDraft
from dueledger.ledger.schedule import (
    AfterCompletion,
    Decision,
    Occurrence,
    Relative,
    ScheduleWindow,
    Skipped,
    expand,
    load_zone,
    tzdata_version,
)
from dueledger.ledger.schedule.expansion import TIMES_MAX
from dueledger.ledger.schedule.smear import gaps_after, smear_seconds

MISSED_REASON: Final = "catch_up"
"""Why an occurrence is recorded as skipped that was missed and is owed no more."""

TRIGGERED_PREFIX: Final = "manual-"
"""How the cycle of a round begins that a person triggered."""

EXPANSION_TIMES_MAX: Final = 250_000
"""Local times looked at for one stretch that is materialised, at most: a fraction of a second.

More than a day has that no calendar heaps up; a definition beyond it fails, for others wait for it.
"""

OVERLAPS: Final[Mapping[str, Overlap | None]] = {
    "allow": None,
    "skip": Overlap.SKIP,
    "buffer_one": Overlap.BUFFER_ONE,
    "buffer_all": Overlap.WAIT,
    "cancel_other": Overlap.CANCEL_OTHER,
}


_NO_OFFSET: Final = timedelta(0)


@dataclass(frozen=True, slots=True)
class ScheduleDrafts:
    """What a schedule owes in a window: items, and occurrences recorded as skipped."""

    drafts: list[ItemDraft]
    skipped: list[SkippedDraft]


def draft_occurrences(definition: Definition, start: datetime, end: datetime) -> ScheduleDrafts:
    """Return what a schedule owes in the half-open [start, end), in order of time.

    Cycle is the nominal local time, with ``#2`` for the second of two instants that are both
    owed; the effective date is the nominal local date.
    """
    return draft_window(definition, expand_schedule(definition, start, end), end)


def expand_schedule(
    definition: Definition, start: datetime, end: datetime, *, times_max: int = TIMES_MAX
) -> ScheduleWindow:
    """Return a schedule's own occurrences in the half-open [start, end), not yet smeared.

    Raises WindowTooLarge and BeyondCalendar as `expand` does.
    """
    when = definition.when
    if isinstance(when, Relative):
        problem = Problem("when", "relative", "hangs on an event; it has no window of its own")
        raise InvalidItem(f"{definition.definition} is no schedule.", [problem])
    if isinstance(when, AfterCompletion):
        return ScheduleWindow((), ())  # only what ends owes the next: see draft_first
    return expand(when, start, end, definition.observance(), times_max=times_max)


def draft_window(
    definition: Definition,
    window: ScheduleWindow,
    end: datetime,
    *,
    owed_from: datetime | None = None,
) -> ScheduleDrafts:
    """Return the drafts of a window that was expanded up to `end`.

    What was due before `owed_from` is recorded as skipped: it was missed.
    """
    constant = _constant_fields(definition)
    smears = _smears(definition, window, end)
    owed: list[ItemDraft] = []
    skipped = [
        SkippedDraft(_skipped_draft(constant, definition, each), each.reason.value)
        for each in window.skipped
    ]
    for found, smear in zip(window.occurrences, smears, strict=True):
        draft = _scheduled_draft(constant, definition, found, smear)
        if owed_from is not None and found.due_at < owed_from:
            skipped.append(SkippedDraft(draft, MISSED_REASON))
        else:
            owed.append(draft)
    return ScheduleDrafts(owed, skipped)


def draft_chain_start(definition: Definition, when: AfterCompletion, at: datetime) -> ItemDraft:
    """Return the item that begins the chain of a fixed delay at an instant."""
    return _scheduled_draft(_constant_fields(definition), definition, when.first(at))


def draft_triggered(definition: Definition, name: str, at: datetime) -> ItemDraft:
    """Return the item of a schedule that a person wants at an instant, as a round `name`.

    Its cycle has a form that no schedule makes, so that it stands beside the rounds, never in the
    place of one; the effective date is the local date.
    """
    sla = definition.sla
    return ItemDraft(
        **_constant_fields(definition),
        cycle=TRIGGERED_PREFIX + name.removeprefix(TRIGGERED_PREFIX),
        effective_date=local_time(definition, at).date(),
        due_at=at,
        start_by=at + sla.start_within if sla.start_within else None,
        complete_by=at + sla.complete_within if sla.complete_within else None,
        decision="triggered",
    )


def local_time(definition: Definition, at: datetime) -> datetime:
    """Return an instant as the schedule's own clock shows it, naive."""
    zone = load_zone(getattr(definition.when, "timezone", "UTC"))
    return at.astimezone(zone).replace(tzinfo=None)


def cycle_of(nominal: datetime, decision: Decision = Decision.EXACT) -> str:
    """Return the name of a recurring schedule's round."""
    text = nominal.isoformat(
        timespec="microseconds"
        if nominal.microsecond
        else "seconds"
        if nominal.second
        else "minutes"
    )
    return f"{text}#2" if decision is Decision.FOLD_BOTH_SECOND else text


def reissue_cycle(cycle: str, issue: int) -> str:
    """Return the name of a round's second, third … issue; the first has the name as it is.

    A round that a version or a tz database ended, and a later one owes again, is a new item: what
    has ended never changes.
    """
    return cycle if issue == 1 else f"{cycle}~{issue}"


def issue_draft(draft: ItemDraft, issue: int) -> ItemDraft:
    """Return a round's second, third … issue, given its first."""
    return draft if issue == 1 else replace(draft, cycle=reissue_cycle(draft.cycle, issue))


def split_issue(cycle: str) -> tuple[str, int]:
    """Return a schedule's round and which issue of it a cycle names."""
    base, _, issue = cycle.partition("~")
    return base, int(issue) if issue.isdecimal() else 1


def _constant_fields(definition: Definition) -> dict[str, Any]:
    labels = definition.labels
    return {
        "tenant": definition.tenant,
        "kind": definition.kind,
        "lane": labels[definition.lane] if definition.lane else "",
        "business_key": definition.business_key,
        "payload": orjson.dumps(definition.payload).decode(),
        "labels": orjson.dumps(labels).decode() if labels else None,
        "definition_name": definition.definition,
        "zone": getattr(definition.when, "timezone", "UTC"),
        "tzdata": tzdata_version(),
        "overlap": OVERLAPS[definition.overlap],
        "overlap_key": None if definition.overlap == "allow" else definition.definition,
    }


def _smears(
    definition: Definition, window: ScheduleWindow, end: datetime
) -> Iterable[tuple[timedelta, timedelta] | None]:
    """Return, of each occurrence, the smear's window and the time until the next one."""
    smear, found = definition.smear, window.occurrences
    if smear is None or not found:
        return repeat(None, len(found))
    reach = found[-1].due_at + smear
    following = expand_schedule(definition, end, reach).occurrences if reach > end else ()
    return zip(repeat(smear), gaps_after(found, following))


def _scheduled_draft(
    constant: Mapping[str, Any],
    definition: Definition,
    found: Occurrence,
    smear: tuple[timedelta, timedelta] | None = None,
) -> ItemDraft:
    sla, due_at, smear_by = definition.sla, found.due_at, None
    nominal, effective_date = cycle_of(found.nominal), found.nominal.date()
    second = found.decision is Decision.FOLD_BOTH_SECOND
    cycle = cycle_of(found.nominal, found.decision) if second else nominal
    if smear is not None:
        identity = constant["tenant"], constant["kind"], constant["business_key"]
        smear_by = smear_seconds(item_id(*identity, cycle, effective_date), *smear)
        due_at += timedelta(seconds=smear_by)
    return ItemDraft(
        **constant,
        cycle=cycle,
        effective_date=effective_date,
        due_at=due_at,
        start_by=due_at + sla.start_within if sla.start_within else None,
        complete_by=due_at + sla.complete_within if sla.complete_within else None,
        nominal=nominal,
        decision=found.decision.value,
        smear_seconds=smear_by,
    )


def _skipped_draft(
    constant: Mapping[str, Any], definition: Definition, skipped: Skipped
) -> ItemDraft:
    found = Occurrence(skipped.at, skipped.nominal, _NO_OFFSET, skipped.decision)
    return _scheduled_draft(constant, definition, found)
