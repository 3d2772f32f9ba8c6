"""Libraries cannot flood the log."""

import logging
from importlib import import_module
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from dueledger.ledger.errors import Unavailable
from dueledger.ledger.runtime import service
from dueledger.ledger.runtime.log import (
    PASSING,
    REPEAT_SECONDS,
    TEMPLATES_MAX,
    LogEvent,
    RepeatFilter,
)
from dueledger.ledger.runtime.service import Stop, run_service
from dueledger.ledger.runtime.text_file import read_text


class Clock:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def record(template: str, *values: object, logger: str = "aiokafka") -> logging.LogRecord:
    return logging.LogRecord(logger, logging.ERROR, __file__, 1, template, values, None)


def test_a_repeat_is_withheld_whatever_its_values_and_counted_later() -> None:
    clock = Clock()
    repeats = RepeatFilter(clock)
    first = record("no connection to %s", "a")
    assert repeats.filter(first)
    assert first.getMessage() == "no connection to a"
    assert [repeats.filter(record("no connection to %s", node)) for node in "bcd"] == [False] * 3
    clock.seconds += REPEAT_SECONDS
    later = record("no connection to %s", "100%s")
    assert repeats.filter(later)
    assert later.getMessage() == "no connection to 100%s (3 more like it were withheld)"
    clock.seconds += REPEAT_SECONDS
    alone = record("no connection to %s", "f")
    assert repeats.filter(alone)
    assert alone.getMessage() == "no connection to f"


def test_another_logger_or_message_is_no_repeat() -> None:
    repeats = RepeatFilter(Clock())
    assert repeats.filter(record("no connection"))
    assert repeats.filter(record("no leader"))
    assert repeats.filter(record("no connection", logger="asyncio"))


def test_what_is_remembered_is_bounded() -> None:
    repeats = RepeatFilter(Clock())
    passed = [repeats.filter(record(f"message {number}")) for number in range(TEMPLATES_MAX + 1)]
    assert all(passed)
    assert repeats.filter(record("message 0"))


def test_what_a_client_says_in_passing_is_written_only_where_it_goes_on() -> None:
    clock = Clock()
    repeats = RepeatFilter(clock)

    def missing() -> logging.LogRecord:
        template = "Topic %s not found in cluster metadata"
        return record(template, "due.A", logger="aiokafka.cluster")

    assert not repeats.filter(missing())
    clock.seconds += 60 * REPEAT_SECONDS
    assert not repeats.filter(missing())
    clock.seconds += REPEAT_SECONDS / 2
    assert not repeats.filter(missing())
    clock.seconds += REPEAT_SECONDS / 2
    goes_on = missing()
    assert repeats.filter(goes_on)
    assert "(2 more like it were withheld)" in goes_on.getMessage()


def test_what_passes_is_what_the_client_logs() -> None:
    for logger, template in PASSING:
        source = Path(import_module(logger).__file__ or "").read_text()
        assert f'"{template}"' in source


async def test_a_failed_tick_names_the_function_of_the_product_that_raised() -> None:
    stop = Stop()

    async def tick() -> dict[str, int]:
        stop.request()
        read_text(Path("missing"), 1)
        return {}

    with capture_logs() as logged:
        await run_service("test", tick, stop=stop, idle_seconds=0.0)
    (line,) = logged
    assert line["event"] == LogEvent.TICK_FAILED
    assert line["raised_in"] == "dueledger.ledger.runtime.text_file.read_text"


async def test_a_wait_for_a_server_is_logged_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(service, "monotonic", clock)
    monkeypatch.setattr(service, "AWAITED_CAP_SECONDS", 0)
    calls = 0

    async def connect() -> int:
        nonlocal calls
        calls += 1
        clock.seconds += 25
        if calls == 9:
            return calls
        raise Unavailable("nobody listens", service="postgres")

    with capture_logs() as logged:
        assert await service.until_available(connect) == 9
    assert {line["event"] for line in logged} == {LogEvent.SERVICE_AWAITED}
    assert [line["failures"] for line in logged] == [1, 4, 7]
