"""Texts of many rows that are of one length, made of columns of characters.

Formatting a text of a row in Python takes as long as its SHA-256.
"""

from collections.abc import Iterator
from datetime import date
from functools import cache
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt

from dueledger.reconciler.columns.fixed_width import Column

Characters = npt.NDArray[np.uint8]
"""A text in UTF-8 for each row: of shape (rows, bytes)."""

FIRST_DAY: Final = date(1970, 1, 1).toordinal()
END_DAY: Final = date(2200, 1, 1).toordinal()
DAY_SECONDS: Final = 86_400

_DATE_CHARS: Final = 10
_INSTANT_CHARS: Final = 19
_BYTES_AT_ONCE: Final = 2**20


def date_characters(days: Column) -> Characters:
    """Return dates as `date.isoformat` has them; days are ordinals from FIRST_DAY to END_DAY."""
    return _dates()[days - FIRST_DAY]


def time_characters(seconds: Column) -> Characters:
    """Return times of day as an ISO instant has them, from the T on."""
    return _times()[seconds]


def joined_texts(count: int, *parts: bytes | Characters) -> Iterator[bytes]:
    """Yield the text of each row: its parts, of which a constant one is the same for all rows."""
    widths = [len(part) if isinstance(part, bytes) else part.shape[1] for part in parts]
    at_once = max(1, _BYTES_AT_ONCE // sum(widths))
    return chain.from_iterable(
        _joined(range(begin, min(begin + at_once, count)), parts, widths)
        for begin in range(0, count, at_once)
    )


def _joined(rows: range, parts: tuple[bytes | Characters, ...], widths: list[int]) -> list[bytes]:
    width = sum(widths)
    joined, end = np.empty((len(rows), width), dtype=np.uint8), 0
    for part, own in zip(parts, widths, strict=True):
        begin, end = end, end + own
        joined[:, begin:end] = (
            np.frombuffer(part, dtype=np.uint8)
            if isinstance(part, bytes)
            else part[rows.start : rows.stop]
        )
    return joined.view(f"V{width}").ravel().tolist()


@cache
def _dates() -> Characters:
    days = np.arange(END_DAY - FIRST_DAY).astype("datetime64[D]")
    return days.astype(f"S{_DATE_CHARS}").view(np.uint8).reshape(-1, _DATE_CHARS)


@cache
def _times() -> Characters:
    seconds = np.arange(DAY_SECONDS).astype("datetime64[s]").astype(f"S{_INSTANT_CHARS}")
    texts = seconds.view(np.uint8).reshape(-1, _INSTANT_CHARS)
    return np.ascontiguousarray(texts[:, _DATE_CHARS:])
