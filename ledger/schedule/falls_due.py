"""Whether a rule ever has an occurrence: searched day by day, up to the first one.

A window up to that occurrence could have millions of times that a calendar skips.
"""

from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from typing import Final

from dueledger.ledger.errors import BeyondCalendar
from dueledger.ledger.schedule.at import At
from dueledger.ledger.schedule.business import Business
from dueledger.ledger.schedule.cron import Cron
from dueledger.ledger.schedule.every import Every
from dueledger.ledger.schedule.expansion import falls_due
from dueledger.ledger.schedule.local_rule import ResolutionPolicy
from dueledger.ledger.schedule.observance import Observance, roll_days_max
from dueledger.ledger.schedule.resolution import SCAN_MARGIN
from dueledger.ledger.schedule.rrule import Rrule
from dueledger.ledger.schedule.rrule_text import parse_rrule
from dueledger.ledger.schedule.when import DUE_END, DUE_MIN, Recurring, expand
from dueledger.ledger.schedule.zones import load_zone

YEARS_SEARCHED: Final = 8
"""How far an expression is searched: the longest wait of one that is not `sparse`."""

_SEARCHED: Final = timedelta(days=YEARS_SEARCHED * 366)
_COUNTED_MAX: Final = 1_000
_MONTHS: Final = timedelta(days=70)
_REFERENCE: Final = datetime(2024, 1, 1)  # noqa: DTZ001 -- naive by design; fixed, so no clock


def ever_due(when: Recurring, observance: Observance | None, since: datetime | None = None) -> bool:
    """Return whether a rule has an occurrence at `since` or later, or at all if that is None.

    An expression is searched for YEARS_SEARCHED, from its own start on. Also True if the answer
    depends on days that the calendar does not cover.
    """
    if observance is None and since is None:
        return _ever_due_shared(when)  # pyright: ignore[reportArgumentType] - frozen
    return _search(when, observance, since)


@lru_cache(maxsize=1024)
def _ever_due_shared(when: Recurring) -> bool:
    """Search once for all definitions of the same rule."""
    return _search(when, None, None)


def _search(when: Recurring, observance: Observance | None, since: datetime | None) -> bool:
    start = _begin(when) if since is None else max(_begin(when), since)
    first_day = None if observance is None else observance.calendar.first_day
    if first_day is not None:
        start = max(start, datetime.combine(first_day, time(), UTC))
    end = DUE_END if isinstance(when, Every | At) else min(DUE_END, start + _SEARCHED)
    if isinstance(when, Business):
        return _business_due(when, start, end, observance)
    # A calendar may roll an occurrence to before the beginning.
    first = max(start - SCAN_MARGIN - roll_days_max(observance), since or DUE_MIN)
    return falls_due(when, _ruling(when), observance, (first, end))


def _begin(when: Recurring) -> datetime:
    """Return the instant at which the search begins; there is no occurrence before it."""
    match when:
        case At():
            begin = when.at
        case Every():
            begin = max(when.anchor, when.start or when.anchor)
        case Cron():
            begin = when.begins
        case Rrule() | Business():
            begin = when.start or _REFERENCE
    return max(begin.replace(tzinfo=UTC) - SCAN_MARGIN, DUE_MIN)


def _business_due(
    when: Business, start: datetime, end: datetime, observance: Observance | None
) -> bool:
    """Try the next two months first: a month costs as much as many times of other rules."""
    try:
        return any(
            expand(when, start, until, observance).occurrences
            for until in (min(end, start + _MONTHS), end)
        )
    except BeyondCalendar:
        return True


def _ruling(when: Cron | Rrule | Every | At) -> ResolutionPolicy:
    """Return how its times are resolved; without COUNT if counting takes long: some remain."""
    if isinstance(when, Rrule) and (parse_rrule(when.rrule).count or 0) > _COUNTED_MAX:
        return ResolutionPolicy(load_zone(when.timezone), when.gap, when.fold)
    return when.ruling
