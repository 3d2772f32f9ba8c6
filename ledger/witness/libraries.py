"""The child process of the witness: it answers questions with croniter and dateutil.

It is run as a script and imports nothing of the product, so that it starts in a fraction of a
second. Standard input has a question a line, standard output the answer to each, both JSON. What
takes longer than its CPU limit is ended by the kernel, whatever the library does.
"""

import json
import resource
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final, cast

from croniter import CroniterBadDateError, croniter
from dateutil.rrule import rrule, rruleset, rrulestr

_MEMORY_BYTES: Final = 512 * 1024 * 1024
_SECOND: Final = timedelta(seconds=1)
_REFUSALS: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What the libraries raise for texts that they cannot read."""


def _by_croniter(asked: dict[str, Any], low: datetime) -> Iterator[datetime]:
    steps = croniter(
        asked["text"],
        low - _SECOND,
        ret_type=datetime,
        day_or=asked["day_or"],
        max_years_between_matches=asked["years"],
        second_at_beginning=asked["seconds_first"],
    )
    while True:
        try:
            found = steps.get_next(datetime)
        except CroniterBadDateError:
            return
        yield found


def _by_dateutil(asked: dict[str, Any]) -> Iterator[datetime]:
    start = datetime.fromisoformat(asked["start"])
    rules = [cast("rrule", rrulestr(text, dtstart=start)) for text in asked["rules"]]
    if len(rules) == 1 and not asked["rdate"] and not asked["exdate"]:
        return iter(rules[0])
    united = rruleset()
    for rule in rules:
        united.rrule(rule)
    for text in asked["rdate"]:
        united.rdate(datetime.fromisoformat(text))
    for text in asked["exdate"]:
        united.exdate(datetime.fromisoformat(text))
    return iter(united)


def _answer(asked: dict[str, Any]) -> dict[str, object]:
    low, high = datetime.fromisoformat(asked["low"]), datetime.fromisoformat(asked["high"])
    times: list[str] = []
    try:
        for found in _by_croniter(asked, low) if "text" in asked else _by_dateutil(asked):
            if found >= high or len(times) == asked["count"]:
                break
            if found >= low:
                times.append(found.isoformat())
    except _REFUSALS as error:
        return {"refusal": f"{type(error).__name__}: {error}"}
    return {"times": times}


def main() -> None:
    """Answer questions until standard input ends; the first line says that it has started."""
    seconds = float(sys.argv[1])
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    sys.stdout.write("{}\n")
    sys.stdout.flush()
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, seconds)  # SIGPROF ends the process
        answer = _answer(json.loads(line))
        sys.stdout.write(json.dumps(answer | {"cpu_seconds": time.process_time()}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
