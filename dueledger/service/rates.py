"""Rates: how many requests a caller may make, by a token bucket for each in this process."""

from collections import OrderedDict
from collections.abc import Callable
from math import ceil
from time import monotonic
from typing import Final

from dueledger.ledger.errors import RateExceeded
from dueledger.ledger.store.api_keys import CallRate

CALLERS_MAX: Final = 10_000


class CallRates:
    """Refuses callers that make more requests than a rate: that of their key, or else `default`.

    It forgets those that asked least recently if there are too many; they begin with a full bucket.
    """

    def __init__(self, default: CallRate, clock: Callable[[], float] = monotonic) -> None:
        self._default = default
        self._clock = clock
        self._buckets: OrderedDict[int, tuple[float, float]] = OrderedDict()

    def take(self, actor_no: int, rate: CallRate | None = None) -> None:
        """Count a request of a caller. Raises RateExceeded, and then counts none."""
        per_second, burst = rate or self._default
        now = self._clock()
        requests, since = self._buckets.pop(actor_no, (float(burst), now))
        requests = min(burst, requests + (now - since) * per_second)
        is_refused = requests < 1
        self._buckets[actor_no] = (requests if is_refused else requests - 1), now
        if len(self._buckets) > CALLERS_MAX:
            self._buckets.popitem(last=False)
        if is_refused:
            message = "Too many requests in the name of this caller. Wait, and try again."
            raise RateExceeded(message, seconds=ceil((1 - requests) / per_second))
