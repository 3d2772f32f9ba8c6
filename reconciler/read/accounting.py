"""The accounting identity: by the items that a pass compared, or counted again."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import NamedTuple

from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, items
from dueledger.ledger.store.items import Accounting
from dueledger.reconciler.compared_items import KindKey
from dueledger.reconciler.read.day_digests import list_partitions
from dueledger.reconciler.tallies import KindTally
from dueledger.reconciler.windows import SNAPSHOT_BYTES_MAX, DateRange, cut_by_bytes


async def read_accounting(connection: Connection, whole: DateRange) -> list[Accounting]:
    """Count the items of a range of dates again, in a snapshot for each part of it."""
    found: defaultdict[KindKey, Counter[str]] = defaultdict(Counter)
    partitions = await list_partitions(connection)
    for dates in cut_by_bytes(whole, partitions.items(), SNAPSHOT_BYTES_MAX):
        for row in await items.read_accounting(
            connection, from_date=dates.from_date, to_date=dates.to_date
        ):
            counts = asdict(row)
            found[counts.pop("tenant"), counts.pop("kind")].update(counts)
    return [Accounting(*key, **counts) for key, counts in sorted(found.items())]


class OpenCounts(NamedTuple):
    """How many items of a kind have not ended, by state."""

    pending: int = 0
    handed_out: int = 0
    running: int = 0
    reviews: int = 0


async def read_accounting_beside(
    connection: Connection, kinds: Iterable[KindKey], tallies: Mapping[KindKey, KindTally]
) -> list[Accounting]:
    """Return the accounting by the tallies of a pass over the whole ledger.

    What changed since an item was read gives a difference. So on a difference the caller has to
    count everything again, the items of a date with their places in one snapshot.
    """
    open_items = {
        (tenant, kind): OpenCounts(*counts)
        for tenant, kind, *counts in await items.count_open_items(connection)
    }
    counted = {key: _columns(tally) for key, tally in tallies.items()}
    nothing = _columns(KindTally())
    return [
        Accounting(*key, **counted.get(key, nothing), **open_items.get(key, OpenCounts())._asdict())
        for key in sorted({*kinds, *counted, *open_items})
    ]


def _columns(tally: KindTally) -> dict[str, int]:
    counts = Counter({TransitionEvent(event).label: ended for event, ended in tally.ended.items()})
    return {
        "items": tally.items,
        **{
            name: counts[name]
            for name in ("completed", "cancelled", "superseded", "skipped", "written_off")
        },
    }
