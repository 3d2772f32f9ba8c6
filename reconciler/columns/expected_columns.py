"""What sources expect in a window of dates, as columns."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final

import numpy as np

from dueledger.ledger.rules.event_issues import microseconds_of
from dueledger.reconciler.columns.fixed_width import Column, Columns
from dueledger.reconciler.compared_items import ExpectedItem, KindKey

ABSENT: Final = -1
EPOCH_DAY: Final = date(2000, 1, 1).toordinal()
EPOCH_MICROSECONDS: Final = microseconds_of(datetime(2000, 1, 1, tzinfo=UTC))

_FIELDS: Final = {name: place for place, name in enumerate(ExpectedItem._fields)}
_SUBJECT: Final = slice(_FIELDS["tenant"], _FIELDS["business_key"] + 1)
_KIND: Final = slice(_FIELDS["tenant"], _FIELDS["kind"] + 1)


def expected_columns(
    rows: Sequence[tuple[Any, ...]],
    kind_numbers: Mapping[KindKey, int],
    is_withdrawn: Callable[[tuple[str, str, str]], bool] | None,
) -> Columns:
    """Return ExpectedItem rows, one for each source that names an item, as columns.

    A row is plain if it alone says what is owed: it is live, and no event may have withdrawn it.
    `is_withdrawn` tells so of a subject; None: no event withdraws anything.
    """
    fields = list(zip(*rows, strict=True)) or [()] * len(_FIELDS)
    halves = np.frombuffer(b"".join(fields[_FIELDS["id"]]), dtype=">i8").reshape(-1, 2)
    plain = np.array(fields[_FIELDS["is_live"]], dtype=bool)
    if is_withdrawn is not None:
        reference = _FIELDS["reference"]
        plain &= np.array(
            [row[reference] is None or not is_withdrawn(row[_SUBJECT]) for row in rows], dtype=bool
        )
    asserted = np.array(
        [digest is None for digest in fields[_FIELDS["terms_digest"]]], dtype=np.int64
    )
    return {
        "high": halves[:, 0].astype(np.int64),
        "low": halves[:, 1].astype(np.int64),
        "day": np.array(fields[_FIELDS["day"]], dtype=np.int64) - EPOCH_DAY,
        "kind": np.array([kind_numbers.get(row[_KIND], ABSENT) for row in rows], dtype=np.int64),
        "due": np.array(fields[_FIELDS["due_microseconds"]], dtype=np.int64) - EPOCH_MICROSECONDS,
        "terms": _numbers(fields[_FIELDS["terms_digest"]]),
        "definition": _numbers(fields[_FIELDS["definition_no"]]),
        "event": _numbers(fields[_FIELDS["reference"]]),
        "is_asserted": asserted,
        "is_plain": plain.astype(np.int64),
    }


def _numbers(values: Sequence[int | None]) -> Column:
    return np.array([ABSENT if value is None else value for value in values], dtype=np.int64)
