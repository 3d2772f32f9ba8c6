"""Rows that PostgreSQL copies in binary form, as arrays. There are no nulls.

Each column has one width, except for a text at the end, of which only the hash is kept.
"""

from struct import Struct
from typing import Final, final

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[np.int64]
Columns = dict[str, Column]

_HEADER_BYTES: Final = 19
_TRAILER_BYTES: Final = 2
_SIZE_BYTES: Final = 4
_ARRAY_HEADER_BYTES: Final = 20
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
        self._sizes: dict[str, int] = {}
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
            self._sizes[size] = width
            self._names += [column for column, _ in own]
        self._count = len(types)
        self._dtype = np.dtype(fields)

    def read(self, copied: bytes) -> Columns:
        """Return the columns of a whole copy. Raises UnexpectedCopy."""
        columns, texts = self.read_texts(copied)
        if self._text is not None:
            columns[self._text] = np.array(list(map(hash, texts)), dtype=np.int64)
        return columns

    def read_texts(self, copied: bytes) -> tuple[Columns, list[bytes]]:
        """Return the columns of a whole copy, and the texts of its rows. Raises UnexpectedCopy."""
        end = max(len(copied) - _TRAILER_BYTES, _HEADER_BYTES)
        texts: list[bytes] = []
        if self._text is None:
            rows = self._rows(copied[_HEADER_BYTES:end])
        else:
            rows = self._rows_before_texts(copied, end, texts)
        return {name: rows[name].astype(np.int64) for name in self._names}, texts

    def _rows(self, body: bytes) -> npt.NDArray[np.void]:
        if len(body) % self._dtype.itemsize:
            raise UnexpectedCopy("rows of another width")
        return self._checked(np.frombuffer(body, self._dtype))

    def _rows_before_texts(
        self, copied: bytes, end: int, texts: list[bytes]
    ) -> npt.NDArray[np.void]:
        """Return the rows without their texts, which are added to `texts`."""
        width = self._dtype.itemsize
        place, starts = _HEADER_BYTES, list[int]()
        while place < end:
            starts.append(place)
            text = place + width
            if text > end:
                break
            place = text + _read_size(copied, text - _SIZE_BYTES)[0]
            texts.append(copied[text:place])
        if place != end:
            raise UnexpectedCopy("a text of another length, or a null")
        # A row at each byte, of which those are taken that begin one; as bytes: a field at a time
        # takes five times as long.
        anywhere = np.ndarray((max(len(copied) - width + 1, 0),), f"V{width}", copied, strides=(1,))
        return self._checked(anywhere[np.array(starts, dtype=np.int64)].view(self._dtype))

    def _checked(self, rows: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        if not (
            (rows["fields"] == self._count).all()
            and all((rows[size] == width).all() for size, width in self._sizes.items())
        ):
            raise UnexpectedCopy("another number of columns, or a null")
        return rows


def array_elements(sent: bytes | None, type_: str) -> Column:
    """Return the elements of an array in binary form; none if one is null, or is of an array."""
    number, width = _FORMATS[type_]
    dtype = np.dtype([("size", ">i4"), ("value", number)])
    body = b"" if sent is None else sent[_ARRAY_HEADER_BYTES:]
    elements = np.frombuffer(body[: len(body) - len(body) % dtype.itemsize], dtype)
    is_plain = len(body) % dtype.itemsize == 0 and (elements["size"] == width).all()
    return elements["value"].astype(np.int64) if is_plain else np.empty(0, dtype=np.int64)
