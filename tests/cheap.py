"""Bounds on processor time that hold on a machine that others use too."""

from collections.abc import Callable
from math import inf
from time import thread_time
from typing import Final

import pytest

ATTEMPTS: Final = 5


def check_cheap(act: Callable[[], object], *, seconds: float) -> None:
    """Fail where `act` takes more processor time than `seconds` at each of five attempts.

    A neighbour slows down some attempts, not all. `act` must not leave its result in a cache.
    """
    least = inf
    for _ in range(ATTEMPTS):
        before = thread_time()
        act()
        least = min(least, thread_time() - before)
        if least < seconds:
            return
    pytest.fail(f"takes {least:.3f} s of processor time, more than {seconds} s")
