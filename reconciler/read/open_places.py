"""Where all items are that have not ended: they wait, are parked, claimed or running."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from dueledger.ledger.states import State
from dueledger.ledger.store import Connection, reconciled_rows
from dueledger.reconciler.columns.expected_columns import EPOCH_DAY
from dueledger.reconciler.columns.fixed_width import Column, Columns, RowLayout
from dueledger.reconciler.columns.terms import all_mixed

PLACES_A_READ: Final = 500_000
_BEFORE_ALL: Final = -(2**63)
_PLACE: Final = RowLayout(item_no="bigint", day="date", state="smallint")
_HANDED_OUT: Final = [State.CLAIMED, State.RUNNING]


@dataclass(frozen=True, slots=True)
class OpenPlaces:
    """An item's number, day and state for each place where one is, by ascending number."""

    item_no: Column
    day: Column
    state: Column

    @property
    def handed_out(self) -> set[int]:
        """Return the numbers of items that are claimed or running."""
        return set(self.item_no[np.isin(self.state, _HANDED_OUT)].tolist())

    def digests(self) -> Iterator[tuple[int, str]]:
        """Yield days (proleptic ordinals) with a digest of the places of their items."""
        days, row_days = np.unique(self.day, return_inverse=True)
        sums = np.zeros(len(days), dtype=np.uint64)
        hashes = all_mixed(self.item_no, self.state).view(np.uint64)
        np.add.at(sums, row_days, hashes)
        counts = np.bincount(row_days, minlength=len(days))
        for day, count, total in zip(days.tolist(), counts.tolist(), sums.tolist(), strict=True):
            yield day + EPOCH_DAY, f"{count}/{total}"


async def read_places(connection: Connection) -> OpenPlaces:
    """Read all places, in a snapshot for each read.

    An item that moves between two reads is in two places or in none: its places are counted again.
    """
    places = await _read_after(connection, _BEFORE_ALL)
    parts = [places]
    while len(places["item_no"]) >= PLACES_A_READ:
        places = await _read_after(connection, int(places["item_no"][-1]))
        parts.append(places)
    return OpenPlaces(
        *(np.concatenate([part[name] for part in parts]) for name in ("item_no", "day", "state"))
    )


async def _read_after(connection: Connection, item_no: int) -> Columns:
    return _PLACE.read(await reconciled_rows.copy_places(connection, item_no, PLACES_A_READ))
