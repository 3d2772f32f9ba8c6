"""Rows that PostgreSQL copies in binary form, as arrays. There are no nulls.

Each column has one width, except for a text at the end, of which only the hash is kept.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final, Generic, TypeVar, final

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[np.int64]
Columns = dict[str, Column]
DigestT = TypeVar("DigestT")

_HEADER_BYTES: Final = 19
_TRAILER: Final = b"\xff\xff"
_TEXT_BYTES_MAX: Final = 2**30
_SIZE_BYTES: Final = 4
_ARRAY_HEADER_BYTES: Final = 20
_ROWS_AT_ONCE: Final = 4_096
_read_size: Final = Struct(">I").unpack_from
_FORMATS: Final = {
    "bool": ("i1", 1),
    "smallint": (">i2", 2),
    "date": (">i4", 4),
    "integer": (">i4", 4),
    "bigint": (">i8", 8),
    "instant": (">i8", 8),
    "double": (">i8", 8),
}


class UnexpectedCopy(ValueError):
    """A copy has other columns than its layout, or a null."""


@final
class RowLayout:
    """The columns of a statement that is copied, in its order, with their types.

    A `uuid` gives two columns, its halves, a `double` its bits, and a `text`, which can only be the
    last, its hash in this process. Dates are days and instants microseconds since 2000-01-01 UTC,
    as PostgreSQL stores them.
    """

    def __init__(self, **types: str) -> None:
        fields: list[tuple[str, str]] = [("fields", ">i2")]
        self._constants = {"fields": len(types)}
        self._names: list[str] = []
        self._text: str | None = None
        for name, type_ in types.items():
            size = f"size of {name}"
            if type_ == "text":
                fields.append((size, ">i4"))
                self._text = name
                continue
            halves = [("high", ">i8"), ("low", ">i8")]
            width = 16 if type_ == "uuid" else _FORMATS[type_][1]
            own = halves if type_ == "uuid" else [(name, _FORMATS[type_][0])]
            fields += [(size, ">i4"), *own]
            self._constants[size] = width
            self._names += [column for column, _ in own]
        self._dtype = np.dtype(fields)

    def read(self, copied: bytes) -> Columns:
        """Return the columns of a whole copy. Raises UnexpectedCopy."""
        rows = self.reader(hash)
        rows.put(copied)
        columns, hashes = rows.finish()
        if self._text is not None:
            columns[self._text] = np.array(hashes, dtype=np.int64)
        return columns

    def reader(self, digest: Callable[[bytes], DigestT]) -> "RowReader[DigestT]":
        """Return a reader of a copy, which keeps what a function makes of the text of each row."""
        return RowReader(self, digest)

    @property
    def has_text(self) -> bool:
        """Return whether a text ends each row."""
        return self._text is not None

    @property
    def width(self) -> int:
        """Return how many bytes a row has without its text."""
        return self._dtype.itemsize

    def ends(self, copied: bytes, begin: int) -> list[int]:
        """Return where those rows end that are complete; the first begins at `begin`."""
        width, end = self.width, len(copied)
        if self._text is None:
            return [*range(begin + width, end + 1, width)]
        last, size_at, ends = end - width, width - _SIZE_BYTES, list[int]()
        add = ends.append
        while begin <= last:
            (size,) = _read_size(copied, begin + size_at)
            begin += width + size
            if begin > end:
                if size > _TEXT_BYTES_MAX:
                    raise UnexpectedCopy("a text of another length, or a null")
                break
            add(begin)
        return ends

    def columns(self, copied: bytes, begins: Column) -> Columns:
        """Return the columns of rows, given where they begin. Raises UnexpectedCopy."""
        columns = {name: np.empty(len(begins), dtype=np.int64) for name in self._names}
        # A row at each byte, of which those are taken that begin one; as bytes: a field at a time
        # takes five times as long.
        type_ = f"V{self.width}"
        anywhere = np.ndarray((max(len(copied) - self.width + 1, 0),), type_, copied, strides=(1,))
        for first in range(0, len(begins), _ROWS_AT_ONCE):
            part = slice(first, first + _ROWS_AT_ONCE)
            rows = anywhere[begins[part]].view(self._dtype)
            if not all((rows[name] == value).all() for name, value in self._constants.items()):
                raise UnexpectedCopy("another number of columns, or a null")
            for name, column in columns.items():
                column[part] = rows[name]
        return columns


@final
class RowReader(Generic[DigestT]):
    """Reads the rows of a copy as they arrive, while they are in the processor's cache.

    A copy of a window has a hundred megabytes, of which nothing is kept but columns and digests.
    """

    def __init__(self, layout: RowLayout, digest: Callable[[bytes], DigestT]) -> None:
        self._layout, self._digest = layout, digest
        self._rest, self._begin = b"", _HEADER_BYTES
        self._parts: list[Columns] = [layout.columns(b"", np.empty(0, dtype=np.int64))]
        self._digests: list[DigestT] = []

    def put(self, piece: bytes) -> None:
        """Read the rows that a piece completes. Raises UnexpectedCopy."""
        copied, layout, digest = self._rest + piece, self._layout, self._digest
        ends = layout.ends(copied, self._begin)
        if ends:
            begins = np.array([self._begin, *ends[:-1]], dtype=np.int64)
            self._parts.append(layout.columns(copied, begins))
            if layout.has_text:
                texts = zip((begins + layout.width).tolist(), ends, strict=True)
                self._digests += [digest(copied[begin:end]) for begin, end in texts]
            copied, self._begin = copied[ends[-1] :], 0
        self._rest = copied

    def finish(self) -> tuple[Columns, list[DigestT]]:
        """Return all columns, and what was made of the texts. Raises UnexpectedCopy."""
        if self._rest[self._begin :] != _TRAILER:
            raise UnexpectedCopy("rows of another width")
        names, parts = self._parts[0], self._parts
        return {
            name: np.concatenate([part[name] for part in parts]) for name in names
        }, self._digests


def repeated(values: Column) -> Column:
    """Return 1 for each value that is there more than once, and 0 for the others."""
    ordered = np.sort(values)
    return np.isin(values, ordered[1:][ordered[1:] == ordered[:-1]]).astype(np.int64)


def array_elements(sent: bytes | None, type_: str) -> Column:
    """Return the elements of an array in binary form; none if one is null, or is of an array."""
    number, width = _FORMATS[type_]
    dtype = np.dtype([("size", ">i4"), ("value", number)])
    body = b"" if sent is None else sent[_ARRAY_HEADER_BYTES:]
    elements = np.frombuffer(body[: len(body) - len(body) % dtype.itemsize], dtype)
    is_plain = len(body) % dtype.itemsize == 0 and (elements["size"] == width).all()
    return elements["value"].astype(np.int64) if is_plain else np.empty(0, dtype=np.int64)
