"""The accounting identity in a pass that carries over: only what may have changed is counted."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, items
from dueledger.ledger.store.items import Accounting
from dueledger.reconciler.compare.comparison import KindKey, KindTally
from dueledger.reconciler.windows import DateRange


class OpenCounts(NamedTuple):
    """How many items of a kind have not ended, by where they are."""

    pending: int = 0
    handed_out: int = 0
    running: int = 0
    reviews: int = 0


@dataclass(frozen=True, slots=True)
class OpenSnapshot:
    """What was open when `mark` was read, or since."""

    mark: str
    kinds: dict[KindKey, OpenCounts]


def open_of(rows: Iterable[Accounting]) -> dict[KindKey, OpenCounts]:
    """Return what an accounting counted as open."""
    return {
        (row.tenant, row.kind): OpenCounts(row.pending, row.handed_out, row.running, row.reviews)
        for row in rows
    }


async def read_accounting_beside_cache(
    connection: Connection,
    kinds: Iterable[KindKey],
    carried: Mapping[KindKey, KindTally],
    unread: Iterable[DateRange],
    known_open: Mapping[KindKey, OpenCounts] | None,
) -> list[Accounting]:
    """Read the identity: what is carried over as it was counted, the rest in one snapshot.

    `unread` are the dates that are not carried; `known_open` is what is open, where that is known.
    A change since, whose mark is still to come, shows as a difference: so one that is found here
    means that all has to be counted.
    """
    standing: defaultdict[KindKey, Counter[str]] = defaultdict(Counter[str])
    for key, tally in carried.items():
        standing[key]["items"] += tally.open
        for event, count in tally.ended.items():
            _count(standing[key], event, count)
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        for window in unread:
            for row in await items.count_items_by_ending(
                connection, window.from_date, window.to_date
            ):
                _count(standing[row["tenant"], row["kind"]], row["event"], row["items"])
        if known_open is None:
            known_open = {
                (tenant, kind): OpenCounts(*counts)
                for tenant, kind, *counts in await items.count_open_items(connection)
            }
    return [
        Accounting(*key, **_columns(standing[key]), **known_open.get(key, OpenCounts())._asdict())
        for key in sorted({*kinds, *standing, *known_open})
    ]


def _count(columns: Counter[str], event: int | None, count: int) -> None:
    columns["items"] += count
    if event is not None:
        columns[TransitionEvent(event).label] += count


def _columns(counted: Counter[str]) -> dict[str, int]:
    return {
        name: counted[name]
        for name in ("items", "completed", "cancelled", "superseded", "skipped", "written_off")
    }
