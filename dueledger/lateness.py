"""How many items are late, and how long they have been due, as a histogram."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any, Final, NamedTuple

from dueledger.items import ListedItems
from dueledger.ledger.store.connection import Connection
from dueledger.ledger.store.item_lists import count_late_items

LATENESS_READ: Final = 200
"""Late items that a histogram is of, at most: those that have been due longest."""
WORST: Final = 20
LATE_COUNTED_MAX: Final = 2_000
"""Items that wait read to count those that are late, where more are than were listed."""
_BOUNDS: Final = (
    timedelta(minutes=5),
    timedelta(hours=1),
    timedelta(hours=6),
    timedelta(days=1),
    timedelta(days=3),
)
_WORDS: Final = ("under 5 min", "5–60 min", "1–6 h", "6–24 h", "1–3 d", "over 3 d")


class LateCount(NamedTuple):
    """How many items are late; at least so many, if it is capped."""

    items: int
    capped: bool


class LatenessBar(NamedTuple):
    """How many items have been due so long, and their percentage of the longest bar.

    `below_seconds` is None for the longest time.
    """

    words: str
    from_seconds: int
    below_seconds: int | None
    items: int
    share: int


async def count_late(
    connection: Connection, late: ListedItems, flows: Sequence[Mapping[str, Any]]
) -> LateCount:
    """Return how many items are late: at least that many, if not all of them were listed.

    `flows` are those that are late, of `read_status`.
    """
    if late.next_place is None and not late.is_cut:
        return LateCount(len(late.items), capped=False)
    largest_first = sorted(flows, key=itemgetter("due"), reverse=True)
    waiting = await count_late_items(
        connection, [flow["flow_no"] for flow in largest_first], read_max=LATE_COUNTED_MAX
    )
    return LateCount(max(waiting, len(late.items)), capped=True)


def lateness_bars(items: Sequence[Mapping[str, Any]], now: datetime) -> list[LatenessBar]:
    """Return the bars of items by the time since each was due, the shortest time first."""
    counts = Counter(bisect_right(_BOUNDS, now - item["due_at"]) for item in items)
    most = max(counts.values(), default=1)
    seconds = [round(bound.total_seconds()) for bound in _BOUNDS]
    spans = zip(_WORDS, [0, *seconds], [*seconds, None], strict=True)
    return [
        LatenessBar(words, least, below, counts[place], round(100 * counts[place] / most))
        for place, (words, least, below) in enumerate(spans)
    ]
