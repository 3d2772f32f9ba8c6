"""Rows that PostgreSQL copies in binary form, as arrays: each column has one width and no nulls."""

from typing import Final, final

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[np.int64]
Columns = dict[str, Column]

_HEADER_BYTES: Final = 19
_TRAILER_BYTES: Final = 2
_FORMATS: Final = {
    "bool": ("i1", 1),
    "smallint": (">i2", 2),
    "date": (">i4", 4),
    "integer": (">i4", 4),
    "bigint": (">i8", 8),
    "instant": (">i8", 8),
    "digest": (">i8", 8),
}


class UnexpectedCopy(ValueError):
    """A copy has other columns than its layout, or a null."""


@final
class RowLayout:
    """The columns of a statement that is copied, in its order, with their types.

    A `uuid` gives two columns, its halves. Dates are days and instants microseconds since
    2000-01-01 UTC, as PostgreSQL stores them.
    """

    def __init__(self, **types: str) -> None:
        fields: list[tuple[str, str]] = [("fields", ">i2")]
        self._sizes: dict[str, int] = {}
        self._names: list[str] = []
        for name, type_ in types.items():
            size = f"size of {name}"
            halves = [("high", ">i8"), ("low", ">i8")]
            width = 16 if type_ == "uuid" else _FORMATS[type_][1]
            own = halves if type_ == "uuid" else [(name, _FORMATS[type_][0])]
            fields += [(size, ">i4"), *own]
            self._sizes[size] = width
            self._names += [column for column, _ in own]
        self._count = len(types)
        self._dtype = np.dtype(fields)

    def read(self, copied: bytes | bytearray) -> Columns:
        """Return the columns of a whole copy. Raises UnexpectedCopy."""
        body = len(copied) - _HEADER_BYTES - _TRAILER_BYTES
        if body < 0 or body % self._dtype.itemsize:
            raise UnexpectedCopy("rows of another width")
        count = body // self._dtype.itemsize
        rows = np.frombuffer(copied, self._dtype, count, _HEADER_BYTES)
        if count and not (
            (rows["fields"] == self._count).all()
            and all((rows[size] == width).all() for size, width in self._sizes.items())
        ):
            raise UnexpectedCopy("another number of columns, or a null")
        return {name: rows[name].astype(np.int64) for name in self._names}
