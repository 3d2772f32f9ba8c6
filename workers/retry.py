"""The delay of a retry: that of its verdict, the handler's backoff, or the kind's.

Whether an item is retried or parked is decided in SQL, by `ledger.outcome_event`: of runs that end,
and of those whose worker is lost.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Final, TypeGuard

if TYPE_CHECKING:
    from dueledger.workers.handlers import HandlerOptions
    from dueledger.workers.verdicts import Retry

_DOUBLINGS_MAX: Final = 32
_SECONDS_MAX: Final = 10 * 366 * 86_400.0


def retry_delay_seconds(verdict: Retry, attempt: int, options: HandlerOptions) -> float | None:
    """Return the delay of a Retry; None leaves it to the ledger, which has the kind's backoff.

    Raises ValueError if `after_seconds` is not a delay.
    """
    if verdict.after_seconds is None:
        return own_backoff_seconds(attempt, options)
    if not is_delay(verdict.after_seconds):
        raise ValueError("after_seconds is not a delay")
    return float(verdict.after_seconds)


def own_backoff_seconds(attempt: int, options: HandlerOptions) -> float | None:
    """Return the handler's backoff; None leaves it to the ledger, which has the kind's backoff."""
    return backoff_seconds(attempt, options) if options.has_own_backoff else None


def backoff_seconds(attempt: int, options: HandlerOptions) -> float:
    """Return exponential backoff with full jitter under a cap (AWS Architecture Blog, 2015)."""
    doublings = min(max(attempt, 1) - 1, _DOUBLINGS_MAX)
    base, cap = options.backoff
    most = min(cap, base * 2.0**doublings)
    return random.uniform(0.0, most)  # noqa: S311  # jitter, no secret


def is_delay(seconds: object) -> TypeGuard[float]:
    """Return whether it is a finite number of seconds from 0 to ten years."""
    return (
        isinstance(seconds, int | float)
        and not isinstance(seconds, bool)
        and math.isfinite(seconds)
        and 0 <= seconds <= _SECONDS_MAX
    )
