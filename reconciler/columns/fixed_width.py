"""Rows that PostgreSQL copies in binary form, as arrays. There are no nulls.

Each column has one width, except for a text at the end, of which only the hash is kept.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final, TypeVar, final

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[np.int64]
Columns = dict[str, Column]
DigestT = TypeVar("DigestT")

_HEADER_BYTES: Final = 19
_TRAILER_BYTES: Final = 2
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
        columns, hashes = self.read_texts(copied, hash)
        if self._text is not None:
            columns[self._text] = np.array(hashes, dtype=np.int64)
        return columns

    def read_texts(
        self, copied: bytes, digest: Callable[[bytes], DigestT]
    ) -> tuple[Columns, list[DigestT]]:
        """Return the columns of a whole copy, and what a function makes of the text of each row.

        Raises UnexpectedCopy.
        """
        end, width = max(len(copied) - _TRAILER_BYTES, _HEADER_BYTES), self._dtype.itemsize
        if self._text is None:
            if (end - _HEADER_BYTES) % width:
                raise UnexpectedCopy("rows of another width")
            return self._columns(copied, np.arange(_HEADER_BYTES, end, width)), []
        ends = self._ends(copied, end)
        begins = np.array([_HEADER_BYTES, *ends[:-1]] if ends else ends, dtype=np.int64)
        texts = zip((begins + width).tolist(), ends, strict=True)
        return self._columns(copied, begins), [digest(copied[begin:end]) for begin, end in texts]

    def _ends(self, copied: bytes, end: int) -> list[int]:
        """Return where rows end that have texts."""
        width, place, ends = self._dtype.itemsize, _HEADER_BYTES, list[int]()
        last, size_at, add = end - width, width - _SIZE_BYTES, ends.append
        while place <= last:
            (size,) = _read_size(copied, place + size_at)
            place += width + size
            add(place)
        if place != end:
            raise UnexpectedCopy("a text of another length, or a null")
        return ends

    def _columns(self, copied: bytes, begins: Column) -> Columns:
        """Return the columns of the rows, which are checked: as many at once as a cache has."""
        columns = {name: np.empty(len(begins), dtype=np.int64) for name in self._names}
        # A row at each byte, of which those are taken that begin one; as bytes: a field at a time
        # takes five times as long.
        width = self._dtype.itemsize
        anywhere = np.ndarray((max(len(copied) - width + 1, 0),), f"V{width}", copied, strides=(1,))
        for first in range(0, len(begins), _ROWS_AT_ONCE):
            part = slice(first, first + _ROWS_AT_ONCE)
            rows = anywhere[begins[part]].view(self._dtype)
            if not all((rows[name] == value).all() for name, value in self._constants.items()):
                raise UnexpectedCopy("another number of columns, or a null")
            for name, column in columns.items():
                column[part] = rows[name]
        return columns


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
