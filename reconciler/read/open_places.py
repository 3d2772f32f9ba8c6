"""Where all items are that have not ended: they wait, are parked, claimed or running."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from dueledger.ledger.states import State
from dueledger.ledger.store import Connection, reconciled_rows
from dueledger.ledger.store.reconciled_rows import VersionKey
from dueledger.reconciler.columns.fixed_width import Column, Columns, RowLayout
from dueledger.reconciler.columns.terms import all_mixed
from dueledger.reconciler.read.day_digests import RowsDigest, digests_by_day

PLACES_A_READ: Final = 500_000
_BEFORE_ALL: Final = -(2**63)
_PLACE: Final = RowLayout(item_no="bigint", day="date", state="smallint", version="bigint")
_HANDED_OUT: Final = [State.CLAIMED, State.RUNNING]


@dataclass(frozen=True, slots=True)
class OpenPlaces:
    """An item's number, day and state for each place where one is, by ascending number.

    `version` is that of the row by which it waits or is parked; 0 where it is handed out.
    """

    item_no: Column
    day: Column
    state: Column
    version: Column

    @property
    def handed_out(self) -> set[int]:
        """Return the numbers of items that are claimed or running."""
        return set(self.item_no[np.isin(self.state, _HANDED_OUT)].tolist())

    @property
    def parked(self) -> Column:
        """Return the numbers of items that are in review."""
        return self.item_no[self.state == State.MANUAL_REVIEW]

    def digests(self) -> dict[int, RowsDigest]:
        """Return the digest of the places of each day's items, by proleptic ordinal."""
        return digests_by_day(self.day, all_mixed(self.item_no, self.state, self.version))


async def read_places(connection: Connection, key: VersionKey) -> OpenPlaces:
    """Read all places, in a snapshot for each read.

    An item that moves between two reads is in two places or in none: its places are counted again.
    """
    places = await _read_after(connection, _BEFORE_ALL, key)
    parts = [places]
    while len(places["item_no"]) >= PLACES_A_READ:
        places = await _read_after(connection, int(places["item_no"][-1]), key)
        parts.append(places)
    return OpenPlaces(
        *(
            np.concatenate([part[name] for part in parts])
            for name in ("item_no", "day", "state", "version")
        )
    )


async def _read_after(connection: Connection, item_no: int, key: VersionKey) -> Columns:
    rows = _PLACE.reader(hash)
    await reconciled_rows.copy_places(connection, item_no, PLACES_A_READ, key, rows.put)
    return rows.finish()[0]
