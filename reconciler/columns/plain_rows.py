"""Rows that alone say what is owed: computed many at a time, kept as columns in a temporary file.

Such a row has no texts: what one says in full is computed again where it is needed. So nothing is
concluded from a plain row but that an item is as it says.
"""

import tempfile
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import date
from itertools import pairwise
from typing import Any, Final, NamedTuple
from weakref import finalize

import numpy as np
import numpy.typing as npt

from dueledger.reconciler.columns.fixed_width import Column, Columns
from dueledger.reconciler.columns.terms import NO_SMEAR, all_mixed, double_bits

ABSENT_NUMBER: Final = -1
Digests = npt.NDArray[np.uint8]
"""SHA-256 digests, of shape (rows, 32)."""
FIELDS: Final = ("high", "low", "due", "terms", "definition", "event", "subject")
"""`subject` is the hash of the business key of an event's item, 0 of an occurrence."""

_LOW: Final = FIELDS.index("low")
_DIGESTED: Final = [FIELDS.index(name) for name in ("low", "due", "terms", "definition", "event")]
_WAITING_ROWS_MAX: Final = 200_000
_EPOCH: Final = date(1970, 1, 1).toordinal()
_ID_BYTES: Final = 16
_DAY_BYTES: Final = 3
_DIGEST_BYTES: Final = 32
_HASH_BYTES: Final = _ID_BYTES - _DAY_BYTES
_BYTES_A_FIELD: Final = 8
_BYTES_A_ROW: Final = _BYTES_A_FIELD * len(FIELDS)
_UNUSED_BYTES_MAX: Final = 256 * 1024 * 1024


def joined_digests(digests: Sequence[bytes]) -> Digests:
    """Return SHA-256 digests as an array."""
    joined = np.frombuffer(bytearray().join(digests), dtype=np.uint8)
    return joined.reshape(-1, _DIGEST_BYTES)


def ids_of(days: Column, digests: Digests) -> tuple[Column, Column]:
    """Return both halves of ids, given days (proleptic ordinals) and digests.

    They are the ids of `ledger.identity.item_id`.
    """
    ids = np.empty((len(digests), _ID_BYTES), dtype=np.uint8)
    since = (days - _EPOCH).astype(">u4").view(np.uint8).reshape(-1, 4)
    ids[:, :_DAY_BYTES] = since[:, 1:]
    ids[:, _DAY_BYTES:] = digests[:, :_HASH_BYTES]
    ids[:, 6] = ids[:, 6] & 0x0F | 0x80
    ids[:, 8] = ids[:, 8] & 0x3F | 0x80
    halves = ids.view(">i8").astype(np.int64)
    return halves[:, 0], halves[:, 1]


class _DayBlock(NamedTuple):
    """Rows of a day, written together; `digest` is a sum of their hashes in any order."""

    day: int
    position: int
    rows: int
    digest: int


class PlainTotals(NamedTuple):
    """How many rows there are, and a sum of the last 8 bytes of their ids, unsigned."""

    rows: int = 0
    hash_total: int = 0


class PlainUnit(NamedTuple):
    """Rows that were made together, and what of their source is not plain."""

    blocks: tuple[_DayBlock, ...]
    totals: PlainTotals
    left: tuple[Any, ...]


class KeptRows:
    """The plain rows of passes of one process, by unit: the next pass takes those that it needs.

    A unit is named for all that its rows depend on. The file ends with the object.
    """

    def __init__(self) -> None:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the finalizer
        finalize(self, file.close)
        self._file = file
        self._end = 0
        self.units: dict[Hashable, PlainUnit] = {}

    def write(self, day: int, rows: Column, hashes: Column) -> _DayBlock:
        """Write rows of a day behind the others."""
        count, digest = len(hashes), int(hashes.view(np.uint64).sum(dtype=np.uint64))
        block = _DayBlock(day, self._end, count, digest)
        self._file.seek(self._end)
        self._file.write(np.ascontiguousarray(rows).tobytes())
        self._end += count * _BYTES_A_ROW
        return block

    def read(self, block: _DayBlock) -> Column:
        """Return the rows of a block: FIELDS, each with a value for each row."""
        self._file.seek(block.position)
        written = self._file.read(block.rows * _BYTES_A_ROW)
        return np.frombuffer(written, dtype=np.int64).reshape(len(FIELDS), -1)

    def keep(self, names: Mapping[Hashable, PlainUnit]) -> None:
        """Forget all other units; and all, once the file has too much of no use."""
        self.units = dict(names)
        used = sum(unit.totals.rows for unit in self.units.values()) * _BYTES_A_ROW
        if self._end - used > max(used, _UNUSED_BYTES_MAX):
            self.units, self._end = {}, 0
            self._file.truncate(0)


class PlainRows:
    """The plain rows of a pass by effective date: units that were kept, and new ones."""

    def __init__(self, kept: KeptRows) -> None:
        self._kept = kept
        self._blocks: defaultdict[int, list[_DayBlock]] = defaultdict(list)
        self._waiting: list[tuple[Column, Column]] = []
        self._waiting_rows = 0
        self._written: list[_DayBlock] = []
        self._totals = PlainTotals()
        self.counts: defaultdict[int, int] = defaultdict(int)
        self.units: dict[Hashable, PlainUnit] = {}

    def take(self, name: Hashable) -> PlainUnit | None:
        """Take the rows of a unit that was kept; None if there is no such unit."""
        unit = self._kept.units.get(name)
        if unit is not None:
            self._take(name, unit)
        return unit

    def add(self, days: Column, columns: Columns) -> None:
        """Add rows of these days (proleptic ordinals) to a new unit; `columns` are FIELDS."""
        rows = np.stack([columns[name] for name in FIELDS])
        self._waiting.append((days, rows))
        self._waiting_rows += len(days)
        hash_total = int(rows[_LOW].view(np.uint64).sum(dtype=np.uint64))
        known = self._totals
        self._totals = PlainTotals(known.rows + len(days), known.hash_total + hash_total)
        if self._waiting_rows >= _WAITING_ROWS_MAX:
            self._write()

    def finish(self, name: Hashable, left: Sequence[Any] = ()) -> PlainUnit:
        """Make a unit of the rows that were added since the last one."""
        self._write()
        unit = PlainUnit(tuple(self._written), self._totals, tuple(left))
        self._written, self._totals = [], PlainTotals()
        self._kept.units[name] = unit
        self._take(name, unit)
        return unit

    def _take(self, name: Hashable, unit: PlainUnit) -> None:
        self.units[name] = unit
        for block in unit.blocks:
            self._blocks[block.day].append(block)
            self.counts[block.day] += block.rows

    def _write(self) -> None:
        """Write the rows that wait, a block for each day."""
        if not self._waiting_rows:
            return
        days = np.concatenate([each for each, _ in self._waiting])
        order = np.argsort(days, kind="stable")
        ordered = days[order]
        rows = np.concatenate([each for _, each in self._waiting], axis=1)[:, order]
        self._waiting, self._waiting_rows = [], 0
        hashes = all_mixed(*(rows[place] for place in _DIGESTED))
        starts = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1))
        for begin, end in pairwise((*starts.tolist(), len(ordered))):
            day = int(ordered[begin])
            self._written.append(self._kept.write(day, rows[:, begin:end], hashes[begin:end]))

    def read(self, from_day: int, to_day: int) -> tuple[Column, Columns]:
        """Return the days and the FIELDS of the rows of a half-open range of days."""
        blocks = [*self._within(from_day, to_day)]
        if not blocks:
            empty = np.empty(0, dtype=np.int64)
            return empty, dict.fromkeys(FIELDS, empty)
        rows = np.concatenate([self._kept.read(block) for block in blocks], axis=1)
        days = np.repeat([block.day for block in blocks], [block.rows for block in blocks])
        return days, dict(zip(FIELDS, rows, strict=True))

    def digest(self, from_day: int, to_day: int) -> tuple[int, int]:
        """Return how many rows a half-open range of days has, and the sum of their hashes."""
        blocks = [*self._within(from_day, to_day)]
        return sum(block.rows for block in blocks), sum(block.digest for block in blocks)

    def _within(self, from_day: int, to_day: int) -> Iterator[_DayBlock]:
        for day in range(from_day, to_day):
            yield from self._blocks.get(day, ())


@dataclass(slots=True)
class PlainBatch:
    """Rows of one source that are being made; `put` adds them to a unit.

    Each row has the digest of its id, the hash of its texts, and the number of its entry: what many
    rows share. An entry has day, due time, start_by, complete_by and definition.
    """

    entries: list[tuple[int, int, int, int, int]] = field(
        default_factory=list[tuple[int, int, int, int, int]]
    )
    entry: list[int] = field(default_factory=list[int])
    digests: list[bytes] = field(default_factory=list[bytes])
    texts: list[int] = field(default_factory=list[int])
    events: list[int] = field(default_factory=list[int])
    subjects: list[int] = field(default_factory=list[int])

    def drop(self, events: AbstractSet[int]) -> None:
        """Forget the rows of these events."""
        kept = [place for place, event_no in enumerate(self.events) if event_no not in events]
        if len(kept) < len(self.events):
            for each in (self.entry, self.digests, self.texts, self.events, self.subjects):
                each[:] = [each[place] for place in kept]

    def put(self, rows: PlainRows) -> None:
        """Add the rows, and forget them; entries stay."""
        if not self.digests:
            return
        shared = np.array(self.entries, dtype=np.int64)[np.array(self.entry, dtype=np.int64)]
        day, due, start_by, complete_by, definition = np.ascontiguousarray(shared.T)
        high, low = ids_of(day, joined_digests(self.digests))
        texts = np.array(self.texts, dtype=np.int64)
        smear = np.full(len(day), double_bits(NO_SMEAR))
        rows.add(
            day,
            {
                "high": high,
                "low": low,
                "due": due,
                "terms": all_mixed(texts, start_by, complete_by, smear),
                "definition": definition,
                "event": np.array(self.events, dtype=np.int64),
                "subject": np.array(self.subjects, dtype=np.int64),
            },
        )
        for each in (self.entry, self.digests, self.texts, self.events, self.subjects):
            each.clear()
