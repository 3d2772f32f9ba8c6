"""The past load: what a pass counts of the items that were due in the last weeks."""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple

import numpy as np

from dueledger.ledger.store.past_load import DueResults, PastLoadCount, PastQuarter
from dueledger.reconciler.columns.expected_columns import EPOCH_DAY
from dueledger.reconciler.columns.fixed_width import Columns
from dueledger.reconciler.compared_items import KindKey

KEPT: Final = timedelta(days=35)
_AHEAD: Final = timedelta(days=1)
"""Also counted: what falls due before a window that is not read again is."""
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_QUARTER: Final = timedelta(minutes=15)
_MICROSECOND: Final = timedelta(microseconds=1)
_RESULTS: Final = DueResults._fields


class PastSpan(NamedTuple):
    """The quarter hours that a pass counts."""

    from_at: datetime
    before: datetime

    @classmethod
    def of(cls, as_of: datetime) -> "PastSpan":
        """Return those of a pass at a moment."""
        quarter = as_of - (as_of - _EPOCH) % _QUARTER
        return cls(quarter - KEPT, quarter + _AHEAD)

    def columns(self) -> Columns:
        """Return it as a table of the comparison."""
        names = zip(self._fields, self, strict=True)
        return {name: np.array([microseconds_after(at)], dtype=np.int64) for name, at in names}


def past_load_count(as_of: datetime) -> PastLoadCount:
    """Return of which time a pass over the whole ledger knows the past load."""
    return PastLoadCount(as_of, PastSpan.of(as_of).from_at)


def microseconds_after(instant: datetime) -> int:
    """Return the microseconds since 2000 of an instant."""
    return (instant - _EPOCH) // _MICROSECOND


def past_quarters(columns: Columns, kinds: Sequence[KindKey]) -> Iterator[PastQuarter]:
    """Yield the results of the items of a window; `kinds` are named by their numbers."""
    counts = zip(*(columns[name].tolist() for name in _RESULTS), strict=True)
    places = zip(*(columns[name].tolist() for name in ("kind", "day", "quarter")), strict=True)
    for (kind, day, quarter), results in zip(places, counts, strict=True):
        effective_date = date.fromordinal(day + EPOCH_DAY)
        at = _EPOCH + quarter * _QUARTER
        yield PastQuarter(*kinds[kind], at, effective_date, DueResults(*results))
