"""Bounds on processor time that hold on a machine that others use too."""

from collections.abc import Awaitable, Callable
from math import inf
from time import monotonic, thread_time
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


async def least_seconds(act: Callable[[], Awaitable[object]], *, enough: float) -> float:
    """Return how long `act` takes at the fastest of up to five attempts; it ends with one in time.

    Of what Postgres computes too: its processor time is no more than the time that passes.
    """
    least = inf
    for _ in range(ATTEMPTS):
        before = monotonic()
        await act()
        least = min(least, monotonic() - before)
        if least <= enough:
            break
    return least
