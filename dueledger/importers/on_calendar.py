"""`OnCalendar=` of systemd timers as cron expressions, after systemd.time(7).

`Mon..Fri *-*~03/1 06,18:00/15:00 Europe/Berlin`: weekdays and dates both must match, `..` is a
range, `/` repeats from a value on, and `~` counts days from the end of the month.
"""

import re
from typing import Final

from dueledger.importers.cron_text import complete_cron, cron_fields, out_of_bounds
from dueledger.importers.import_result import ImportRefusal
from dueledger.importers.source_job import TranslatedSchedule
from dueledger.ledger.schedule import Fold, Gap, zone_names

_SHORTHANDS: Final = {
    "minutely": "*-*-* *:*:00",
    "hourly": "*-*-* *:00:00",
    "daily": "*-*-* 00:00:00",
    "monthly": "*-*-01 00:00:00",
    "weekly": "mon *-*-* 00:00:00",
    "yearly": "*-01-01 00:00:00",
    "annually": "*-01-01 00:00:00",
    "quarterly": "*-01,04,07,10-01 00:00:00",
    "semiannually": "*-01,07-01 00:00:00",
}
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_WEEKDAY: Final = re.compile(r"(sun|mon|tue|tues|wed|wednes|thu|thur|thurs|fri|sat|satur)(day)?")
_DATE: Final = re.compile(r"(?:(?P<year>[^-~]+)-)?(?P<month>[^-~]+)(?P<end>[-~])(?P<day>[^-~]+)")
_PART: Final = re.compile(r"(?P<low>\d{1,4})(?:\.\.(?P<high>\d{1,4}))?(?:/(?P<step>\d{1,4}))?")
_ACCEPTED: Final = "Mon..Fri *-*-* 06:00:00, as in systemd.time(7)"
_MONTH_DAYS: Final = 31
_BOUNDS: Final = {"year": (1970, 2199), "month": (1, 12), "day": (1, 31), "hour": (0, 23)}


def read_on_calendar(text: str, zone: str | None) -> TranslatedSchedule | ImportRefusal:
    """Return what an expression means. `zone` is that of the machine, if it is known."""
    if refusal := out_of_bounds(text, zone or "UTC"):
        return refusal
    texts = text.split()
    if len(texts) > 1 and texts[-1] in zone_names():
        zone = texts.pop()
    if zone is None:
        reason = "the timer does not name the time zone of its machine"
        return ImportRefusal(reason, "--timezone Europe/Berlin")
    words = " ".join(texts).lower()
    expression = _expression(_SHORTHANDS.get(words, words))
    if isinstance(expression, ImportRefusal):
        return expression
    fields = cron_fields(expression)
    if isinstance(fields, ImportRefusal):
        return fields
    when: dict[str, object] = {"cron": expression, "timezone": zone}
    if fields.restricts_day and fields.restricts_weekday:
        when["day_rule"] = "all"
    # systemd looks for the next local time that exists: none in a gap, one in a fold.
    return complete_cron(when, (Gap.SKIP.value, Fold.FIRST.value))


def _expression(text: str) -> str | ImportRefusal:
    """Return the cron expression, in five fields if the second is 0 and any year matches."""
    words = {
        "time" if ":" in word else "weekdays" if word[0].isalpha() else "date": word
        for word in text.split()
    }
    weekdays, times = words.get("weekdays", "*"), words.get("time", "00:00:00").split(":")
    found = _DATE.fullmatch(words.get("date", "*-*-*"))
    if found is None or len(times) not in {2, 3} or not 0 < len(words) == len(text.split()):
        return ImportRefusal("is not an expression of OnCalendar that is understood", _ACCEPTED)
    parts = [
        _numbers(times[2] if len(times) > 2 else "00", "second"),  # noqa: PLR2004 - a second
        _numbers(times[1], "minute"),
        _numbers(times[0], "hour"),
        _numbers(found["day"], "day") if found["end"] == "-" else _days_from_end(found["day"]),
        _numbers(found["month"], "month"),
        _weekdays(weekdays),
        _numbers(found["year"] or "*", "year"),
    ]
    for part in parts:
        if isinstance(part, ImportRefusal):
            return part
    fields = [str(part) for part in parts]
    if fields[-1] == "*":
        fields.pop()
        fields = fields[1:] if fields[0] == "0" else fields
    return " ".join(fields)


def _numbers(text: str, name: str) -> str | ImportRefusal:
    """Return a field of numbers. `a/n` repeats to the end of the field, as in cron."""
    if text == "*":
        return text
    low, high = _BOUNDS.get(name, (0, 59))
    parts: list[str] = []
    for part in text.split(","):
        found = _PART.fullmatch(part)
        first, last = (int(found["low"]), int(found["high"] or found["low"])) if found else (1, 0)
        if found is None or not low <= first <= last <= high:
            return ImportRefusal(
                f"{name} `{part}` is not understood", f"{low} to {high}, a..b, a/n"
            )
        step = int(found["step"] or 0)
        if step and not found["high"] and first + step > high:
            step = 0  # it has no second value
        shown = f"{first}-{last}" if found["high"] else str(first)
        parts.append(f"{shown}/{step}" if step else shown)
    return ",".join(parts)


def _days_from_end(text: str) -> str | ImportRefusal:
    """Return days after `~`: 1 is the last, and `a/n` goes on towards the end of the month."""
    days: list[int] = []
    for part in text.split(","):
        found = _PART.fullmatch(part)
        number = int(found["low"]) if found else 0
        if found is None or not 1 <= number <= _MONTH_DAYS or found["high"]:
            return ImportRefusal(f"day `~{part}` is not understood", "~1 to ~31, or ~7/1")
        step = int(found["step"] or 0)
        days += range(number, 0, -step) if step else [number]
    return ",".join(f"l-{day - 1}" if day > 1 else "l" for day in sorted(set(days)))


def _weekdays(text: str) -> str | ImportRefusal:
    if text == "*":
        return text
    parts: list[str] = []
    for part in text.split(","):
        ends = part.split("..")
        if len(ends) > 2 or not all(_WEEKDAY.fullmatch(each) for each in ends):  # noqa: PLR2004 - ends
            return ImportRefusal(f"weekday `{part}` is not understood", "Mon, Mon..Fri or Mon,Thu")
        numbers = [_WEEKDAYS.index(each[:3]) or 7 for each in ends]  # from Monday on
        if numbers[0] > numbers[-1]:
            return ImportRefusal(f"weekday `{part}` is descending", "two ranges")
        parts.append("-".join(str(number) for number in dict.fromkeys(numbers)))
    return ",".join(parts)
