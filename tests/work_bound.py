"""Bounds on work, counted in lines of Python that run: the same on every machine."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


def check_lines(act: Callable[[], T], *, lines_max: int) -> T:
    """Return what `act` returns; fail where that runs more lines, each turn of a loop counted.

    What C does without calling Python, as matching a pattern, counts nothing.
    """
    lines = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> Any:  # noqa: ANN401 - itself
        nonlocal lines
        if event == "line":
            lines += 1
            if lines > lines_max:
                pytest.fail(f"takes more than {lines_max:,} lines")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return act()
    finally:
        sys.settrace(before)
