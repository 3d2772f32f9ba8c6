"""The sentences of a preview: for each occurrence, and for each clock change."""

from datetime import datetime, timedelta
from typing import Final

from dueledger.ledger.schedule import Decision, Occurrence, ScheduleWindow, Skipped, SkipReason
from dueledger.preview.clock_changes import ClockChange, clock_changes
from dueledger.time_spans import brief_span

_DAY: Final = timedelta(days=1)
_WORDS: Final = {
    Decision.GAP_SHIFTED_FORWARD: "{time} does not exist on this day: {late} later, at {shown}",
    Decision.GAP_END: "{time} does not exist on this day: right after the gap, at {shown}",
    Decision.ROLLED: "{day} is not a business day: on {shown_day}",
    Decision.FOLD_FIRST: "{time} exists twice on this day: the first one is used",
    Decision.FOLD_SECOND: "{time} exists twice on this day: the second one is used",
    Decision.FOLD_BOTH_FIRST: "{time} exists twice on this day: both are used, this is the first",
    Decision.FOLD_BOTH_SECOND: "{time} exists twice on this day: both are used, this is the second",
}


def decision_words(found: Occurrence) -> str:
    """Return how an instant was found; empty if it is the nominal time itself."""
    shown = found.local
    if found.decision is Decision.EXACT:
        return ""
    words = _WORDS.get(found.decision, found.decision.value.replace("_", " "))
    late = shown - found.nominal
    if not timedelta() <= late <= _DAY:
        late %= _DAY  # rolled to another day, and delayed by this much there
    return words.format(
        time=_time(found.nominal),
        shown=_time(shown),
        late=brief_span(late),
        day=_day(found.nominal),
        shown_day=_day(shown),
    )


def smear_words(seconds: int) -> str:
    """Return how much later an item is due by its smear; empty if it is not."""
    return f"smeared: due {brief_span(timedelta(seconds=seconds))} later" if seconds else ""


def skip_words(found: Skipped) -> str:
    """Return why a nominal time has no occurrence."""
    instead = "skipped"
    rolled = found.reason is SkipReason.CALENDAR
    if found.into is not None:
        rolled = found.into.nominal.date() != found.nominal.date()
        into = _day(found.into.nominal) if rolled else _time(found.into.nominal)
        instead = f"merged into {into}, which is due at the same instant"
    if rolled:
        return f"{_day(found.nominal)} is not a business day: {instead}"
    return f"{_time(found.nominal)} does not exist on this day: {instead}"


def change_rows(
    window: ScheduleWindow, zone: str, start: datetime, end: datetime
) -> list[dict[str, object]]:
    """Return a row for each clock change in [start, end), with its effect on `window`."""
    moved = [found for found in window.occurrences if found.decision is not Decision.EXACT]
    odd = ScheduleWindow(tuple(moved), window.skipped)
    return [
        {
            "clocks_change": change.before.isoformat(sep=" "),
            "to": _time(change.after),
            "by": f"{brief_span(abs(change.jump))} {_direction(change)}",
            "decision": _effect(odd, change),
        }
        for change in clock_changes(zone, start, end)
    ]


def _direction(change: ClockChange) -> str:
    return "forward" if change.jump > timedelta() else "back"


def _effect(window: ScheduleWindow, change: ClockChange) -> str:
    """Return what happens to the nominal times that the change skips or repeats."""
    low, high = sorted((change.before, change.after))
    moved = [decision_words(found) for found in window.occurrences if low <= found.nominal < high]
    skipped = [skip_words(found) for found in window.skipped if low <= found.nominal < high]
    sentences = [*moved, *skipped]
    if not sentences:
        return "no occurrence is affected"
    more = f", and {len(sentences) - 1} more" if len(sentences) > 1 else ""
    return sentences[0] + more


def _day(nominal: datetime) -> str:
    return f"{nominal:%A}, {nominal.date().isoformat()}"


def _time(nominal: datetime) -> str:
    return nominal.time().isoformat("seconds" if nominal.second else "minutes")
