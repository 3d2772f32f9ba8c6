"""Drafts of what a schedule owes: its occurrences, smeared, and those it missed. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import repeat
from typing import Any, Final

import orjson

from dueledger.ledger.definitions.model import Definition
from dueledger.ledger.errors import InvalidItem, Problem
from dueledger.ledger.identity import item_id
from dueledger.ledger.rules.draft_runs import DraftRun
from dueledger.ledger.rules.drafts import ItemDraft, Overlap, SkippedDraft
from dueledger.ledger.schedule import (
    RECURRING,
    AfterCompletion,
    Decision,
    Occurrence,
    OccurrenceColumns,
    Relative,
    Roll,
    ScheduleWindow,
    Skipped,
    cycle_of,
    expand,
    load_zone,
    tzdata_version,
)
from dueledger.ledger.schedule.expansion import TIMES_MAX
from dueledger.ledger.schedule.smear import gaps_after, smear_seconds

MISSED_REASON: Final = "catch_up"
"""The reason of a skipped occurrence that was missed and is no longer owed."""

TRIGGERED_PREFIX: Final = "manual-"
"""Prefix of the cycle of an item that a person triggered."""

EXPANSION_TIMES_MAX: Final = 250_000
"""Local times examined for one window at most when a schedule is materialised: a fraction of a
second.

If a window has more, a shorter one is materialised. A definition that exceeds it within a second
fails, because others wait.
"""

ROLLED_MAX: Final = 1_000_000
"""About how many occurrences a calendar may roll onto one day: each is recorded."""

OVERLAPS: Final[Mapping[str, Overlap | None]] = {
    "allow": None,
    "skip": Overlap.SKIP,
    "buffer_one": Overlap.BUFFER_ONE,
    "buffer_all": Overlap.WAIT,
    "cancel_other": Overlap.CANCEL_OTHER,
}


_NO_OFFSET: Final = timedelta(0)
_SOME_YEAR: Final = datetime(2027, 1, 1, tzinfo=UTC)
_YEAR: Final = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class ScheduleDrafts:
    """What a schedule owes in a window: items, and occurrences recorded as skipped."""

    drafts: Sequence[ItemDraft]
    skipped: list[SkippedDraft]

    def __add__(self, other: "ScheduleDrafts") -> "ScheduleDrafts":
        """Return what both owe."""
        if not (self.drafts and other.drafts):
            return ScheduleDrafts(self.drafts or other.drafts, self.skipped + other.skipped)
        return ScheduleDrafts([*self.drafts, *other.drafts], self.skipped + other.skipped)

    def effective_dates(self) -> set[date]:
        """Return the effective dates of all."""
        drafts = self.drafts
        owed = (
            drafts.effective_dates
            if isinstance(drafts, DraftRun)
            else (draft.effective_date for draft in drafts)
        )
        return {*owed, *(skip.draft.effective_date for skip in self.skipped)}

    def each(self) -> Iterator[tuple[ItemDraft, str | None]]:
        """Yield the draft of each occurrence; with the reason if it is skipped."""
        yield from ((draft, None) for draft in self.drafts)
        yield from ((skip.draft, skip.reason) for skip in self.skipped)


def draft_occurrences(definition: Definition, start: datetime, end: datetime) -> ScheduleDrafts:
    """Return what a schedule owes in the half-open [start, end), in order of time.

    The cycle is the nominal local time, with ``#2`` for the second of two instants that are both
    owed; the effective date is the nominal local date.
    """
    return draft_window(definition, expand_schedule(definition, start, end), end)


def expand_schedule(
    definition: Definition, start: datetime, end: datetime, *, times_max: int = TIMES_MAX
) -> ScheduleWindow:
    """Return a schedule's own occurrences in the half-open [start, end), before smear.

    Raises WindowTooLarge and BeyondCalendar as `expand` does.
    """
    when = definition.when
    if isinstance(when, Relative):
        problem = Problem("when", "relative", "counts from an event's date; it has no window")
        raise InvalidItem(f"{definition.definition} is not a schedule.", [problem])
    if when is None or definition.ended:
        return ScheduleWindow((), ())
    if isinstance(when, AfterCompletion):
        return ScheduleWindow((), ())  # the end of an item owes the next: see draft_chain_start
    return expand(when, start, end, definition.observance(), times_max=times_max)


def rolled_onto_one_day(definition: Definition) -> int:
    """Return about how many occurrences the calendar rolls onto one day at most, by arithmetic."""
    when, observance = definition.when, definition.observance()
    if observance is None or observance.roll is Roll.SKIP or not isinstance(when, RECURRING):
        return 0
    of_day = when.estimate(_SOME_YEAR, _SOME_YEAR + _YEAR) / _YEAR.days
    return round(of_day * (1 + observance.calendar.closed_days_max))


def draft_window(
    definition: Definition,
    window: ScheduleWindow,
    end: datetime,
    *,
    owed_from: datetime | None = None,
) -> ScheduleDrafts:
    """Return the drafts of a window that was expanded up to `end`.

    Occurrences due before `owed_from` are recorded as skipped: they were missed.
    """
    constant = _constant_fields(definition)
    skipped = [
        SkippedDraft(_skipped_draft(constant, definition, each), skip_reason_of(each))
        for each in window.skipped
    ]
    missed = owed_from is not None and any(each.due_at < owed_from for each in window.occurrences)
    if definition.smear is None and not missed:
        return ScheduleDrafts(_draft_run(constant, definition, window.columns), skipped)
    smears = _smears(definition, window, end)
    owed: list[ItemDraft] = []
    for found, smear in zip(window.occurrences, smears, strict=True):
        draft = _scheduled_draft(constant, definition, found, smear)
        if owed_from is not None and found.due_at < owed_from:
            skipped.append(SkippedDraft(draft, MISSED_REASON))
        else:
            owed.append(draft)
    return ScheduleDrafts(owed, skipped)


def draft_chain_start(definition: Definition, when: AfterCompletion, at: datetime) -> ItemDraft:
    """Return the first item of a fixed-delay chain, due at `at`."""
    return _scheduled_draft(_constant_fields(definition), definition, when.first(at))


def draft_triggered(definition: Definition, name: str, at: datetime) -> ItemDraft:
    """Return the item of a schedule that a person triggered for an instant, as occurrence `name`.

    Its cycle has a form that no schedule makes, so it never replaces an occurrence of the
    schedule. The effective date is the local date.
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
    """Return an instant as local time of the schedule's zone, naive."""
    zone = load_zone(getattr(definition.when, "timezone", "UTC"))
    return at.astimezone(zone).replace(tzinfo=None)


def skip_reason_of(skipped: Skipped) -> str:
    """Return the reason to record; of a merged occurrence with the cycle of the one owed."""
    if skipped.into is None:
        return skipped.reason.value
    return f"{skipped.reason.value} {cycle_of(skipped.into.nominal, skipped.into.decision)}"


def reissue_cycle(cycle: str, issue: int) -> str:
    """Return the cycle of an occurrence's second, third … issue; the first keeps the cycle.

    If a version or a tz database ended an occurrence's item and a later one owes it again, that
    is a new item: an ended item never changes.
    """
    return cycle if issue == 1 else f"{cycle}~{issue}"


def issue_draft(draft: ItemDraft, issue: int) -> ItemDraft:
    """Return an occurrence's second, third … issue, given its first."""
    return draft if issue == 1 else replace(draft, cycle=reissue_cycle(draft.cycle, issue))


def split_issue(cycle: str) -> tuple[str, int]:
    """Return the occurrence and the issue that a schedule's cycle names."""
    base, _, issue = cycle.partition("~")
    return base, int(issue) if issue.isdecimal() else 1


def _constant_fields(definition: Definition) -> dict[str, Any]:
    labels = definition.labels
    return {
        "tenant": definition.tenant,
        "kind": definition.kind,
        "lane": labels[definition.lane] if definition.lane else "",
        "business_key": definition.business_key,
        "payload": orjson.dumps(definition.payload, option=orjson.OPT_SORT_KEYS).decode(),
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
    """Return the smear's window and the time until the next occurrence, for each occurrence."""
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


def _draft_run(
    constant: Mapping[str, Any], definition: Definition, columns: OccurrenceColumns
) -> DraftRun:
    start_within, complete_within = definition.sla.start_within, definition.sla.complete_within
    return DraftRun(
        constant,
        columns,
        [due_at + start_within for due_at in columns.due_ats] if start_within else None,
        [due_at + complete_within for due_at in columns.due_ats] if complete_within else None,
    )


def _skipped_draft(
    constant: Mapping[str, Any], definition: Definition, skipped: Skipped
) -> ItemDraft:
    found = Occurrence(skipped.at, skipped.nominal, _NO_OFFSET, skipped.decision)
    return _scheduled_draft(constant, definition, found)
