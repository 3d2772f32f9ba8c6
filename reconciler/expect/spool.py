"""Rows in a temporary file by effective date, so that a pass holds one window in memory."""

import marshal
import tempfile
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

_BUFFERED_ROWS_MAX: Final = 100_000
_BUFFERED_CHARS_MAX: Final = 32 * 1024 * 1024
"""Characters of payloads: 100,000 of the largest ones would be 26 GB."""

SpooledRow = tuple[Any, ...]
"""A tuple of what marshal can write; that is faster than classes."""


class Savepoint(NamedTuple):
    """A place in a spool: its length in bytes, and how many rows each day had."""

    position: int
    counts: dict[int, int]


class _Block(NamedTuple):
    """Rows of a day, written together: where they begin, and how many bytes they are."""

    position: int
    size: int


class Spool:
    """Write rows under a day (its proleptic ordinal) and read them back a day at a time.

    It is one temporary file without a name, which the system removes with the process. At most
    100,000 rows wait in memory, with 32 Mi characters of payloads; a day is read back whole.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 — closed by __exit__
        self._blocks: defaultdict[int, list[_Block]] = defaultdict(list)
        self._buffered: defaultdict[int, list[SpooledRow]] = defaultdict(list)
        self.buffered_count = self._buffered_chars = 0
        self.counts: defaultdict[int, int] = defaultdict(int)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, day: int, row: SpooledRow, *, payload_chars: int = 0) -> None:
        """Add one row under `day`. `payload_chars`: how long its payload is."""
        self._buffered[day].append(row)
        self.counts[day] += 1
        self.buffered_count += 1
        self._buffered_chars += payload_chars
        if self.buffered_count >= _BUFFERED_ROWS_MAX or self._buffered_chars >= _BUFFERED_CHARS_MAX:
            self._write()

    def savepoint(self) -> "Savepoint":
        """Return the present place, to which `roll_back` returns."""
        self._write()
        return Savepoint(self._file.seek(0, 2), dict(self.counts))

    def roll_back(self, savepoint: "Savepoint") -> None:
        """Drop every row that was added since."""
        self._buffered.clear()
        self.buffered_count = self._buffered_chars = 0
        for blocks in self._blocks.values():
            del blocks[bisect_left(blocks, (savepoint.position,)) :]
        self.counts = defaultdict(int, savepoint.counts)
        self._file.truncate(savepoint.position)

    def read(self, from_day: int, to_day: int) -> Iterator[SpooledRow]:
        """Yield the rows of the half-open range of days, in no particular order."""
        for day in range(from_day, to_day):
            for block in self._blocks.get(day, ()):
                self._file.seek(block.position)
                written = self._file.read(block.size)
                yield from marshal.loads(written)  # noqa: S302 — written by this process alone
            yield from self._buffered.get(day, ())

    def _write(self) -> None:
        position = self._file.seek(0, 2)
        for day, rows in self._buffered.items():
            size = self._file.write(marshal.dumps(rows))
            self._blocks[day].append(_Block(position, size))
            position += size
        self._buffered.clear()
        self.buffered_count = self._buffered_chars = 0
