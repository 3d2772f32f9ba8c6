"""The catalogue of log events holds against the code, and libraries cannot flood the log."""

import ast
import logging
from collections.abc import Iterator
from pathlib import Path

import dueledger.ledger
from dueledger.ledger.runtime.log import REPEAT_SECONDS, TEMPLATES_MAX, LogEvent, RepeatFilter

CHECKOUT = Path(dueledger.ledger.__file__).resolve().parents[1]
PACKAGES = ("allocator", "dueledger", "ledger", "reconciler", "workers")
LEVELS = {"debug", "info", "warning", "error", "critical", "exception"}


def production_nodes() -> Iterator[tuple[Path, ast.AST]]:
    for package in PACKAGES:
        for path in sorted((CHECKOUT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
                yield path.relative_to(CHECKOUT), node


def test_every_event_of_the_catalogue_is_logged_somewhere() -> None:
    used: set[str] = set()
    for _, node in production_nodes():
        match node:
            case ast.Attribute(value=ast.Name(id="LogEvent"), attr=name):
                used.add(name)
            case _:
                pass
    assert used == set(LogEvent.__members__)


def test_nothing_is_logged_that_is_not_in_the_catalogue() -> None:
    literal: list[str] = []
    for path, node in production_nodes():
        match node:
            case ast.Call(
                func=ast.Attribute(
                    value=ast.Name(id="log") | ast.Attribute(attr="log" | "_log"), attr=level
                ),
                args=[ast.Constant(value=str()) | ast.JoinedStr(), *_],
            ) if level in LEVELS:
                literal.append(f"{path}:{node.lineno}")
            case _:
                pass
    assert literal == []


class Clock:
    """Stands still until it is moved."""

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
