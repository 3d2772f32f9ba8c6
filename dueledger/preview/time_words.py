"""Times of day in words: what the hours, minutes and seconds of a rule mean together."""

from collections.abc import Sequence
from itertools import product
from typing import Final

from dueledger.preview.word_lists import joined, series

LISTED_MAX: Final = 6
_HOURS: Final = 24
_MINUTES: Final = 60


def times_words(hours: Sequence[int], minutes: Sequence[int], seconds: Sequence[int]) -> str:
    """Return the times of day that combine them: `At 06:00`, `Every 5 minutes`.

    Each is ascending. The words of different times differ.
    """
    if len(hours) * len(minutes) * len(seconds) <= LISTED_MAX:
        shown = [_time(*each) for each in product(hours, minutes, seconds)]
        return f"At {joined(shown)}"
    if tuple(seconds) != (0,):
        return _by_seconds(hours, minutes, seconds)
    return _by_minutes(hours, minutes)


def _by_minutes(hours: Sequence[int], minutes: Sequence[int]) -> str:
    step = _step(minutes, _MINUTES)
    if step is not None:
        return f"Every {_steps(step, 'minute')}{_where(hours, minutes)}"
    named = _numbers(minutes, "minute")
    if len(minutes) > 1:
        return f"At {named}{in_units('hour', hours, _HOURS) or ' of every hour'}"
    hour_step = _step(hours, _HOURS)
    if hour_step == 1:
        return f"Every hour at {named}"
    if hour_step is not None:
        return f"Every {hour_step} hours from {_time(hours[0], minutes[0])}"
    if _contiguous(hours):
        return f"Every hour from {_time(hours[0], minutes[0])} to {_time(hours[-1], minutes[0])}"
    return f"At {named}{in_units('hour', hours, _HOURS)}"


def on_days(times: str, days: str) -> str:
    """Return times with their days; times of day are due `every day` if `days` is empty."""
    lists_times = times.startswith("At ") and times[3].isdigit()
    return f"{times} {days or ('every day' if lists_times else '')}".strip()


def in_units(unit: str, numbers: Sequence[int], size: int) -> str:
    """Return ` in hours 8 to 17`; nothing if `numbers` are all of the unit's."""
    if not numbers or len(numbers) == size:
        return ""
    return f" in {_numbers(numbers, unit)}"


def _by_seconds(hours: Sequence[int], minutes: Sequence[int], seconds: Sequence[int]) -> str:
    within = in_units("minute", minutes, _MINUTES) + in_units("hour", hours, _HOURS)
    step = _step(seconds, _MINUTES)
    if step is None:
        return f"At {_numbers(seconds, 'second')}{within or ' of every minute'}"
    begin = f" from second {seconds[0]} of the minute" if seconds[0] else ""
    return f"Every {_steps(step, 'second')}{begin}{within}"


def _where(hours: Sequence[int], minutes: Sequence[int]) -> str:
    """Return from when to when minutes in equal steps recur."""
    if len(hours) > 1 and len(hours) < _HOURS and _contiguous(hours):
        return f" from {_time(hours[0], minutes[0])} to {_time(hours[-1], minutes[-1])}"
    begin = f" from minute {minutes[0]} of the hour" if minutes[0] else ""
    return begin + in_units("hour", hours, _HOURS)


def _step(numbers: Sequence[int], size: int) -> int | None:
    """Return the step by which numbers go on through all of the unit and into the next one."""
    step = size // len(numbers)
    whole = len(numbers) > 1 and step * len(numbers) == size
    return step if whole and tuple(numbers) == tuple(range(numbers[0], size, step)) else None


def _steps(step: int, unit: str) -> str:
    return unit if step == 1 else f"{step} {unit}s"


def _contiguous(numbers: Sequence[int]) -> bool:
    return numbers[-1] - numbers[0] == len(numbers) - 1


def _numbers(numbers: Sequence[int], unit: str) -> str:
    """Return `minute 5`, `minutes 5 and 10`, or `every 7th minute from 0 to 56`."""
    words = series(numbers, noun=unit)
    if words.startswith("every"):
        return words
    return f"{unit}{'s' if len(numbers) > 1 else ''} {words}"


def _time(hour: int, minute: int, second: int = 0) -> str:
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")
