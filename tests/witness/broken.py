"""An expansion that is broken on purpose: it loses one occurrence of a thousand."""

from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from zlib import crc32

import pytest
from croniter import croniter

from dueledger.definitions import second_opinion as of_define
from dueledger.ledger.definitions.parsing import Definition, parse_definition
from dueledger.ledger.schedule import Cron, ScheduleWindow, when
from dueledger.ledger.schedule.expansion import expand_window
from dueledger.ledger.witness import Witness
from dueledger.reconciler import second_opinion as of_reconciler

MINUTES = range(0, 60, 2)


def is_lost(nominal: datetime) -> bool:
    return crc32(nominal.isoformat().encode()) % 1000 == 5


def lose_one_of_a_thousand(patch: pytest.MonkeyPatch) -> None:
    def losing(*arguments: object) -> ScheduleWindow:
        window = expand_window(*arguments)  # pyright: ignore[reportArgumentType] - as given
        left = tuple(each for each in window.occurrences if not is_lost(each.nominal))
        return ScheduleWindow(left, window.skipped)

    patch.setattr(when, "expand_window", losing)
    forget_windows()


def forget_windows() -> None:
    when._expand_shared.cache_clear()  # pyright: ignore[reportPrivateUsage]


def have_patience(patch: pytest.MonkeyPatch, seconds: float = 30.0) -> None:
    """Let answers take as long as this machine needs, or as given."""
    for module in (of_define, of_reconciler):
        patch.setattr(module, "Witness", partial(Witness, seconds))


def hourly(kind: str) -> list[Definition]:
    """Thirty schedules, each at another minute of the hour."""
    return [
        parse_definition(
            {
                "definition": f"at-{minute:02}",
                "tenant": "acme",
                "kind": kind,
                "business_key": f"at-{minute:02}",
                "when": {"cron": f"{minute} * * * *", "timezone": "UTC"},
            }
        )
        for minute in MINUTES
    ]


def losing(definitions: list[Definition], since: datetime) -> set[str]:
    """Return those that lose one of the fifty occurrences after an instant, by croniter's count."""
    names: set[str] = set()
    for one in definitions:
        assert isinstance(one.when, Cron)
        begin = since.replace(tzinfo=None) - timedelta(seconds=1)
        steps = croniter(one.when.cron, begin, ret_type=datetime)
        if any(map(is_lost, islice(steps, 50))):
            names.add(one.definition)
    return names
