"""The accounting identity of a pass: the items that it compared, and where the open ones are."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dueledger.ledger.states import TransitionEvent
from dueledger.ledger.store import Connection, items
from dueledger.ledger.store.items import Accounting
from dueledger.reconciler.compared_items import KindKey
from dueledger.reconciler.tallies import KindTally


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
    count everything in one snapshot.
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
        "items": tally.open + sum(tally.ended.values()),
        **{
            name: counts[name]
            for name in ("completed", "cancelled", "superseded", "skipped", "written_off")
        },
    }
