"""Numbers, lists and spans in words, for the sentences that say when something is due."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_RANGE_MIN: Final = 3
_SERIES_MIN: Final = 5
_TEENS: Final = range(11, 14)
_ENDINGS: Final = {1: "st", 2: "nd", 3: "rd"}
_DAY: Final = timedelta(days=1)


def joined(words: Sequence[str]) -> str:
    """Return words as a list: one, two and three."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def ordinal(number: int) -> str:
    """Return 1st, 2nd, 3rd, 4th."""
    ending = "th" if number % 100 in _TEENS else _ENDINGS.get(number % 10, "th")
    return f"{number}{ending}"


def from_end(number: int) -> str:
    """Return `2nd` for 2; `last` for -1, `2nd last` for -2."""
    if number > 0:
        return ordinal(number)
    return "last" if number == -1 else f"{ordinal(-number)} last"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural if it is not one."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def series(numbers: Sequence[int], name: Callable[[int], str] = str, noun: str = "one") -> str:
    """Return ascending numbers in words: 1, 3 to 5 and 9; or `every 2nd one from 1 to 31`."""
    steps = {after - before for before, after in pairwise(numbers)}
    if len(numbers) >= _SERIES_MIN and len(steps) == 1 and steps != {1}:
        return f"every {ordinal(steps.pop())} {noun} from {name(numbers[0])} to {name(numbers[-1])}"
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words: list[str] = []
    for run in runs:
        if len(run) < _RANGE_MIN:
            words += map(name, run)
        else:
            words.append(f"{name(run[0])} to {name(run[-1])}")
    return joined(words)


def months_words(months: Sequence[int]) -> str:
    """Return months, counted from 1, by their names."""
    return series(months, lambda month: MONTHS[month - 1], "month")


def weekdays_words(weekdays: Sequence[int]) -> str:
    """Return weekdays, counted from Monday, 0, by their names."""
    return series(sorted(weekdays), lambda day: WEEKDAYS[day], "day")


def elapsed_words(period: timedelta) -> str:
    """Return elapsed time in words. A day of local time may be longer or shorter than 24 hours."""
    days, rest = divmod(period, _DAY)
    if days > 1 and not rest:
        return f"{days:,} days of 24 hours"
    minutes, seconds = divmod(int(period.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "hour"), (minutes, "minute"), (seconds, "second"))
    return " ".join(counted(number, noun) for number, noun in parts if number)


def local_words(at: datetime) -> str:
    """Return a local time, with seconds only if there are any."""
    return at.isoformat(" ", "seconds" if at.second else "minutes")
