"""How many transitions of the journal name each run, against how many items the run ended."""

from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Final, NamedTuple, final

import numpy as np

from dueledger.ledger.store import Connection
from dueledger.ledger.store.reconciled_runs import count_run_items
from dueledger.reconciler.columns.fixed_width import Column, array_elements

RUNS_PAGE: Final = 100_000
_NONE: Final = np.empty(0, dtype=np.int64)


class SuspectRuns(NamedTuple):
    """Runs of which the journal has more or fewer transitions than items that they ended.

    `sizes`: how many each ended; `started`: the first and the last time at which one began.
    """

    run_nos: list[int]
    sizes: list[int]
    started: tuple[datetime, datetime]


@final
class RunCounts:
    """Counts the transitions that name runs; windows of a pass are added as they are read."""

    def __init__(self) -> None:
        self._numbers, self._counts = _NONE, _NONE
        self._parts: list[tuple[Column, Column]] = []

    def add(self, runs: Column) -> None:
        """Add the runs of transitions; those without one are negative.

        Transitions of a run lie together, so that most of them are counted without being sorted.
        """
        named = runs[runs >= 0]
        if len(named):
            begins = np.concatenate([[0], np.flatnonzero(named[1:] != named[:-1]) + 1])
            counts = np.diff(begins, append=len(named))
            self._parts.append(_summed(named[begins], counts))

    def of(self, run_nos: Column) -> Column:
        """Return how many transitions name each of these runs."""
        if self._parts:
            parts = [(self._numbers, self._counts), *self._parts]
            numbers, counts = (np.concatenate(each) for each in zip(*parts, strict=True))
            self._numbers, self._counts = _summed(numbers, counts)
            self._parts = []
        if not len(self._numbers):
            return np.zeros(len(run_nos), dtype=np.int64)
        places = np.searchsorted(self._numbers, run_nos).clip(max=len(self._numbers) - 1)
        return np.where(self._numbers[places] == run_nos, self._counts[places], 0)


async def suspect_runs(
    connection: Connection, counts: RunCounts, as_of: datetime
) -> AsyncGenerator[SuspectRuns]:
    """Yield the runs that the journal does not name once for each item that they ended, by page.

    Of open ones, and of those that were closed when the pass began. What ended while the journal
    was read may be among them: each is to be judged by one snapshot.
    """
    after: int | None = 0
    while after is not None:
        page = await count_run_items(connection, after, as_of, RUNS_PAGE)
        run_nos = array_elements(page["run_nos"], "bigint")
        sizes = array_elements(page["items"], "integer")
        differs = counts.of(run_nos) != sizes
        if differs.any():
            yield SuspectRuns(
                run_nos[differs].tolist(),
                sizes[differs].tolist(),
                (page["first_started_at"], page["last_started_at"]),
            )
        after = page["reached"]


def _summed(runs: Column, counts: Column) -> tuple[Column, Column]:
    """Return each run once, ascending, with the sum of its counts."""
    numbers, places = np.unique(runs, return_inverse=True)
    return numbers, np.bincount(places, weights=counts).astype(np.int64)
