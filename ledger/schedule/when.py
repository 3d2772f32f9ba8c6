"""The union of every kind of `when`; its own key tells each: `cron`, `every` and so on.

To add a kind: a module with one frozen model whose first field bears the kind's name and which
has `expand` and `estimate` (it recurs by itself) or `due_for` (it hangs on a date); then one line
in RECURRING or DATED and one in `When`, and the name leaves LATER_KINDS.
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Annotated, Final, cast

from pydantic import BaseModel, Discriminator, Tag

from ledger.errors import InvalidInput, Problem, WindowTooLarge
from ledger.schedule.cron import Cron
from ledger.schedule.every import Every
from ledger.schedule.relative import Relative
from ledger.schedule.resolution import Occurrence, Window

OCCURRENCES_MAX: Final = 2_000_000
DUE_MIN: Final = datetime(1970, 1, 1, tzinfo=UTC)
DUE_END: Final = datetime(2200, 1, 1, tzinfo=UTC)

RECURRING: Final = (Cron, Every)
DATED: Final = (Relative,)
KINDS: Final = ("cron", "every", "relative")
LATER_KINDS: Final = ("rrule", "after_completion", "at", "business")


def kind_of(when: object) -> str | None:
    """Return the kind that a raw or read `when` is, or None where it is none or several."""
    if isinstance(when, Mapping):
        keys = set(cast("Mapping[str, object]", when))
    else:
        keys = set(type(when).model_fields) if isinstance(when, BaseModel) else set[str]()
    kinds = [kind for kind in KINDS if kind in keys]
    return kinds[0] if len(kinds) == 1 else None


When = Annotated[
    Annotated[Cron, Tag("cron")]
    | Annotated[Every, Tag("every")]
    | Annotated[Relative, Tag("relative")],
    Discriminator(kind_of),
]


def expand(when: Cron | Every, start: datetime, end: datetime) -> Window:
    """Return the occurrences of a recurring `when` whose instants lie in [start, end).

    Windows compose: two that touch give what their union gives. Both bounds are aware; what lies
    outside 1970 to 2199 is not owed. Raises WindowTooLarge instead of expanding without bound.
    """
    if start.tzinfo is None or end.tzinfo is None:
        problem = Problem("start, end", f"{start}, {end}", "a bound without an offset")
        raise InvalidInput("A window needs instants.", [problem])
    low, high = max(start, DUE_MIN), min(end, DUE_END)
    if low >= high:
        return Window((), ())
    if when.estimate(low, high) > OCCURRENCES_MAX:
        raise WindowTooLarge(
            f"From {low.isoformat()} to {high.isoformat()} there are more than "
            f"{OCCURRENCES_MAX:,} occurrences; ask for a shorter window."
        )
    return when.expand(low, high)


def due_for(when: Relative, effective_date: date) -> Occurrence:
    """Return when the item of this effective date is due."""
    return when.due_for(effective_date)
