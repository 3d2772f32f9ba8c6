"""What sources expect in a window of dates, as columns."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final, NamedTuple

import numpy as np

from dueledger.ledger.rules.event_issues import microseconds_of
from dueledger.reconciler.columns.fixed_width import Column, Columns
from dueledger.reconciler.compared_items import NOT_SAID, ExpectedItem, KindKey

ABSENT: Final = -1
EPOCH_DAY: Final = date(2000, 1, 1).toordinal()
EPOCH_MICROSECONDS: Final = microseconds_of(datetime(2000, 1, 1, tzinfo=UTC))

_HALF: Final = 8
_OUTSIDE_TERMS: Final = ("payload", "start_by", "complete_by")
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
    outside = np.array(fields[_FIELDS["outside_terms"]], dtype=np.int64).reshape(-1, 3)
    return {
        "high": halves[:, 0].astype(np.int64),
        "low": halves[:, 1].astype(np.int64),
        "day": np.array(fields[_FIELDS["day"]], dtype=np.int64) - EPOCH_DAY,
        "kind": np.array([kind_numbers.get(row[_KIND], ABSENT) for row in rows], dtype=np.int64),
        "due": np.array(fields[_FIELDS["due_microseconds"]], dtype=np.int64) - EPOCH_MICROSECONDS,
        "terms": _numbers(fields[_FIELDS["terms_digest"]]),
        "definition": _numbers(fields[_FIELDS["definition_no"]]),
        "event": _numbers(fields[_FIELDS["reference"]]),
        **{name: outside[:, place] for place, name in enumerate(_OUTSIDE_TERMS)},
        "is_asserted": asserted,
        "is_plain": plain.astype(np.int64),
    }


class ChosenRows(NamedTuple):
    """What plain rows name.

    Of occurrences the due times (microseconds since 1970) by definition number; the numbers of
    events.
    """

    occurrences: dict[int, list[int]]
    events: list[int]


@dataclass(frozen=True, slots=True)
class PlainWindow:
    """The plain rows of a window: their days (proleptic ordinals) and their columns."""

    days: Column
    columns: Columns

    def choose(self, ids: AbstractSet[bytes]) -> ChosenRows:
        """Return what the rows of these items name."""
        occurrences: defaultdict[int, list[int]] = defaultdict(list)
        events: set[int] = set()
        columns = self.columns
        lows = np.array([int.from_bytes(each[_HALF:], signed=True) for each in ids], dtype=np.int64)
        at = np.flatnonzero(np.isin(columns["low"], lows))
        halves = np.stack([columns["high"][at], columns["low"][at]], axis=1).astype(">i8")
        for place, identity in zip(at.tolist(), halves.view("V16").ravel(), strict=True):
            if bytes(identity) not in ids:
                continue
            if (event := int(columns["event"][place])) != ABSENT:
                events.add(event)
            else:
                due = int(columns["due"][place]) + EPOCH_MICROSECONDS
                occurrences[int(columns["definition"][place])].append(due)
        return ChosenRows(occurrences, sorted(events))

    def as_expected(self, kinds: Mapping[int, int], withdrawn: Column) -> Columns:
        """Return the rows as the comparison has them.

        `kinds` are the numbers of kinds by definition number, `withdrawn` the hashes of business
        keys whose items an event may have withdrawn.
        """
        columns, count = self.columns, len(self.days)
        names, places = np.unique(columns["definition"], return_inverse=True)
        kind_of = np.array([kinds[number] for number in names.tolist()], dtype=np.int64)
        is_plain = np.ones(count, dtype=np.int64)
        if len(withdrawn):
            is_event = columns["event"] != ABSENT
            is_plain[is_event & np.isin(columns["subject"], withdrawn)] = 0
        return {
            **{name: columns[name] for name in ("high", "low", "due", "terms")},
            **{name: columns[name] for name in ("definition", "event")},
            "day": self.days - EPOCH_DAY,
            "kind": kind_of[places] if count else self.days,
            **dict.fromkeys(_OUTSIDE_TERMS, np.full(count, NOT_SAID, dtype=np.int64)),
            "is_asserted": np.zeros(count, dtype=np.int64),
            "is_plain": is_plain,
        }


def joined(first: Columns, second: Columns) -> Columns:
    """Return the rows of both."""
    return {name: np.concatenate([column, second[name]]) for name, column in first.items()}


def _numbers(values: Sequence[int | None]) -> Column:
    return np.array([ABSENT if value is None else value for value in values], dtype=np.int64)
