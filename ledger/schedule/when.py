"""The union of every kind of `when`; its own field identifies each: `cron`, `every` and so on.

To add a kind: a module with one frozen model whose first field has the kind's name and which
is LocalTimes with `ruling` and `estimate` (it recurs by itself), or has `due_for` (it counts
from a date) or `first` (each follows the one before). Here: one line in RECURRING, DATED or
CHAINED, one in KINDS and one in `Recurring` or `When`. These treat some kinds apart: `falls_due.py`
and `smear.py`; `model.py` and `parsing.py` of `definitions`; `event_rules.py`, `schedule_drafts.py`
and `calendar_change.py` of `rules`; `tz_difference.py` and `version_expansion.py` of `materialise`;
the `witness`; the reconciler's `expect`; `preview`, `planning`, `importers`, and their commands.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Final, TypeAlias, cast

from pydantic import BaseModel, Discriminator, Tag

from dueledger.ledger.errors import InvalidInput, Problem, WindowTooLarge
from dueledger.ledger.schedule.after_completion import AfterCompletion
from dueledger.ledger.schedule.at import At
from dueledger.ledger.schedule.business import Business
from dueledger.ledger.schedule.calendars import Roll
from dueledger.ledger.schedule.cron import Cron
from dueledger.ledger.schedule.every import Every
from dueledger.ledger.schedule.expansion import TIMES_MAX, ExactDays, expand_parts, expand_window
from dueledger.ledger.schedule.observance import Observance, weekdays_rule
from dueledger.ledger.schedule.relative import Relative
from dueledger.ledger.schedule.resolution import Occurrence, ScheduleWindow
from dueledger.ledger.schedule.rrule import Rrule

OCCURRENCES_MAX: Final = 2_000_000
_SHARED_OCCURRENCES_MAX: Final = 100  # of 1,024 windows, with columns, some 40 MB at most
_SHARED_MAX: Final = timedelta(days=31)
_SLICE_OCCURRENCES: Final = 20_000
_SLICE_MIN: Final = timedelta(hours=1)
DUE_MIN: Final = datetime(1970, 1, 1, tzinfo=UTC)
DUE_END: Final = datetime(2200, 1, 1, tzinfo=UTC)

RECURRING: Final = (Cron, Rrule, Every, At, Business)
DATED: Final = (Relative,)
CHAINED: Final = (AfterCompletion,)
KINDS: Final = ("cron", "rrule", "every", "after_completion", "at", "business", "relative")
_TIMED: Final = frozenset({"business", "relative"})  # their time of day is called `at`, too

Recurring: TypeAlias = Cron | Rrule | Every | At | Business


def kind_of(when: object) -> str | None:
    """Return the kind that a raw or read `when` is, or None where it is none or several."""
    if isinstance(when, Mapping):
        keys = set(cast("Mapping[str, object]", when))
    else:
        keys = set(type(when).model_fields) if isinstance(when, BaseModel) else set[str]()
    kinds = named_kinds(keys)
    return kinds[0] if len(kinds) == 1 else None


def named_kinds(keys: AbstractSet[str]) -> list[str]:
    """Return the kinds that a document's fields name."""
    if keys & _TIMED:
        keys -= {"at"}
    return [kind for kind in KINDS if kind in keys]


When = Annotated[
    Annotated[Cron, Tag("cron")]
    | Annotated[Rrule, Tag("rrule")]
    | Annotated[Every, Tag("every")]
    | Annotated[AfterCompletion, Tag("after_completion")]
    | Annotated[At, Tag("at")]
    | Annotated[Business, Tag("business")]
    | Annotated[Relative, Tag("relative")],
    Discriminator(kind_of),
]


def expand(
    when: Recurring,
    start: datetime,
    end: datetime,
    observance: Observance | None = None,
    *,
    times_max: int = TIMES_MAX,
) -> ScheduleWindow:
    """Return the occurrences of a recurring `when` whose instants lie in [start, end).

    Windows compose: two that touch give what their union gives. Both bounds are aware; times
    outside 1970 to 2199 have no occurrence. Raises WindowTooLarge if the window has too many
    occurrences, or a calendar rolls more than `times_max` local times into it, and
    BeyondCalendar where the answer depends on days that the calendar does not know. `business`
    without a calendar counts Monday to Friday.
    """
    if start.tzinfo is None or end.tzinfo is None:
        problem = Problem("start, end", f"{start}, {end}", "a bound without an offset")
        raise InvalidInput("A window needs instants.", [problem])
    low, high = max(start, DUE_MIN), min(end, DUE_END)
    if low >= high:
        return ScheduleWindow((), ())
    estimate = _estimate(when, low, high)
    if isinstance(when, Business):
        return when.observed(low, high, observance or _WEEKDAYS)
    if observance is not None:
        return expand_window(when, when.ruling, observance, (low, high), times_max)
    if isinstance(when, Every):
        return when.expand(low, high)
    if estimate <= _SHARED_OCCURRENCES_MAX and high - low <= _SHARED_MAX:
        return _expand_shared(when, low, high)  # pyright: ignore[reportArgumentType] - frozen
    return expand_window(when, when.ruling, None, (low, high))


def expand_days(
    when: Recurring, start: datetime, end: datetime
) -> Iterator[ExactDays | ScheduleWindow]:
    """Yield what `expand` returns without a calendar, in parts: most of it by days, unexpanded."""
    low, high = max(start, DUE_MIN), min(end, DUE_END)
    if low >= high:
        return
    if isinstance(when, Business | Every) or _estimate(when, low, high) <= _SHARED_OCCURRENCES_MAX:
        yield expand(when, low, high)
    else:
        yield from expand_parts(when, when.ruling, (low, high))


def _estimate(when: Recurring, low: datetime, high: datetime) -> float:
    estimate = when.estimate(low, high)
    if estimate > OCCURRENCES_MAX:
        raise WindowTooLarge(
            f"From {low.isoformat()} to {high.isoformat()} there are more than "
            f"{OCCURRENCES_MAX:,} occurrences; ask for a shorter window."
        )
    return estimate


def expand_in_slices(when: Recurring, start: datetime, end: datetime) -> Iterator[ScheduleWindow]:
    """Yield windows that together are that of `expand` without a calendar, in order.

    Each has some ten thousands of occurrences at most, so that a long window takes little memory.
    Raises WindowTooLarge before the first.
    """
    low, last = max(start, DUE_MIN), min(end, DUE_END)
    left = _estimate(when, low, last) if low < last else 0.0
    while low < last:
        span = max(_SLICE_MIN, (last - low) * min(1.0, _SLICE_OCCURRENCES / max(left, 1.0)))
        high = min(last, low + span)
        yield expand(when, low, high)
        low, left = high, when.estimate(high, last)


@lru_cache(maxsize=1024)
def _expand_shared(when: Cron | Rrule | At, low: datetime, high: datetime) -> ScheduleWindow:
    """Expand a short window, once for all definitions of the same rule."""
    return expand_window(when, when.ruling, None, (low, high))


def due_for(
    when: Relative, effective_date: date, observance: Observance | None = None
) -> Occurrence:
    """Return when the item of this effective date is due."""
    return when.due_for(effective_date, observance)


_WEEKDAYS: Final = Observance(weekdays_rule().calendar(), Roll.SKIP)
