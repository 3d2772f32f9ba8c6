"""Spans of time in words, for people."""

from datetime import timedelta
from typing import Final

_UNITS: Final = (("days", 86_400), ("hours", 3_600), ("minutes", 60))
_SECOND: Final = 1_000  # milliseconds
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60  # minutes
_DAY: Final = 24 * _HOUR


def span(length: timedelta) -> str:
    """Return a span in one unit, of which there are at least two: 119 seconds, 47 hours."""
    seconds = int(length.total_seconds())
    for unit, unit_seconds in _UNITS:
        if seconds >= 2 * unit_seconds:
            return f"{seconds // unit_seconds} {unit}"
    return f"{seconds} seconds"


def about(length: timedelta) -> str:
    """Return an estimate: under a minute, or rounded up to minutes."""
    minutes = -(-int(length.total_seconds()) // 60)
    if length < timedelta(minutes=1):
        return "under a minute"
    return f"about {minutes:,} minutes" if minutes > 1 else "about a minute"


def brief_span(length: timedelta) -> str:
    """Return a span for a column, as 3 d 4 h, 9 h 5 min, 7 min or 12 s."""
    seconds = max(0, int(length.total_seconds()))
    minutes = seconds // 60
    match minutes:
        case 0:
            return f"{seconds} s"
        case _ if minutes < _HOUR:
            return f"{minutes} min"
        case _ if minutes < _DAY:
            return _two(minutes // _HOUR, "h", minutes % _HOUR, "min")
        case _:
            return _two(minutes // _DAY, "d", minutes % _DAY // _HOUR, "h")


def fine_span(length: timedelta) -> str:
    """Return a span as `brief_span` does; below a minute to a tenth of a second, or to 1 ms."""
    milliseconds = max(0, length // timedelta(milliseconds=1))
    if milliseconds < _SECOND:
        return f"{milliseconds} ms"
    if milliseconds < _MINUTE:
        return f"{milliseconds // 100 / 10:g} s"
    return brief_span(length)


def _two(units: int, unit: str, parts: int, part: str) -> str:
    return f"{units:,} {unit} {parts} {part}" if parts else f"{units:,} {unit}"
